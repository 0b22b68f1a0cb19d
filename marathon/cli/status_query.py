"""Gathers what is known of a task without touching it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from marathon.cli.verdict import resume_command
from marathon.core.budgets import Limits, budget_lines, with_amounts
from marathon.core.decide import phase_ids
from marathon.core.life import Progress, fold
from marathon.core.names import StateInvalid
from marathon.core.records import GateOpened, Record
from marathon.core.sessions import sessions_of
from marathon.core.text import steps_line
from marathon.core.wait import left
from marathon.process.clock import moment
from marathon.show.status import Status, condition_of, criteria_facts, waits_for, where
from marathon.store.definitions import load_workflows
from marathon.store.inbox import Message
from marathon.store.journal import read_journal
from marathon.store.lock import holder_of
from marathon.store.task import Task
from marathon.surfaces.gate_text import answering_commands, with_option

Facts = Sequence[dict[str, Any]]
_NOTHING_LIMITED = Limits(max_iterations=0)  # what the task itself was given is told, not the defaults


def look_at(shown: Path, sessions: int) -> Status:
    """Everything `status` tells; the last so many sessions."""
    task = Task.look(shown)
    records = read_journal(task.journal_path)
    progress = fold(records)
    holder = holder_of(task.lock_path)
    resume = "" if holder else resume_command(task, shown)
    if not progress.workflow:
        return Status(
            task=str(shown), condition=_untouched(task), steering=_steering(task.inbox.messages()), resume=resume
        )
    last = sessions_in(records, progress.run)[-sessions:] if sessions else ()
    return status_of(task, shown, progress, resume, runner=str(holder) if holder else "", sessions=last)


def sessions_in(records: Iterable[Record], run: int) -> Facts:
    """The sessions of a run that have ended, in order."""
    return [facts for facts in sessions_of(records) if facts["run"] == run]


def status_of(
    task: Task, shown: Path, progress: Progress, resume: str, *, runner: str = "", sessions: Facts = ()
) -> Status:
    """What a journal amounts to, in the words of `status`."""
    messages = task.inbox.messages()
    workflows = load_workflows(Path.cwd()).workflows
    gate = progress.gate
    verdict = _verdict_on(gate, messages)
    condition, waits = _condition(progress, verdict, bool(runner)), waits_for(progress, moment())
    answers: Sequence[str] = ()
    if verdict:
        waits = f"a start: its gate is answered ({verdict.choice})" if condition == "ready" else ""
    elif progress.wait and condition == "ready":
        waits = "a start: its wait is over"
    elif gate:
        answers = answering_commands(gate.kind, gate.phase, shown, phase_ids(workflows, progress.workflow))
    return Status(
        task=str(shown),
        condition=condition,
        phase=progress.phase,
        breadcrumb=where(progress, workflows),
        run=progress.run,
        iteration=progress.iteration,
        seconds=progress.seconds,
        usage=progress.usage,
        shape=progress.scored.shape if progress.scored else "",
        budget=budget_lines(with_amounts(_NOTHING_LIMITED, progress.limits, progress.added), progress.used),
        steps=steps_line(task.plan_steps()),
        checks=criteria_facts(progress),
        waits_for=waits,
        note=(gate.note if gate else None) or "",
        runner=runner,
        steering=len(progress.steer) + _steering(messages),
        sessions=sessions,
        answer_with=answers,
        resume=with_option(resume, '-h "what else to do"') if condition in ("completed", "cancelled") else resume,
    )


def row_of(folder: Path) -> Status:
    """The little that `list` tells; reads as few files as it can."""
    task = Task(folder)
    running = holder_of(task.lock_path) is not None
    known = None if running else task.runs.summary()
    if known is not None and not (known.get("condition") == "waiting" or _may_be_answered(known, task)):
        return _as_row(folder, known)
    progress = fold(read_journal(task.journal_path))
    if not progress.workflow:
        return Status(task=str(folder), condition=_untouched(task))
    verdict = _verdict_on(progress.gate, task.inbox.messages())
    return _as_row(folder, {**summary_of(progress), "condition": _condition(progress, verdict, running)})


def _may_be_answered(known: dict[str, Any], task: Task) -> bool:
    return known.get("condition") == "gate" and bool(task.inbox.messages())


def _steering(messages: Sequence[Message]) -> int:
    return sum(message.kind == "steer" for message in messages)


def _condition(progress: Progress, verdict: Message | None, running: bool) -> str:
    """As the journal tells it; what was said to its gate counts as soon as it is said."""
    if verdict and not running:
        return "cancelled" if verdict.choice == "cancel" else "ready"
    if progress.wait and not running and not left(progress.wait, moment()):
        return "ready"
    return condition_of(progress, running)


def _verdict_on(gate: GateOpened | None, messages: Sequence[Message]) -> Message | None:
    """What a human said to this gate from a shell, while no runner was there to hear it."""
    return next((each for each in messages if gate and (each.kind, each.to) == ("verdict", gate.token)), None)


def summary_of(progress: Progress) -> dict[str, Any]:
    """The few facts of `list`; the runner leaves them beside the journal, so that a long list needs no long reading."""
    return {
        "condition": condition_of(progress, running=False),
        "phase": progress.phase,
        "run": progress.run,
        "iteration": progress.iteration,
        "seconds": progress.seconds,
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


def _untouched(task: Task) -> str:
    """The condition of a task no runner has had: what its STATE.json says."""
    try:
        state = task.read_state()
    except StateInvalid:
        return "invalid STATE.json"
    return "new" if state is None else state.state
