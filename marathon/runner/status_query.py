"""Gathers what is known about a task without touching it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from marathon.core.budgets import Usage, budget_lines
from marathon.core.completion import result_facts
from marathon.core.courses.base import Course
from marathon.core.courses.table import COURSES, DEFAULT
from marathon.core.courses.where import Where
from marathon.core.gates import POLICIES, Offer, commands, offers
from marathon.core.life import Life, apply, fold, limits_of, total_of
from marathon.core.records import Begun, Gate, Record, RunStarted, Undone
from marathon.core.sessions import sessions_of
from marathon.core.state import StateInvalid
from marathon.core.steps import Now, left
from marathon.core.text import duration, one_line, steps_line
from marathon.errors import TaskInvalid
from marathon.git.writes import WriteGuard
from marathon.process.clock import moment, time_of_day
from marathon.show.program import as_typed, program
from marathon.show.status import Status
from marathon.store.comments import unrecorded
from marathon.store.definitions import load_workflows
from marathon.store.events import activity, left_out_of
from marathon.store.inbox import Message
from marathon.store.journal import read_journal
from marathon.store.lock import holder_of, last_holder
from marathon.store.task import Task
from marathon.surfaces.gate_text import with_option


@dataclass(frozen=True)
class Known:
    """A task as its files tell it."""

    task: Task
    shown: Path
    project: Path
    records: Sequence[Record]
    course: Course
    life: Life

    @property
    def where(self) -> Where:
        return self.course.where(self.life)

    @property
    def snapshots(self) -> WriteGuard:
        """Of the folder that the agent works in."""
        return WriteGuard(Path(self.life.worktree.folder) if self.life.worktree else self.project, self.task.folder)

    @property
    def offers(self) -> tuple[Offer, ...]:
        """What the open gate takes."""
        return offers(self.life.gate, self.where, self.life.oversight) if self.life.gate else ()

    def anew(self) -> Known:
        return read_task(self.shown, self.project)


def read_task(shown: Path, project: Path) -> Known:
    task = Task.look(shown)
    messages = task.inbox.messages()  # first, because a runner removes a comment once it is on record
    records = read_journal(task.journal_path)
    course = course_for(records, project)
    life = fold(records, course)
    for record in unrecorded(task, messages, life):
        life = apply(life, replace(record, n=life.last), course)
    return Known(task, shown, project, records, course.pinned(life), life)


def course_for(records: Sequence[Record], project: Path, workflow: str = "rpi") -> Course:
    """The course a journal was begun with; for a new task, the usual one."""
    name = next((record.course for record in records if isinstance(record, Begun)), DEFAULT)
    if name not in COURSES:
        unknown = f"This task follows the course {name!r}, which this version does not know."
        raise TaskInvalid(f"{unknown} Update pi-marathon.")
    return COURSES[name](load_workflows(project).workflows, workflow)


def status_of_task(shown: Path, project: Path) -> Status:
    """Everything that `status` tells."""
    known = read_task(shown, project)
    holder = holder_of(known.task.lock_path)
    resume = "" if holder else resume_command(known.task, shown, project)
    if known.life.begun:
        found = status_of(known, resume, runner=str(holder) if holder else "")
        return replace(found, background=bool(holder and holder.background))
    steering = _steering(known.task.inbox.messages())
    return Status(str(shown), _untouched(known.task), steering=steering, resume=resume)


def status_of(known: Known, resume: str, *, runner: str = "", session_too: bool = True) -> Status:
    """What a journal amounts to, in the words of `status`. The session that runs takes reading its whole log."""
    task, life, where, now = known.task, known.life, known.where, moment()
    messages = task.inbox.messages()
    gate = life.gate
    # What a human said to the gate from a shell while no runner was there to hear it.
    said = [each for each in messages if gate and (each.kind, each.to) == ("verdict", gate.token)]
    sent = next((each for each in said if each.choice != "undo"), None)  # which leaves the gate open
    condition, waits = condition_of(life, bool(runner)), waits_for(life, now)
    if sent:
        waits = ""
        if not runner:
            condition = "cancelled" if sent.choice == "cancel" else "ready"
            waits = f"a start: you answered ({sent.choice})" if condition == "ready" else ""
    elif life.wait and not runner and not left(life.wait, now):
        condition, waits = "ready", "a start: its wait is over"
    open_offers = () if sent else known.offers
    log = task.runs.session_path(life.run, "events", life.iteration, "jsonl")
    session = _running(known, now, log) if runner and life.session and session_too else None
    usage, seconds = (Usage(**session["usage"]), session["seconds"]) if session else (Usage(), 0.0)
    return Status(
        task=str(known.shown),
        condition=condition,
        phase=life.phase,
        breadcrumb=where.breadcrumb or f"the workflow changed: {where.problem}",
        run=life.run,
        iteration=life.iteration,
        seconds=life.seconds + seconds,
        usage=life.usage.plus(usage),
        oversight=life.oversight,
        budget=budget_lines(limits_of(life), life.used.plus(usage, seconds), life.usage.plus(usage)),
        steps=steps_line(task.steps(where.phase.checklist if where.phase else None) if runner else life.steps),
        checks=criteria_facts(life),
        reviews=[{"phase": each.phase, "reviewed": each.by_human, "by": each.by} for each in where.reviews],
        waits_for=waits,
        note=(gate.note if gate else None) or "",
        runner=runner,
        steering=len(life.steer) + _steering(messages),
        sessions=[facts for facts in sessions_of(known.records) if facts["run"] == life.run],
        session=session,
        log=left_out_of(log),
        gate=gate_facts(gate, open_offers, str(known.shown), _document(known), total_of(life))
        if gate and not sent
        else None,
        put_back=_commands_back(known.records),
        answer_with=[as_typed(command) for command in commands(open_offers, str(known.shown))],
        resume=with_option(resume, '-h "what else to do"') if condition in ("completed", "cancelled") else resume,
        worktree=life.worktree.folder if life.worktree else "",
        branch=life.worktree.branch if life.worktree else "",
        started_with=shlex.join(life.started_with.as_typed()) if life.started_with else "",
    )


def _running(known: Known, now: Now, log: str) -> dict[str, Any]:
    """The session that runs now. Its end is not in the journal yet, so its log tells."""
    life = known.life
    assert life.session
    done = activity(log)
    return {
        "iteration": life.iteration,
        "phase": life.session.phase,
        "agent": life.session.agent,
        "startedAt": life.session.at,
        "seconds": round(max(0.0, now.wall - datetime.fromisoformat(life.session.at).timestamp()), 1),
        "usage": vars(done.usage),
        "tool": done.tool,
        "tool_seconds": round(max(0.0, now.wall - done.tool_began), 1) if done.tool else 0,
        "last_tool": done.last_tool,
        "last_line": done.last_line,
    }


def resume_command(task: Task, shown: Path, project: Path) -> str:
    """The command that continues this task: the one last used for it, if it is known."""
    holder = last_holder(task.lock_path)
    if not holder or not holder.resume:
        return f"{program()} --task {shlex.quote(str(shown))}"
    go_there = "" if holder.cwd in ("", str(project)) else f"cd {shlex.quote(holder.cwd)} && "
    return one_line(go_there + holder.resume, 4000)


def condition_of(life: Life, running: bool) -> str:
    """One word: new, ready, running, waiting, gate, completed, cancelled, interrupted."""
    if not life.begun:
        return "new"
    if life.finished:
        return "completed"
    if life.cancelled:
        return "cancelled"
    if life.gate:
        return "gate"
    if life.wait:
        return "waiting"
    if running:
        return "running"
    return "interrupted" if life.session else "ready"


def waits_for(life: Life, now: Now) -> str:
    """What has to happen before the task continues, in a few words."""
    if life.gate:
        policy = POLICIES[life.gate.reason]
        return policy.waits_for.format(phase=life.gate.phase, message=one_line(life.gate.message, 300))
    if life.wait:
        seconds = left(life.wait, now)
        goes_on = "going on" if life.wait.kind == "hours" else "trying again"
        again = "" if life.wait.kind == "agent" else f"{goes_on} at {time_of_day(now.wall + seconds, now.wall)}, "
        return f"{one_line(life.wait.reason, 200)} ({again}{duration(seconds)} left)"
    return ""


def gate_facts(
    gate: Gate, offers: Sequence[Offer], task: str, document: str | None = None, total: str = ""
) -> dict[str, Any]:
    """The open gate with everything it takes: the same offers that a terminal shows as keys."""
    return {
        "reason": gate.reason,
        "token": gate.token,
        "agreement": gate.agreement,
        "phase": gate.phase,
        "message": gate.message,
        "writes": gate.writes,
        "document": document,
        "total": total,
        "offers": [{**asdict(offer), "command": as_typed(offer.command(task))} for offer in offers],
    }


def _commands_back(records: Sequence[Record]) -> list[str]:
    """What brings back the writes that were undone in this run, also after their gate was answered."""
    found: list[str] = []
    for record in records:
        found = [] if isinstance(record, RunStarted) else found
        found += record.put_back if isinstance(record, Gate | Undone) else []
    return list(dict.fromkeys(found))


def _document(known: Known) -> str | None:
    """The output of the phase at hand, if it was written."""
    output = known.where.phase.output if known.where.phase else None
    return str(known.shown / output) if output and known.task.output_mark(output) else None


def criteria_facts(life: Life) -> list[dict[str, Any]]:
    """Every criterion with its latest result; `met` is None where it was not checked yet."""
    results = {result.name: result for result in life.checked.results} if life.checked else {}
    found = [(each, results.get(each.name)) for each in (life.criteria.criteria if life.criteria else ())]
    unchecked = {"met": None, "known_by": None, "reason": "", "evidence": ""}
    return [
        result_facts(result, life.accepted) if result else {"name": each.name, "command": each.command, **unchecked}
        for each, result in found
    ]


def _steering(messages: Sequence[Message]) -> int:
    return sum(message.kind == "steer" for message in messages)


def _untouched(task: Task) -> str:
    """The condition of a task that no runner has had, as its STATE.json says."""
    try:
        state = task.read_state()
    except StateInvalid:
        return "invalid STATE.json"
    untouched = state is None or (state.state, state.iteration) == ("running", 0)
    return "new" if untouched or state is None else state.state
