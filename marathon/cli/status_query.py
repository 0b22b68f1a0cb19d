"""Gathers what is known about a task without touching it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marathon.core.budgets import Limits, budget_lines, with_amounts
from marathon.core.courses.base import Course
from marathon.core.courses.table import COURSES, DEFAULT
from marathon.core.gates import Offer, commands, offers
from marathon.core.life import Life, fold
from marathon.core.records import Begun, Gate, Record
from marathon.core.sessions import sessions_of
from marathon.core.state import StateInvalid
from marathon.core.steps import left
from marathon.core.text import one_line, steps_line
from marathon.errors import MarathonError, TaskInvalid
from marathon.process.clock import moment
from marathon.show.status import Status, condition_of, criteria_facts, gate_facts, waits_for
from marathon.store.definitions import load_workflows
from marathon.store.inbox import Message
from marathon.store.journal import read_journal
from marathon.store.lock import holder_of, last_holder
from marathon.store.task import Task
from marathon.surfaces.gate_text import with_option

Facts = Sequence[dict[str, Any]]
_NOTHING_LIMITED = Limits(max_iterations=0)  # show what the task itself was given, not the defaults


@dataclass(frozen=True)
class Known:
    """A task as its files tell it."""

    task: Task
    shown: Path
    records: list[Record]
    course: Course
    life: Life

    @property
    def offers(self) -> tuple[Offer, ...]:
        """What the open gate takes."""
        return offers(self.life.gate, self.course.where(self.life), self.life.oversight) if self.life.gate else ()


def read_task(shown: Path, project: Path) -> Known:
    task = Task.look(shown)
    records = read_journal(task.journal_path)
    course = course_for(records, project)
    return Known(task, shown, records, course, fold(records, course))


def course_for(records: Sequence[Record], project: Path, workflow: str = "rpi") -> Course:
    """The course a journal was begun with; for a new task, the usual one."""
    name = next((record.course for record in records if isinstance(record, Begun)), DEFAULT)
    if name not in COURSES:
        unknown = f"This task follows the course {name!r}, which this version does not know."
        raise TaskInvalid(f"{unknown} Update pi-marathon.")
    return COURSES[name](load_workflows(project).workflows, workflow)


def status_of_task(shown: Path, project: Path, sessions: int) -> Status:
    """Everything `status` tells, with the last so many sessions."""
    known = read_task(shown, project)
    task, life = known.task, known.life
    holder = holder_of(task.lock_path)
    resume = "" if holder else resume_command(task, shown, project)
    if not life.begun:
        return Status(
            task=str(shown), condition=_untouched(task), steering=_steering(task.inbox.messages()), resume=resume
        )
    last = sessions_in(known.records, life.run)[-sessions:] if sessions else ()
    return status_of(known, resume, runner=str(holder) if holder else "", sessions=last)


def sessions_in(records: Iterable[Record], run: int) -> Facts:
    """The sessions of a run that have ended, in order."""
    return [facts for facts in sessions_of(records) if facts["run"] == run]


def status_of(known: Known, resume: str, *, runner: str = "", sessions: Facts = ()) -> Status:
    """What a journal amounts to, in the words of `status`."""
    task, life, where = known.task, known.life, known.course.where(known.life)
    messages = task.inbox.messages()
    gate = life.gate
    sent = _answer_to(gate, messages)
    condition, waits = _condition(life, sent, bool(runner)), waits_for(life, moment())
    if sent:
        waits = f"a start: its gate is answered ({sent.choice})" if condition == "ready" else ""
    elif life.wait and condition == "ready":
        waits = "a start: its wait is over"
    open_offers = () if sent else known.offers
    return Status(
        task=str(known.shown),
        condition=condition,
        phase=life.phase,
        breadcrumb=where.breadcrumb or f"the workflow changed: {where.problem}",
        run=life.run,
        iteration=life.iteration,
        seconds=life.seconds,
        usage=life.usage,
        oversight=life.oversight,
        budget=budget_lines(with_amounts(_NOTHING_LIMITED, life.limits, life.added), life.used),
        steps=steps_line(task.plan_steps()),
        checks=criteria_facts(life),
        waits_for=waits,
        note=(gate.note if gate else None) or "",
        runner=runner,
        steering=len(life.steer) + _steering(messages),
        sessions=sessions,
        gate=gate_facts(gate, open_offers, str(known.shown)) if gate and not sent else None,
        answer_with=commands(open_offers, str(known.shown)),
        resume=with_option(resume, '-h "what else to do"') if condition in ("completed", "cancelled") else resume,
    )


def resume_command(task: Task, shown: Path, project: Path) -> str:
    """The command that continues this task: the one last used for it, if it is known."""
    holder = last_holder(task.lock_path)
    if not holder or not holder.resume:
        return f"pi-marathon --task {shlex.quote(str(shown))}"
    go_there = "" if holder.cwd in ("", str(project)) else f"cd {shlex.quote(holder.cwd)} && "
    return one_line(go_there + holder.resume, 4000)


# What `list` tells


def row_of(folder: Path, project: Path) -> Status:
    """The little that `list` tells. Reads as few files as it can."""
    task = Task(folder)
    running = holder_of(task.lock_path) is not None
    known = None if running else task.runs.summary()
    if known is not None and not (known.get("condition") == "waiting" or _may_be_answered(known, task)):
        return _as_row(folder, known)
    try:
        life = read_task(folder, project).life
    except MarathonError as error:
        return Status(task=str(folder), condition=f"unreadable: {error}")
    if not life.begun:
        return Status(task=str(folder), condition=_untouched(task))
    sent = _answer_to(life.gate, task.inbox.messages())
    return _as_row(folder, {**summary_of(life), "condition": _condition(life, sent, running)})


def summary_of(life: Life) -> dict[str, Any]:
    """The few facts of `list`. The runner leaves them beside the journal, so that a long list reads little."""
    return {
        "condition": condition_of(life, running=False),
        "phase": life.phase,
        "run": life.run,
        "iteration": life.iteration,
        "seconds": life.seconds,
    }


def _as_row(folder: Path, facts: dict[str, Any]) -> Status:
    def number(name: str) -> Any:
        return facts[name] if type(facts.get(name)) in (int, float) else 0

    return Status(
        task=str(folder),
        condition=str(facts.get("condition", "?")),
        phase=str(facts.get("phase", "")),
        run=number("run"),
        iteration=number("iteration"),
        seconds=number("seconds"),
    )


def _may_be_answered(known: dict[str, Any], task: Task) -> bool:
    return known.get("condition") == "gate" and bool(task.inbox.messages())


def _steering(messages: Sequence[Message]) -> int:
    return sum(message.kind == "steer" for message in messages)


def _condition(life: Life, sent: Message | None, running: bool) -> str:
    """As the journal tells it. What was said to its gate counts as soon as it is said."""
    if sent and not running:
        return "cancelled" if sent.choice == "cancel" else "ready"
    if life.wait and not running and not left(life.wait, moment()):
        return "ready"
    return condition_of(life, running)


def _answer_to(gate: Gate | None, messages: Sequence[Message]) -> Message | None:
    """What a human said to this gate from a shell while no runner was there to hear it."""
    return next((each for each in messages if gate and (each.kind, each.to) == ("verdict", gate.token)), None)


def _untouched(task: Task) -> str:
    """The condition of a task no runner has had: what its STATE.json says."""
    try:
        state = task.read_state()
    except StateInvalid:
        return "invalid STATE.json"
    return "new" if state is None else state.state


def here() -> Path:
    """The project is the folder that the human is in."""
    return Path(os.getcwd())
