"""What each event looks like, as lines with a style. The text of agents is cleaned when it becomes rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from marathon.core import events
from marathon.core.budgets import Usage, number_in
from marathon.core.text import amount, clean, counted, duration, one_line
from marathon.show.markdown import markdown_rows, wrapped
from marathon.show.status import check_line

# The codes of the 16 colours, which a terminal's own theme makes readable on its background.
BOLD, DIM, RED, GREEN, YELLOW, CYAN, HEAD, THOUGHT = "1", "2", "31", "32", "33", "36", "1;36", "2;3"
_LEVELS = {"info": ("", BOLD), "warning": ("⚠️  ", YELLOW), "error": ("❌ ", RED)}
_RESULT_LINES, _DIFF_LINES, _THOUGHT_LINES = 5, 40, 3
_ALL = 10**9
_LONGEST_LINE = 400  # characters of a line that a tool printed
_MOST_COMPARED = 400  # lines; comparing more takes long


class Line(NamedTuple):
    text: str
    style: str = ""
    margin: str = ""  # stands before each of its rows
    whole: bool = False  # never broken, so that a command in it can be copied


class Prose(NamedTuple):
    """Markdown of the agent."""

    text: str


Block = Sequence[Line | Prose]


# Events


def _session_ended(event: events.SessionEnded) -> Block:
    """45s, 3 turns, 12.4k tok, $0.12, and what went wrong."""
    cause = f": {one_line(event.cause, 200)}" if event.cause else ""
    went_wrong = "" if event.ending == "ended" else event.ending + cause
    parts = [duration(event.seconds), *_spent(event.usage), event.steps, went_wrong]
    return [Line(f"─── {' │ '.join(filter(None, parts))} ───", HEAD)]


def _spent(used: Usage | None) -> list[str]:
    """3 turns, 12.4k tok, $0.12"""
    if not used or not used.turns:
        return []
    cost = [f"${used.cost:.2f}"] if used.cost else []  # not every agent tells it
    return [counted(used.turns, "turn"), f"{amount(used.tokens)} tok", *cost]


def _output(event: events.Output) -> Block:
    # A piece of a very long line is nothing that anyone could read.
    text = one_line(event.text[:8000], 2000) if event.complete else ""
    return [Line(text, margin="  ")] if text else []


def _notice(event: events.Notice) -> Block:
    sign, style = _LEVELS[event.level]
    return [Line(line, style, whole=True) for line in (sign + event.text).split("\n")]


def _check_ended(event: events.CheckEnded) -> Block:
    known_by = ("ran" if event.command else "agent") if event.met else None
    took = f" ({duration(event.seconds)})" if event.command else ""
    return [Line(check_line({**vars(event), "known_by": known_by}) + took, BOLD)]


def _compaction_ended(event: events.CompactionEnded) -> Block:
    if event.error:
        return [Line(f"⚠️  The context could not be compacted: {event.error}", YELLOW)]
    sizes = f": {amount(event.before)} → {amount(event.after)} tokens" if event.before and event.after else ""
    took = f" ({duration(event.seconds)})" if event.seconds else ""
    return [Line(f"✓ The context is compacted{sizes}{took}", DIM)]


def _retry_began(event: events.RetryBegan) -> Block:
    attempt, wait = f"{event.attempt}/{event.most}", duration(event.wait)
    return [Line(f"⟳ Trying again ({attempt}) in {wait}: {one_line(event.cause, 300)}", YELLOW)]


def _retry_ended(event: events.RetryEnded) -> Block:
    if event.error:
        return [Line(f"❌ Gave up after {counted(event.attempt, 'retry', 'retries')}: {event.error}", RED)]
    return [Line(f"✓ Retry {event.attempt} succeeded", DIM)]


_COUNTS = {"iterate": "iteration"}  # a measured loop counts its changes
_TABLE: dict[type[events.Logged], Callable[[Any], Block]] = {
    events.SessionBegan: lambda event: [
        Line(f"─── {head(event)} · {_COUNTS.get(event.phase, 'session')} {event.iteration} · {event.agent} ───", HEAD)
    ],
    events.SessionEnded: _session_ended,
    events.Output: _output,
    events.Notice: _notice,
    events.CheckEnded: _check_ended,
    events.CompactionBegan: lambda event: [Line(f"⏳ Compacting the context ({one_line(event.reason, 60)})", DIM)],
    events.CompactionEnded: _compaction_ended,
    events.RetryBegan: _retry_began,
    events.RetryEnded: _retry_ended,
    events.WaitBegan: lambda event: [Line(f"⏳ {one_line(event.reason, 120)} │ {duration(event.seconds)} left")],
}


def block_of(event: events.Logged) -> Block:
    """The lines of an event that stands for itself."""
    return _TABLE[type(event)](event) if type(event) in _TABLE else []


def head(session: events.SessionBegan) -> str:
    return f"{session.emoji} {session.phase}".strip()


# Tool calls and thoughts


def title(call: events.ToolCalled, seconds: float = 0) -> str:
    """bash make test · 12s"""
    first, count = (int(number_in(call.arguments.get(name))) for name in ("offset", "limit"))
    lines = f":{first}-{first + count - 1}" if first and count else f":{first}" if first else ""
    took = f" · {duration(seconds)}" if seconds >= 1 else ""
    return f"{one_line(call.name, 40)} {call.summary}".rstrip() + lines + took


def call_block(call: events.ToolCalled, end: events.ToolEnded | None, *, whole: bool = False) -> Block:
    """A call with its result, or without one if the session was over before the call. `whole` folds nothing."""
    if end is None:
        return [Line(f"⚙ {title(call)}", CYAN), *printed("it did not end")]
    name = call.name.lower()
    lines = _ARGUMENTS[name](call.arguments, whole) if name in _ARGUMENTS else []
    lines = _diff(end.diff.splitlines(), whole) if end.diff else lines
    most = _ALL if whole else _RESULT_LINES
    if end.failed:
        result = printed(end.text, RED, last=True, most=most)
        return [Line(f"✗ {title(call, end.seconds)} · failed", RED), *lines, *result]
    # What was edited or written says more than that it succeeded.
    result = lines or printed(end.text, last=name == "bash", most=most)
    return [Line(f"⚙ {title(call, end.seconds)}", CYAN), *result]


def printed(text: str, style: str = DIM, *, last: bool = False, most: int = _RESULT_LINES) -> list[Line]:
    """What a tool printed, without empty lines: its beginning, or its end."""
    lines = [Line(_cut(line, most), style, "  │ ") for line in text.splitlines() if line.strip()]
    return _folded(lines, most, last=last)


def thought(text: str, width: int | None, *, whole: bool = False) -> Block:
    lines = [line for line in clean(text).expandtabs(4).splitlines() if line.strip()]
    if width:
        lines = [row for line in lines for row in wrapped(line, width)]
    return _folded([Line(line, THOUGHT) for line in lines], _ALL if whole else _THOUGHT_LINES)


def _folded(lines: list[Line], most: int, *, last: bool = False) -> list[Line]:
    """The first lines, or the last ones, and how many are hidden. A single line is not worth hiding."""
    hidden = len(lines) - most
    if hidden < 2:
        return lines
    note = lines[0]._replace(text=f"… {hidden} {'earlier' if last else 'more'} lines", style=DIM)
    return [note, *lines[-most:]] if last else [*lines[:most], note]


def _cut(line: str, most: int) -> str:
    return line if len(line) <= _LONGEST_LINE or most == _ALL else line[:_LONGEST_LINE] + "…"


def _edits(arguments: Mapping[str, Any], whole: bool) -> list[Line]:
    """The changes of an edit, as pi or Claude Code names them."""
    edits, lines = arguments.get("edits"), list[str]()
    for edit in edits if isinstance(edits, list) else [arguments]:
        known = edit if isinstance(edit, Mapping) else {}
        old, new = known.get("oldText", known.get("old_string")), known.get("newText", known.get("new_string"))
        if isinstance(old, str) and isinstance(new, str):
            lines += _changes(old.splitlines(), new.splitlines())
    return _diff(lines, whole)


def _changes(old: list[str], new: list[str]) -> list[str]:
    from difflib import ndiff

    if len(old) + len(new) > _MOST_COMPARED:
        return [*(f"- {line}" for line in old), *(f"+ {line}" for line in new)]
    return [line for line in ndiff(old, new) if line[0] != "?"]


def _diff(lines: list[str], whole: bool) -> list[Line]:
    styles, most = {"-": RED, "+": GREEN}, _ALL if whole else _DIFF_LINES
    return _folded([Line(_cut(line, most), styles.get(line[:1], DIM), "  │ ") for line in lines], most)


def _content(arguments: Mapping[str, Any], whole: bool) -> list[Line]:
    content, most = arguments.get("content"), _ALL if whole else _RESULT_LINES
    return printed(content, GREEN, most=most) if isinstance(content, str) else []


_ARGUMENTS = {"edit": _edits, "write": _content}


# Rows


def rows(block: Block, width: int | None, color: bool) -> list[str]:
    """The block as rows of a terminal, or as lines as they are if there is no width."""
    shown: list[str] = []
    for part in block:
        text = clean(part.text)
        if isinstance(part, Prose):
            shown += text.strip("\n").split("\n") if width is None else markdown_rows(text, width, color)
            continue
        text, indent = text.expandtabs(4).rstrip(), "" if part.margin else "  "
        whole = width is None or part.whole
        for row in [text] if whole else wrapped(text, (width or 0) - len(part.margin), indent):
            shown.append(styled(part.margin, DIM, color) + styled(row, part.style, color))
    return shown


def styled(text: str, style: str, color: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style and color and text.strip() else text
