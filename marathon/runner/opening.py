"""Opens a task for a runner: takes the lease, adopts or begins the task, finishes what a crash cut off, restarts it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from marathon.core.budgets import BUDGETS, with_amounts
from marathon.core.courses.phases import Phases
from marathon.core.courses.workflow import (
    DONE,
    Phase,
    Segment,
    WorkflowInvalid,
    locate,
    places,
    recorded_path,
    refused_because,
)
from marathon.core.courses.workflow import Path as PhasePath
from marathon.core.events import Notice, Sink
from marathon.core.human_note import HumanNote
from marathon.core.records import Begun, LimitSet, OversightSet, RestartBegun
from marathon.core.state import StateInvalid, TaskState
from marathon.core.text import clean, one_line
from marathon.errors import NotAdopted, TaskInvalid, WrongUsage
from marathon.process.clock import boot_id
from marathon.process.tree import command_of, end, find_by_environ, look
from marathon.store.base import Lease, Store
from marathon.store.home import INSTRUCTIONS
from marathon.store.lock import Held
from marathon.store.task import Task

if TYPE_CHECKING:
    from pathlib import Path

    import psutil

    from marathon.runner.marathon import Marathon, RunOptions

STRAY_GRACE = 2.0


def take(store: Store, options: RunOptions, runner: str, project: Path, emit: Sink) -> Lease:
    """The task's lease. Processes of a runner that is gone are named and ended; a living runner keeps the task."""
    home = options.home or project
    try:
        lease = store.lease(options.shown, runner, options.resume, home, boot_id())
    except Held as held:
        if (
            held.holder is None
            or look(held.holder.pid) is not None
            or not _end_strays(held.holder.runner, options.task, emit)
        ):
            raise
        return store.lease(options.shown, runner, options.resume, home, boot_id())
    _end_strays(lease.previous_runner, options.task, emit)
    return lease


def _end_strays(runner: str, task: Task, emit: Sink) -> bool:
    """Only what was started for this task: no file can make us end the processes of another marathon."""
    strays = _started_for(runner, task)
    for stray in strays:
        named = one_line(command_of(stray), 80)
        emit(Notice(f"Ending pid {stray.pid} ({named}), left by an earlier runner.", "warning"))
    end(strays, STRAY_GRACE)
    return bool(strays)


def _started_for(runner: str, task: Task) -> list[psutil.Process]:
    """The processes of this runner's sessions of this task."""
    started = find_by_environ("MARATHON_RUNNER_ID", runner) if runner else []
    ours = set(find_by_environ("MARATHON_TASK_DIR", str(task.folder))) if started else set()
    return [each for each in started if each in ours]


def end_processes(runner: str, task: Task) -> None:
    """End a session's processes at once. The runner sees it and records how the session ended."""
    end(_started_for(runner, task), 0.0)


def bring_up_to_date(marathon: Marathon) -> None:
    """Begin a new task, and complete what an earlier runner recorded but did not live to carry out."""
    if marathon.life.begun:
        _compare_with_reviews(marathon)
    else:
        _begin(marathon)
    marathon.task.remove_leftovers()
    marathon.journal.write_owed_words()
    marathon.anew()
    if marathon.life.restart is not None:
        _complete_restart(marathon, marathon.life.restart)
    chosen = marathon.options.oversight
    if chosen is not None:
        marathon.record(OversightSet(oversight=chosen))
    started_with, known = marathon.options.started_with, marathon.life.started_with
    if started_with is not None and (known is None or started_with.chosen() != known.chosen()):
        marathon.record(started_with)


def _begin(marathon: Marathon) -> None:
    """What a folder says of work that is not on record here counts only if a human says so, and is reviewed again."""
    first, course = _first_record(marathon), marathon.course
    if isinstance(course, Phases) and not first.over:
        before = _phases_before(course, first)
        if any(phase.gate for _, phase in before) and not marathon.options.adopt:
            done = " and ".join(phase.id for _, phase in before)
            now = f"{first.phase} waits for review" if first.review else f"{first.phase} is under way"
            raise NotAdopted(
                f"The record of {marathon.shown} is not here, so what was reviewed is asked again. "
                f"Go on from what its folder says: {done} done, {now}?",
                "  To start from the beginning, remove STATE.json.",
            )
        first = _reviewed_again(marathon.task, course, first, before)
    marathon.record(replace(first, comments="records"))


