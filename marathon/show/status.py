"""What is known of a task, as plain data and as the lines of `status`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from marathon.core.budgets import Usage
from marathon.core.text import amount, clean, counted, duration, one_line, wrapped
from marathon.show.program import program

NOTHING_USED = Usage()
REBOOTED = "stopped by a reboot"
_KNOWN_BY = {"ran": "✓ ran:", "agent": "○ agent says:", "accepted": "✓ you accepted:"}


@dataclass(frozen=True)
class Status:
    """A task as a person would describe it."""

    task: str
    condition: str
    phase: str = ""
    breadcrumb: str = ""
    run: int = 0
    iteration: int = 0
    seconds: float = 0
    usage: Usage = NOTHING_USED
    oversight: str = ""
    budget: Sequence[str] = ()
    steps: str = ""
    checks: Sequence[dict[str, Any]] = ()
    reviews: Sequence[dict[str, Any]] = ()
    waits_for: str = ""
    note: str = ""
    runner: str = ""
    steering: int = 0
    sessions: Sequence[dict[str, Any]] = ()
    session: dict[str, Any] | None = None  # the one that runs now: iteration, phase, seconds, usage, what it did last
    log: str = ""  # what is no longer in the log of the last session
    gate: dict[str, Any] | None = None
    put_back: Sequence[str] = ()  # shell commands that bring back what sessions may not write
    answer_with: Sequence[str] = ()
    resume: str = ""
    worktree: str = ""  # where the agent works, if not in the project itself
    branch: str = ""
    started_with: str = ""  # the options that a start goes on with, as they are typed
    background: bool = False  # the runner has no terminal
    rebooted: bool = False  # the runner ended with the machine

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def status_lines(status: Status, columns: int = 0) -> list[str]:
    """Everything that is known, in a window of so many columns. Commands are not broken, so that they can be copied."""

    def row(line: str, indent: int) -> list[str]:
        line = clean(line)
        held = line[:indent].replace(" ", "\xa0") + line[indent:]  # a path as long as a row stays beside its label
        return wrapped(held, columns, " " * indent).split("\n") if 0 < columns < len(line) else [line]

    rows = [
        ("Task", status.task),
        ("State", f"{status.condition} ({REBOOTED})" if status.rebooted else status.condition),
        ("Phase", status.breadcrumb or status.phase),
        ("Run", f"{status.run}, session {status.iteration}" if status.run else ""),
        ("Worked", duration(status.seconds) if status.run else ""),
        ("Used", _used(status.usage)),
        ("Budget", ", ".join(status.budget)),
        ("Now", _running(status.session) if status.session else ""),
        *(_calls(status.session) if status.session else ()),
        ("Said", status.session["last_line"] if status.session else ""),
        ("Log", status.log),
        ("Plan", status.steps),
        ("Oversight", "you are asked after every session" if status.oversight == "colleague" else ""),
        ("Reviews", ", ".join(map(_review, status.reviews))),
        ("Waits for", status.waits_for),
        ("To read", (status.gate or {}).get("document") or ""),
        ("Note", one_line(status.note, 300)),
        ("Runner", status.runner),
        ("Worktree", f"{status.worktree} (branch {status.branch})" if status.branch else ""),
        ("Options", status.started_with),
        ("Told", f"{counted(status.steering, 'message')} for the next session" if status.steering else ""),
    ]
    lines = [part for label, value in rows if value for part in row(f"{label + ':':11}{value}", 11)]
    if status.checks:
        lines += ["Criteria:", *(part for each in status.checks for part in row(f"  {check_line(each)}", 4))]
    if status.sessions:
        lines += ["Sessions:", *(part for each in status.sessions for part in row(session_line(each), 8))]
    if status.background:
        lines.append(f"{'See it:':11}{program()} attach {shlex.quote(status.task)}")
    if status.put_back:
        lines += [
            "Undone. To put it back:",
            *(f"  {each}" for each in status.put_back),
        ]
    if status.answer_with:
        lines += ["Answer with one of:", *(f"  {command}" for command in status.answer_with)]
    if status.resume:
        lines.append(f"{'Continue:':11}{status.resume}")
    return [clean(line) for line in lines]


def check_line(facts: dict[str, Any]) -> str:
    """A criterion with its latest result. `met` is None where it was not checked yet.

    What ran, what the agent says and what a human accepted never look the same.
    """
    known_by = facts.get("known_by")
    sign = _KNOWN_BY[known_by] if known_by else "·" if facts["met"] is None else "✗"
    evidence = f" (evidence: {one_line(facts['evidence'], 200)})" if facts.get("evidence") else ""
    reason = f": {one_line(facts['reason'], 200)}" if facts["reason"] else ""
    return f"{sign} {one_line(facts['name'], 120)}{evidence}{reason}"


def _review(facts: dict[str, Any]) -> str:
    return f"{one_line(facts['phase'], 40)} {'reviewed' if facts['reviewed'] else 'not reviewed (--auto-approve)'}"


def session_line(facts: dict[str, Any]) -> str:
    """A session by its facts (see core/sessions.py)."""
    cost = f"  ${facts['usage']['cost']:.2f}" if facts["usage"] and facts["usage"]["cost"] else ""  # else unknown
    cause = f"  {one_line(facts['cause'], 100)}" if facts["cause"] else ""
    phase, took = one_line(facts["phase"], 40), duration(facts["seconds"])
    return f"  {facts['iteration']:>4}  {phase:12} {took:>8}{cost}  {facts['ending']}{cause}"


def _running(facts: dict[str, Any]) -> str:
    """session 3 (plan) for 4m, $0.12, 12.4k tokens"""
    usage = Usage(**facts["usage"])
    used = [_money(usage), f"{amount(usage.tokens)} tokens"] if usage.turns else []
    since = f"session {facts['iteration']} ({one_line(facts['phase'], 40)}) for {duration(facts['seconds'])}"
    return ", ".join(filter(None, [since, *used]))


def _calls(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The call that runs now, and else the last one."""
    if facts["tool"]:
        return [("Doing", f"{facts['tool']} (for {duration(facts['tool_seconds'])})")]
    return [("Did", facts["last_tool"])]


def _used(usage: Usage) -> str:
    """$1.20, 240.1k tokens (3.0k in, 2.1k out, 235.0k cached), 31 turns, 44 tool calls, model"""
    if not usage.turns:
        return ""
    kinds = {"in": usage.input, "out": usage.output, "cached": usage.cacheRead + usage.cacheWrite}
    tokens = f"{amount(usage.tokens)} tokens ({', '.join(f'{amount(n)} {kind}' for kind, n in kinds.items())})"
    turns, calls = counted(usage.turns, "turn"), counted(usage.toolCalls, "tool call")
    return ", ".join(filter(None, [_money(usage), tokens, turns, calls, usage.model]))


def _money(usage: Usage) -> str:
    """Nothing for an agent that does not tell its cost."""
    return f"${usage.cost:.2f}" if usage.cost else ""
