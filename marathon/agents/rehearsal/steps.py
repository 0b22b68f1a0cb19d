"""The plan's checklist: how each kind of step is worded, read back, ticked and amended.

plan.md is the only memory between sessions, and a human may edit it: what it says is what is done.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from marathon.agents.rehearsal.heed import Heeded, quoted
from marathon.agents.rehearsal.rounds import EARLIER

_BOX = re.compile(r"^- \[([ xX])\] (?:(\d+)\. )?(.*)$")
_CHUNK = re.compile(r"^## Chunk\b")
_KINDS = {
    "docstrings": re.compile(r"Add docstrings in `([^`]+)`: (`.+`)"),
    "unittest": re.compile(r"Write `([^`]+)`: unit tests for `([^`]+)` of `([^`]+)`"),
    "readme": re.compile(r"List the public functions in `([^`]+)`"),
    "tidy": re.compile(r"Tidy the line ends of `([^`]+)`"),
    "contents": re.compile(r"Write `([^`]+)`: every file with its lines"),
    "heed": re.compile(r"Heed (\w+) “(.*)”: (.*)"),
    "tests": re.compile(r"Run the tests"),
}


class Step(NamedTuple):
    line: int
    chunk: int
    done: bool
    number: int
    text: str
    kind: str
    parts: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The functions a docstring step is about."""
        return re.findall(r"`([^`]+)`", self.parts[1])


def docstrings_step(path: str, names: Iterable[str]) -> str:
    return f"Add docstrings in `{path}`: {quoted(names)}."


def unittest_step(path: str, name: str, source: str) -> str:
    return f"Write `{path}`: unit tests for `{name}` of `{source}`."


def readme_step(path: str) -> str:
    return f"List the public functions in `{path}`."


def tidy_step(path: str) -> str:
    return f"Tidy the line ends of `{path}`."


def contents_step(path: str) -> str:
    return f"Write `{path}`: every file with its lines."


def heed_step(heeded: Heeded) -> str:
    return f"Heed {heeded.ask.kind} “{heeded.ask.text}”: {heeded.answer}"


def tests_step(command: str) -> str:
    return f"Run the tests: `{command}`." if command else "Run the tests, if there are any by then."


def steps(plan: str) -> list[Step]:
    """Every box of the plan as it stands now, with the chunk it belongs to."""
    found: list[Step] = []
    chunk = 0
    for at, line in enumerate(plan.partition(f"\n{EARLIER}\n")[0].split("\n")):
        chunk += bool(_CHUNK.match(line))
        box = _BOX.match(line)
        if box:
            kind, parts = _read(box.group(3))
            number = int(box.group(2) or len(found) + 1)
            found.append(Step(at, max(chunk, 1), box.group(1) != " ", number, box.group(3), kind, parts))
    return found


def tick(plan: str, step: Step, remark: str = "") -> str:
    """The plan with one box ticked, and why if it was not simply done."""
    return _replace(plan, step, f"- [x] {step.number}. {step.text}{f' ({remark})' if remark else ''}")


def spare(plan: str, names: Iterable[str]) -> str:
    """The plan without edits to what is to be left alone; such steps stay visible, struck out by a remark."""
    spared = set(names)
    for step in steps(plan):
        if step.done or step.kind in ("heed", "tests", ""):
            continue
        if spared & set(step.parts):
            plan = tick(plan, step, "left alone, as you asked")
        elif step.kind == "docstrings" and spared & set(step.names):
            kept = [name for name in step.names if name not in spared]
            text = f"- [ ] {step.number}. {docstrings_step(step.parts[0], kept)}"
            plan = _replace(plan, step, text) if kept else tick(plan, step, "left alone, as you asked")
    return plan


def append(plan: str, text: str) -> str:
    """The plan with one more step, last in its last chunk."""
    every = steps(plan)
    lines = plan.split("\n")
    at = every[-1].line + 1 if every else len(lines)
    lines.insert(at, f"- [ ] {max((step.number for step in every), default=0) + 1}. {text}")
    return "\n".join(lines)


def _read(text: str) -> tuple[str, tuple[str, ...]]:
    for kind, pattern in _KINDS.items():
        found = pattern.match(text)
        if found:
            return kind, found.groups()
    return "", ()


def _replace(plan: str, step: Step, line: str) -> str:
    lines = plan.split("\n")
    lines[step.line] = line
    return "\n".join(lines)
