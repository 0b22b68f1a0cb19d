"""What a gate shows and which keys it takes: data and text, no terminal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Literal

from marathon.core.records import CheckResult, GateKind
from marathon.core.steps import Gate
from marathon.core.text import clean, one_line

TITLE = (
    "╔══════════════════════════════════════════════════════════════════╗\n"
    "║  ⏸️  MARATHON PAUSED                                              ║\n"
    "╚══════════════════════════════════════════════════════════════════╝"
)
RULE = "─" * 68
EMPTY_ANSWER = "An empty answer: the agent decides."
BEFOREHAND = ("clarify", "checks")  # gates before there is anything to do again


@dataclass(frozen=True)
class Reply:
    """What the human decided. quit and cancel leave the gate as it is or end the run; look: a file may say more now."""

    choice: Literal["continue", "redo", "loop", "answer", "quit", "cancel", "look"]
    phase: str | None = None
    text: str = ""
    by: Literal["terminal", "command", "auto"] = "terminal"
    message: str = ""


@dataclass(frozen=True)
class GateView:
    """A gate as a human meets it."""

    gate: Gate
    task: Path
    iteration: int
    next_phase: str | None = None
    output: Path | None = None
    previous_round: Path | None = None
    phases: Sequence[str] = ()
    can_loop: bool = False
    breadcrumb: str = ""
    resume: str = ""
    steps: str = ""
    checks: Sequence[str] = ()
    printed: Path | None = None

    @property
    def asks(self) -> bool:
        return self.gate.kind == "question"


@dataclass(frozen=True)
class Option:
    key: str
    label: str
    shown: str = field(default="")

    def __str__(self) -> str:
        return f"  [{self.shown or self.key}]".ljust(11) + self.label


def options(view: GateView) -> list[Option]:
    """The keys of this gate, in the order they are shown."""
    if view.asks:
        return [Option("enter", "Answer the question", "Enter"), Option("q", "Quit marathon")]
    found = []
    if view.gate.kind != "workflow":
        found.append(Option("enter", _onward(view), "Enter"))
    if view.gate.kind not in ("workflow", "checks"):  # words are no agreement to run something
        found.append(Option("f", _feedback(view)))
    if view.gate.kind == "checks":
        found.append(Option("r", "Refuse, saying why: one session may mend it"))
    elif view.gate.kind not in ("workflow", "clarify"):
        found.append(Option("r", f"Redo {view.gate.phase}, saying why"))
    if view.gate.kind in ("skipped", "paused", "workflow"):
        found += [Option(str(number), f"Go to {phase}") for number, phase in enumerate(view.phases[:9], start=1)]
    if view.output:
        found.append(Option("v", f"View {view.output.name}"))
        found.append(Option("e", f"Edit {view.output.name}"))
    if view.previous_round:
        found.append(Option("d", "Show what changed since the last round"))
    if view.can_loop and view.gate.kind not in BEFOREHAND:
        found.append(Option("l", "Loop: start this workflow again from its first phase"))
    found.append(Option("c", "Cancel this run (asks once more)"))
    found.append(Option("q", "Quit marathon"))
    return found


def _feedback(view: GateView) -> str:
    if view.gate.kind == "clarify":
        return "Say what is missing (writes to human.md)"
    return "Add feedback first (writes to human.md)"


_ONWARD = {
    "limit": "Continue, allowing as much again",
    "clarify": "Start all the same; you are asked after every session",
    "checks": "Agree to exactly these",
    "session": "Go on with the next session",
}


def _onward(view: GateView) -> str:
    if view.gate.kind in _ONWARD:
        return _ONWARD[view.gate.kind]
    if view.gate.onward == "next":
        return "Continue to next phase" if view.next_phase else "Accept: this was the last phase"
    return f"Go on with {view.gate.phase}"


def describe(view: GateView) -> list[str]:
    """Everything above the keys."""
    gate = view.gate
    lines = ["", TITLE, "", f"Phase: {gate.phase} | Iteration: {view.iteration}"]
    if view.breadcrumb.count(" > ") > 1:
        lines.append(view.breadcrumb)
    if view.asks:
        lines += ["", "The agent asks:", *(f"  {line}" for line in clean(gate.message).splitlines())]
    elif gate.kind in BEFOREHAND:  # whole: somebody may be about to agree to it
        first, *rest = clean(gate.message).splitlines() or [""]
        lines += [f"⚠️  {first}", *(f"    {line}" for line in rest)]
    elif gate.message:
        lines.append(f"⚠️  {one_line(gate.message, 600)}")
    if gate.more:
        lines.append(f"To go on with more: {with_option(view.resume, gate.more)}")
    if gate.note:
        lines.append(f"Note: {one_line(gate.note, 600)}")
    if view.steps:
        lines.append(f"Plan: {view.steps}")
    lines += view.checks
    if view.printed:
        lines.append(f"All it printed: {view.printed}")
    if view.output:
        lines.append(f"{'It stands in' if gate.kind in BEFOREHAND else 'Review the output'}: {view.output}")
    return lines


def with_option(command: str, option: str) -> str:
    """The command that goes on, with one more option; what comes after -- is the agent's."""
    return command.replace("pi-marathon ", f"pi-marathon {option} ", 1)


def check_lines(results: Sequence[CheckResult]) -> list[str]:
    """Each criterion as it was found."""
    return [
        f"{'✓' if result.met else '✗'} {one_line(result.name, 120)}"
        + ("" if result.met else f": {one_line(result.reason, 200)}")
        for result in results
    ]


def fitted(text: str, columns: int) -> str:
    """The gate without its frame where the window is too narrow for that."""
    if columns >= len(RULE):
        return text
    return text.replace(TITLE, "⏸️  MARATHON PAUSED").replace(RULE, "─" * columns)


def answering_commands(kind: GateKind, phase: str, task_folder: Path, phases: Sequence[str]) -> list[str]:
    """The commands that answer such a gate of a phase from a shell, each as it can be typed."""
    task = shlex.quote(str(task_folder))
    approve = [f"pi-marathon approve {task}", f'pi-marathon approve {task} -m "note"']
    if kind == "question":
        return [f'pi-marathon answer {task} "your answer"']
    if kind == "workflow":
        return [f'pi-marathon redo {task} --phase {each} -m "why"' for each in phases]
    if kind == "clarify":
        return approve
    if kind == "checks":
        return [approve[0], f'pi-marathon redo {task} -m "why not"']
    before = takewhile(lambda each: each != phase, phases)
    earlier = [f'pi-marathon redo {task} --phase {each} -m "why"' for each in before]
    return [*approve, f'pi-marathon redo {task} -m "why"', *earlier]
