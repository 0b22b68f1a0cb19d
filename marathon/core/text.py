"""Makes text that an agent or a repository wrote safe to show, and human durations readable."""

from __future__ import annotations

import re

COMPLETE_MARK = "<loop-complete>"
# CSI, OSC/DCS/APC/PM/SOS strings, and two-character escapes; what is left of a broken one falls to _CONTROL.
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]"
)
# Controls except newline and tab, bidirectional marks and overrides, line separators, lone surrogates.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def clean(text: str) -> str:
    """The text without anything a terminal would act on."""
    return _CONTROL.sub("", _ESCAPE.sub("", text.replace("\r\n", "\n")))


def one_line(text: str, width: int = 200) -> str:
    """The text cleaned, on one line, cut with an ellipsis."""
    line = " ".join(clean(text).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def duration(seconds: float) -> str:
    """45s, 3m 05s, 2h 07m: what a person would say."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def seconds_in(text: str) -> float | None:
    """90, 90s, 5m, 2h, 1d, 1.5h as seconds; None for what is no duration."""
    match = _DURATION.fullmatch(text.strip())
    return float(match[1]) * _UNITS[match[2] or "s"] if match else None


def amount(tokens: int) -> str:
    """950, 12.4k, 3.1M tokens."""
    if tokens < 1000:
        return str(tokens)
    return f"{tokens / 1000:.1f}k" if tokens < 1_000_000 else f"{tokens / 1_000_000:.1f}M"


def says_complete(message: str) -> bool:
    """Whether an agent's last message says that all is done: the mark, on a line of its own."""
    return any(line.strip() == COMPLETE_MARK for line in message.splitlines())


def steps_line(steps: tuple[int, int] | None) -> str:
    """7/9 steps, of a plan that has boxes to tick."""
    return f"{steps[0]}/{steps[1]} steps" if steps and steps[1] else ""


def quoted(text: str) -> str:
    """The text as a Markdown quotation, so that nothing in it can pass for a heading of ours."""
    return "\n".join(f"> {line}".rstrip() for line in text.strip("\n").splitlines())
