"""Opens a task for a runner: takes the lock, ends what an earlier runner left, and finishes what a crash cut off."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from marathon.core.courses.workflow import Definitions, Phase, enter, locate, places
from marathon.core.courses.workflow import Path as PhasePath
from marathon.core.events import Sink, Told
from marathon.core.human_note import Words
from marathon.core.names import DONE, StateInvalid
from marathon.core.records import Begun, RestartBegun, RunStarted
from marathon.core.state import TaskState
from marathon.core.text import clean, one_line
from marathon.errors import TaskInvalid, WrongUsage
from marathon.process.tree import command_of, end, find_by_environ, look
from marathon.runner.journal import Ledger
from marathon.store.lock import Held, TaskLock
from marathon.store.restart import archive, archive_names
from marathon.store.task import Task

STRAY_GRACE = 2.0


def lock_task(task: Task, shown: Path, runner: str, resume: str, emit: Sink) -> TaskLock:
    """The task's lock. Processes of a runner that is no more are named and ended; a living runner keeps the task."""
    task.prepare()
    try:
        lock = TaskLock(task.lock_path, shown, runner, resume)
    except Held as held:
        if held.holder is None or look(held.holder.pid) is not None or not _end_strays(held.holder.runner, emit):
            raise
        return TaskLock(task.lock_path, shown, runner, resume)
    if lock.before is not None:
        _end_strays(lock.before.runner, emit)
    return lock


def _end_strays(runner: str, emit: Sink) -> bool:
    strays = find_by_environ("MARATHON_RUNNER_ID", runner) if runner else []
    for stray in strays:
        emit(Told(f"Ending pid {stray.pid} ({one_line(command_of(stray), 80)}), left by an earlier runner.", "warning"))
    end(strays, STRAY_GRACE)
    return bool(strays)


def check_workflow(definitions: Definitions, workflow: str) -> None:
    if workflow not in definitions:
        raise WrongUsage(f"There is no workflow {workflow!r}. See: pi-marathon workflow list")


def begin(task: Task, ledger: Ledger, definitions: Definitions, workflow: str, clock: Callable[[], datetime]) -> None:
    """The first record of a task: new, or adopted as its STATE.json says."""
    check_workflow(definitions, workflow)
    try:
        state = task.read_state()
    except StateInvalid as error:
        raise TaskInvalid(
            f"{task.folder / 'STATE.json'} is not valid: {clean(str(error))}. Mend it, or remove it to start anew."
        ) from error
    first = enter(definitions, workflow).path
    if state is None:
        phase = places(definitions, workflow)[0][1].id
        task.write_state(TaskState(state="running", phase=phase).written(clock()))
        ledger.record(Begun(workflow=workflow, path=list(first), phase=phase, gates=_gates(definitions, workflow)))
        return
    ledger.record(_adopt(task, state, definitions, workflow))


def _adopt(task: Task, state: TaskState, definitions: Definitions, workflow: str) -> Begun:
    all_places = places(definitions, workflow)
    ids = [phase.id for _, phase in all_places]
    path = all_places[-1][0] if _is_over(state) else locate(definitions, workflow, state.phase, ())
    if path is None:
        raise TaskInvalid(
            f"{task.folder / 'STATE.json'}: phase {clean(state.phase)[:60]!r} is not one of {', '.join(ids)}. Mend it."
        )
    number = [place for place, _ in all_places].index(path)
    reviewed = _awaits_review(task, state, all_places, number)
    path, phase = all_places[reviewed if reviewed is not None else number]
    done = state.iteration if state.state == "paused" else max(0, state.iteration - 1)
    note = clean(state.note) if state.note else None
    return Begun(
        workflow=workflow,
        path=list(path),
        phase=phase.id,
        iteration=done,
        review=reviewed is not None,
        adopted=True,
        over=_is_over(state),
        note=note,
        gates=_gates(definitions, workflow),
    )


def _gates(definitions: Definitions, workflow: str) -> list[str]:
    return sorted({phase.id for _, phase in places(definitions, workflow) if phase.gate})


def _is_over(state: TaskState) -> bool:
    return state.state == "completed" or state.phase == DONE


def _awaits_review(task: Task, state: TaskState, all_places: list[tuple[PhasePath, Phase]], number: int) -> int | None:
    """Paused in a phase with its output there, or in the phase after it without: that phase awaits its review."""
    if state.state != "paused":
        return None
    if task.output_mark(all_places[number][1].output):
        return number
    before = number - 1
    return before if before >= 0 and task.output_mark(all_places[before][1].output) else None


def finish_interrupted(task: Task, ledger: Ledger, definitions: Definitions, clock: Callable[[], datetime]) -> None:
    """Complete what an earlier runner recorded but did not live to carry out."""
    task.remove_leftovers()
    ledger.write_owed_words()
    begun = ledger.progress.restart
    if begun is not None:
        _complete_restart(task, ledger, begun, definitions, clock)


def restart(
    task: Task, ledger: Ledger, definitions: Definitions, text: str, clock: Callable[[], datetime]
) -> list[tuple[str, str]]:
    """Archive the last run's artifacts, keep the human's words, and begin a new run; unless these very words have begun
    one that has had no session yet: then the same command was typed again after a crash. (file, its archive name)"""
    progress = ledger.progress
    if (progress.restarted_with, progress.iteration) == (text, 0):
        return []
    outputs = [phase.output for _, phase in places(definitions, progress.workflow) if phase.output]
    record = RestartBegun(
        files=archive_names(task, outputs, clock()),
        heading=f"Restart · run {progress.run + 1} · {clock().strftime('%Y-%m-%d %H:%M:%S')} UTC",
        text=text,
    )
    ledger.record(record)
    _complete_restart(task, ledger, record, definitions, clock)
    return record.files


def _complete_restart(
    task: Task, ledger: Ledger, record: RestartBegun, definitions: Definitions, clock: Callable[[], datetime]
) -> None:
    progress = ledger.progress
    archive(task, record.files)
    task.append_human(Words(record.heading, record.text))
    path, phase = places(definitions, progress.workflow)[0]
    try:
        state = task.read_state()
    except StateInvalid:
        task.set_state_aside(clock())
        state = None
    state = state or TaskState(state="running", phase=phase.id)
    task.write_state(state.written(clock(), state="running", phase=phase.id, iteration=1, note=None))
    ledger.record(RunStarted(run=progress.run + 1, path=list(path), phase=phase.id))


def new_runner_id() -> str:
    return f"m-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{secrets.token_hex(3)}"
