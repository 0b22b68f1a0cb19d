"""Makes the text of agents and repositories safe to show, and makes numbers and times readable."""

from __future__ import annotations

import re
from datetime import UTC, datetime

COMPLETE_MARK = "<loop-complete>"
# CSI, OSC/DCS/APC/PM/SOS strings, and two-character escapes. _CONTROL removes the rest of a broken one.
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]"
)
# Controls except newline and tab, bidirectional marks and overrides, line separators, lone surrogates.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_FENCE = re.compile(r"[\s>*+-]*(?:\d+[.)]\s+)?(`{3,}|~{3,})(.*)")  # of a block of code, also in a list or a quote
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def clean(text: str) -> str:
    """The text without anything that a terminal would act on."""
    return _CONTROL.sub("", _ESCAPE.sub("", text.replace("\r\n", "\n")))


def one_line(text: str, width: int = 200) -> str:
    """The text cleaned, on one line, cut with an ellipsis, after a word where one ends near enough."""
    line = " ".join(clean(text).split())
    return line if len(line) <= width else cut(line, width - 1) + "…"


def cut(line: str, length: int) -> str:
    """The beginning of the line, without a piece of a word unless the word is a long one."""
    if line[length : length + 1] in ("", " "):
        return line[:length].rstrip()
    end = line.rfind(" ", length * 3 // 4, length)
    return line[: end if end > 0 else length].rstrip()


def wrapped(line: str, columns: int, indent: str = "") -> str:
    """The line in rows of so many columns, broken at words. Parts, which ` · ` separates, are kept whole if they fit.

    The indent stands before each row but the first. A word that is longer than a row stays whole, for copying.
    """
    import textwrap

    columns = max(20, columns)
    parts = line.split(" · ")
    whole = [part.replace(" ", "\xa0") if len(part) + len(indent) + 2 <= columns else part for part in parts]
    held = "\xa0· ".join(whole) if len(parts) > 1 else line
    rows = textwrap.wrap(held, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(rows).replace("\xa0", " ")


def duration(seconds: float) -> str:
    """Seconds as a person would say them, such as 45s, 3m 05s, 2h 07m."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def age(seconds: float) -> str:
    """How long ago something was, in the largest unit that fits: 45s, 12m, 3h, 5d."""
    whole = max(0, round(seconds))
    return next((f"{whole // _UNITS[unit]}{unit}" for unit in "dhm" if whole >= _UNITS[unit]), f"{whole}s")


def utc(moment: datetime) -> str:
    """ISO-8601 in UTC with a Z, to the second."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


def seconds_in(text: str) -> float | None:
    """Read 90, 90s, 5m, 2h, 1d or 1.5h as seconds. None means that the text is not a duration."""
    match = _DURATION.fullmatch(text.strip())
    return float(match[1]) * _UNITS[match[2] or "s"] if match else None


def amount(tokens: int) -> str:
    """A number of tokens as 950, 12.4k or 3.1M."""
    if tokens < 1000:
        return str(tokens)
    return f"{tokens / 1000:.1f}k" if tokens < 1_000_000 else f"{tokens / 1_000_000:.1f}M"


def money(dollars: float) -> str:
    return f"${dollars:.2f}"


def size(count: int) -> str:
    """A number of bytes as 950 bytes, 1.0 MB or 42.9 GB."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


def counted(number: float, one: str, many: str = "") -> str:
    """Such as 1 session, 2 sessions, 1 criterion, 0 criteria."""
    return f"{number:.0f} {one if number == 1 else many or one + 's'}"


def says_complete(message: str) -> bool:
    """Whether an agent's last message has the mark of completion on a line of its own, outside of code and quotes."""
    fence = ""
    for line in message.splitlines():
        found = _FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
        elif found and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
        elif line.strip() == COMPLETE_MARK and not line.startswith(("    ", "\t")):
            return True
    return False


def steps_line(steps: tuple[int, int] | None) -> str:
    """Such as 7/9 steps, or nothing for a plan without check boxes."""
    return f"{steps[0]}/{counted(steps[1], 'step')}" if steps and steps[1] else ""


def quoted(text: str) -> str:
    """The text as a Markdown quotation, so that no line of it looks like our own heading."""
    return "\n".join(f"> {line}".rstrip() for line in text.strip("\n").splitlines())