def _compare_with_reviews(marathon: Marathon) -> None:
    """A review is about the documents that were reviewed. Others in their place may belong to another task."""
    task, life, known = marathon.task, marathon.life, dict(marathon.life.documents)
    passed = [review for review in marathon.where.reviews if review.output]
    other = [review for review in passed if task.digest(review.output or "") != known.get(review.output or "")]
    made_anew = bool(known and passed) and other == passed and task.digest(INSTRUCTIONS) != known.get(INSTRUCTIONS)
    if made_anew and not marathon.options.adopt:
        question = f"Neither the instructions nor the reviewed documents of {marathon.shown} are those of its record. "
        anew = f"  To begin anew, start it at a terminal, or move the record away: {task.own}"
        raise NotAdopted(f"{question}Continue with that record?", anew, may_begin_anew=True)
    course, moved = marathon.course, task.home.came_from
    if other and (moved or made_anew) and isinstance(course, Phases) and not (life.finished or life.cancelled):
        _ask_again(marathon, course, other[0].phase)
    if moved:
        task.home.compared()


def _ask_again(marathon: Marathon, course: Phases, phase: str) -> None:
    """Back to the review of this phase. What came after it is judged as it lies there."""
    task, phases = marathon.task, course.phases_of(course.workflow_of(marathon.life))
    start = next(number for number, each in enumerate(phases) if each.id == phase)
    later = phases[start : marathon.where.at]
    claimed = [each.id for each in later if not each.output or task.output_mark(each.output)]
    marathon.tell(f"{phase} is reviewed again, because its document is not the one that was reviewed.")
    marathon.record(course.judged_again(marathon.life, phase, claimed))


def _phases_before(course: Phases, first: Begun) -> list[tuple[PhasePath, Phase]]:
    all_places = places(course.definitions, course.workflow)
    at = [path for path, _ in all_places].index(tuple(Segment(*each) for each in first.path))
    return all_places[:at]


def _reviewed_again(task: Task, course: Phases, first: Begun, before: list[tuple[PhasePath, Phase]]) -> Begun:
    """The first record of a task that begins at the earliest review whose document is there."""
    done = [(path, phase) for path, phase in before if not phase.output or task.output_mark(phase.output)]
    start = next((number for number, (_, phase) in enumerate(done) if phase.gate and phase.output), None)
    if start is None:
        return first
    path, phase = done[start]
    claimed = [phase.id for _, phase in done[start:]] + ([first.phase] if first.review else [])
    again = course.begin_at(path, phase.id)
    return replace(again, iteration=first.iteration, review=True, adopted=True, claimed=claimed, note=first.note)


def check_workflow(course: Phases) -> None:
    if course.workflow not in course.definitions:
        why = refused_because(course.definitions, course.workflow)
        key = repr(course.workflow)
        found = f"The workflow {key} is refused: {why}." if why else f"There is no workflow {key}."
        raise WrongUsage(f"{found} See: pi-marathon workflow list")

    if course.definitions[course.workflow].show == "workflows":
        raise WrongUsage(
            f"The workflow {course.workflow!r} is only for use inside of others. See: pi-marathon workflow list"
        )


def _first_record(marathon: Marathon) -> Begun:
    """Of a new task, or of one that is adopted as its STATE.json says."""
    task = marathon.task
    if isinstance(marathon.course, Phases):
        check_workflow(marathon.course)
    try:
        state = task.read_state()
    except StateInvalid as error:
        path = task.folder / "STATE.json"
        raise TaskInvalid(
            f"{path} is not valid: {clean(str(error))}. Fix it, or remove it to start from the beginning."
        ) from error
    if state is not None and isinstance(marathon.course, Phases):
        return _adopted(task, state, marathon.course)
    first = marathon.course.begin()
    if state is None:
        task.write_state(TaskState(state="running", phase=first.phase).written(marathon.clock()))
    return first


