"""Runs a task's checks and gives a result for every criterion, for the runner and for `pi-marathon check`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marathon.core.completion import judged, result_facts
from marathon.core.criteria import Criterion
from marathon.core.error_kind import kind_of_check
from marathon.core.events import CheckEnded, Checking, Notice, Sink
from marathon.core.records import CheckResult
from marathon.core.text import clean, duration, one_line
from marathon.process.signals import Signals
from marathon.process.start import Command
from marathon.process.supervisor import Done, Job, run_all
from marathon.store.task import Task

_KNOWN_CODES = {126: " (permission denied)", 127: " (command not found)"}
_TAIL_LINES = 40
_TAIL_LENGTH = 3000


@dataclass
class Checks:
    """One round of checks, with everything it needs handed in."""

    project: Path
    logs: Path  # a folder of its own for this round
    env: Mapping[str, str]
    signals: Signals
    emit: Sink
    stop: Callable[[], bool] = lambda: False
    inherit: tuple[int, ...] = ()
    _under_way: dict[str, float] = field(default_factory=dict)

    def run(self, criteria: Sequence[Criterion], verdicts: Mapping[str, Any]) -> list[CheckResult] | None:
        """A result for each criterion, or None if the checks were stopped. `verdicts` are the agent's judgements."""
        results = self._run([each for each in criteria if each.command])
        again = [each for each in criteria if results and each.name in results and _may_pass(results[each.name])]
        if again and results is not None:
            self.emit(Notice("Once more, as this may pass: " + ", ".join(one_line(each.name, 80) for each in again)))
            once_more = self._run(again)
            results = None if once_more is None else {**results, **once_more}
        if results is None:
            return None
        for each in criteria:
            if not each.command:
                results[each.name] = judged(each.name, verdicts)
                self._tell(results[each.name])
        return [results[each.name] for each in criteria]

    def _run(self, commands: Sequence[Criterion]) -> dict[str, CheckResult] | None:
        done = run_all(
            [self._job(number, each) for number, each in enumerate(commands, start=1)],
            signals=self.signals,
            at_once=os.cpu_count() or 1,
            on_start=lambda number: self._under_way.update({commands[number].name: time.monotonic()}),
            on_done=lambda number, done: self._tell(result_of(commands[number], done)),
            stop=self.stop,
            on_tick=self._tick,
        )
        if len(done) < len(commands):
            return None
        return {each.name: result_of(each, one) for each, one in zip(commands, done, strict=True)}

    def _job(self, number: int, each: Criterion) -> Job:
        name = re.sub(r"[^a-z0-9]+", "-", each.name.lower()).strip("-")[:60]
        command = Command(("sh", "-c", each.command), self.project / each.cwd, self.env, None, False, self.inherit)
        return Job(command, each.timeout, self.logs / f"{number:02d}-{name}.log", each.parallel)

    def _tell(self, result: CheckResult) -> None:
        self._under_way.pop(result.name, None)
        evidence = result_facts(result)["evidence"]
        self.emit(CheckEnded(result.name, result.met, result.seconds, result.reason, result.command, evidence))

    def _tick(self) -> None:
        for name, began in list(self._under_way.items())[:1]:
            self.emit(Checking(name, time.monotonic() - began))


def check_environment(task: Task, runner: str) -> dict[str, str]:
    """With a runner's id in its environment, a check cannot answer a gate."""
    return {**os.environ, "MARATHON_RUNNER_ID": runner, "MARATHON_TASK_DIR": str(task.folder)}


def result_of(each: Criterion, done: Done) -> CheckResult:
    """What a command's end says about its criterion."""
    reason = _reason(each, done)
    ended = done.exit
    return CheckResult(
        name=each.name,
        met=not reason,
        command=each.command,
        reason=reason,
        tail=_tail(done.tail) if reason else "",
        seconds=round(done.exit.seconds, 3) if done.exit else 0,
        kind=kind_of_check(
            code=ended.code if ended else None,
            timed_out=ended is not None and ended.reason == "timeout",
            started=ended is not None,
            output=done.tail,
        ),
    )


def _reason(each: Criterion, done: Done) -> str:
    """Why it is not met; empty if it is."""
    if done.exit is None:
        return done.reason
    if done.exit.reason == "timeout":
        return f"it was not done within {duration(each.timeout)}"
    if done.exit.code is None:
        return f"it was killed by signal {done.exit.signal}" if done.exit.signal else "no one can tell how it ended"
    if done.exit.code == each.exit:
        return ""
    expected = f" instead of {each.exit}" if each.exit else ""
    return f"exit code {done.exit.code}{expected}{_KNOWN_CODES.get(done.exit.code, '')}"


def _may_pass(result: CheckResult) -> bool:
    """Trouble that may be over by the time one looks again."""
    return not result.met and result.kind == "transient"


def _tail(text: str) -> str:
    return "\n".join(clean(text).strip("\n").splitlines()[-_TAIL_LINES:])[-_TAIL_LENGTH:]