def _adopted(task: Task, state: TaskState, course: Phases) -> Begun:
    all_places = places(course.definitions, course.workflow)
    over = state.state == "completed" or state.phase == DONE
    try:
        recorded = recorded_path(state.model_extra or {})  # of a task that another tool has begun
    except WorkflowInvalid as error:
        raise TaskInvalid(f"{task.folder / 'STATE.json'}: {error}. Fix it.") from error
    known_paths = [place for place, _ in all_places]
    path = all_places[-1][0] if over else locate(course.definitions, course.workflow, state.phase, ())
    if recorded in [place for place, phase in all_places if phase.id == state.phase]:
        path = recorded  # which of several places, where the same phase comes more than once
    if path is None:
        known = ", ".join(phase.id for _, phase in all_places)
        raise TaskInvalid(
            f"{task.folder / 'STATE.json'}: phase {clean(state.phase)[:60]!r} is not one of {known}. Fix it."
        )
    number = known_paths.index(path)
    reviewed = _awaits_review(task, state, all_places, number)
    path, phase = all_places[reviewed if reviewed is not None else number]
    return replace(
        course.begin_at(path, phase.id),
        iteration=state.iteration if state.state == "paused" else max(0, state.iteration - 1),
        review=reviewed is not None,
        adopted=True,
        over=over,
        note=clean(state.note) if state.note else None,
    )


def _awaits_review(task: Task, state: TaskState, all_places: list[tuple[PhasePath, Phase]], number: int) -> int | None:
    """Paused in a phase with its output there, or in the phase after it without: that phase awaits its review."""
    if state.state != "paused":
        return None
    if task.output_mark(all_places[number][1].output):
        return number
    before = number - 1
    return before if before >= 0 and task.output_mark(all_places[before][1].output) else None


def restart(marathon: Marathon) -> None:
    """With -h: archive the last run's artifacts, keep the human's words, and begin a new run.

    The same words again, before a session of that run was given them, are the same command typed again after a crash.
    """
    text, life = marathon.options.feedback, marathon.life
    if text is None or life.restarted_with == text:
        return
    now = marathon.clock()
    record = RestartBegun(
        files=marathon.task.archive_names(marathon.course.outputs(life), now),
        heading=f"Restart · run {life.run + 1} · {now.strftime('%Y-%m-%d %H:%M:%S')} UTC",
        text=text,
    )
    marathon.record(record)
    _complete_restart(marathon, record)
    if record.files:
        marathon.tell(f"Kept from the run before: {', '.join(name for _, name in record.files)}")


def _complete_restart(marathon: Marathon, record: RestartBegun) -> None:
    task, now = marathon.task, marathon.clock()
    task.archive(record.files)
    task.append_human(HumanNote(record.heading, record.text))
    started = marathon.course.restart(marathon.life)
    try:
        state = task.read_state()
    except StateInvalid:
        task.set_state_aside(now)
        state = None
    state = state or TaskState(state="running", phase=started.phase)
    task.write_state(state.written(now, state="running", phase=started.phase, iteration=1, note=None))
    marathon.record(started)


def allow(marathon: Marathon) -> None:
    """Budgets that were typed belong to this task from now on."""
    options, agent = marathon.options, marathon.agent
    for said in options.ignored:
        marathon.tell(said, "warning")
    for typed in options.typed:
        life = marathon.life
        limits = with_amounts(options.limits, life.limits, life.added)
        used = next(budget.used(life.used) for budget in BUDGETS if budget.field == typed.field)
        if typed.added:
            value = max(getattr(limits, typed.field), used) + typed.value
            marathon.record(LimitSet(name=typed.field, value=value, added=True))
        elif dict(life.limits).get(typed.field) != typed.value or dict(life.added).get(typed.field) is not None:
            marathon.record(LimitSet(name=typed.field, value=typed.value))
    limits = with_amounts(options.limits, marathon.life.limits, marathon.life.added)
    told = {"cost": agent.tells_cost, "tokens": agent.tells_tokens}
    limited = [each for each in BUDGETS if getattr(limits, each.field) and not told.get(each.counter)]
    if lost := [each for each in limited if not each.can_be_kept(marathon.life.usage)]:
        flags, have = " and ".join(each.flag for each in lost), "has" if len(lost) == 1 else "have"
        silent = f"The agent {agent.name} has not reported what it uses. Until it does, {flags} {have} no effect."
        marathon.tell(
            f"The agent {agent.name} reports tokens but no cost, so --max-cost has no effect. --max-tokens has."
            if agent.tells_tokens
            else f"{silent} The README says how it can report.",
            "warning",
        )
