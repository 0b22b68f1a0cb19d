"""Knows what a task's files ask for and whether a human agreed to it, and holds a proposed end against that."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from marathon.core.criteria import CriteriaInvalid, Criterion, digest, read_criteria, setup_in
from marathon.core.records import Checked, CriteriaFound, FilesMissing, SetUp
from marathon.core.state import StateInvalid
from marathon.core.steps import Prepare, Verify
from marathon.core.text import counted, one_line
from marathon.runner.checks import Checks, check_environment
from marathon.runner.sandbox import for_commands
from marathon.runner.session import update_state
from marathon.store.files import make_private_directory
from marathon.store.home import INSTRUCTIONS
from marathon.store.task import Task
from marathon.store.trusted import Trusted

if TYPE_CHECKING:
    from marathon.runner.marathon import Marathon

_LONGEST_SETUP = 3600.0


def recheck(marathon: Marathon) -> None:
    """Note what the criteria's files say now, where that is new. The agent may have changed them as well."""
    life = marathon.life
    files = marathon.task.criteria_marks()
    if life.finished or life.cancelled:
        return
    missing = missing_files(marathon)
    if missing != life.missing:
        marathon.record(FilesMissing(names=list(missing)))
    if marathon.rechecked == (files, life.criteria):
        return
    found = found_criteria(marathon.task, marathon.project, life.agreed, marathon.trusted, marathon.options.home)
    known = life.criteria
    if known is None and not (found.criteria or found.problem or found.setup):
        return
    if known is None or replace(known, n=0, at="") != found:
        marathon.record(found)
    marathon.rechecked = (files, marathon.life.criteria)


def missing_files(marathon: Marathon) -> tuple[str, ...]:
    """The instructions, and every output that passed its review, as far as they are gone or blank now."""
    task = marathon.task
    lost = [review.output for review in marathon.where.reviews if review.output and not task.output_mark(review.output)]
    return (*([] if task.has_instructions() else [INSTRUCTIONS]), *lost)


def agree(marathon: Marathon) -> None:
    """The human has seen exactly these criteria and said yes."""
    criteria = marathon.life.criteria
    if criteria is not None and not criteria.problem:
        remember(marathon.trusted, criteria, marathon.project)
        marathon.rechecked = ()


def verify(marathon: Marathon, step: Verify) -> None:
    """Run the commands, read the agent's judgements, and record the results."""
    criteria = step.criteria.criteria
    if _leads_out(marathon.project, criteria):  # since it was agreed to
        marathon.rechecked = ()
        return
    marathon.tell(f"Completion is proposed: checking {counted(len(criteria), 'criterion', 'criteria')}.")
    life, task = marathon.life, marathon.task
    results = _checks(marathon, "checks").run(criteria, verdicts_in(task))
    if results is None:
        return
    status = {result.name: result.met for result in results}
    update_state(marathon, life.phase, life.iteration, criteriaStatus=status)
    marathon.record(Checked(digest=step.criteria.digest, results=results))


def prepare(marathon: Marathon, step: Prepare) -> None:
    """Set a new worktree up. Killed meanwhile, it is done again."""
    checks = _checks(marathon, "setup")
    marathon.tell(f"Setting up the worktree: {one_line(step.command, 300)}. What it says is kept in {checks.logs}.")
    command = Criterion(name="setup", command=step.command, timeout=_LONGEST_SETUP)
    if results := checks.run([command], {}):
        end = results[0]
        marathon.record(SetUp(command=step.command, met=end.met, reason=end.reason, tail=end.tail))
        marathon.snapshots.take()  # what it made is not the agent's


def _checks(marathon: Marathon, kind: str) -> Checks:
    life, task = marathon.life, marathon.task
    logs = task.runs.folder(life.run) / kind / f"{life.iteration:03d}"
    make_private_directory(logs)
    return Checks(
        project=marathon.project,
        logs=logs,
        env=check_environment(task, marathon.runner) | for_commands(marathon),
        signals=marathon.signals,
        emit=marathon.emit,
        stop=marathon.stops.now,
        inherit=(marathon.lease.fd,),
    )


def found_criteria(
    task: Task, project: Path, before: Sequence[Criterion], trusted: Trusted, home: Path | None = None
) -> CriteriaFound:
    """What the task's files say now. They may ask for more. To ask for less takes the human's yes.

    An agreement is about the human's project (`home`), and counts in the worktree of the task as well.
    """
    try:
        texts = task.criteria_texts()
        criteria, setup = read_criteria(*texts), setup_in(texts[0])
        if each := _leads_out(project, criteria):
            raise CriteriaInvalid(f"{each.name}: its folder {each.cwd} leads out of the project")
    except CriteriaInvalid as invalid:
        return CriteriaFound(agreed=False, problem=str(invalid))
    code = digest(criteria, f"{home or project}\n{task.folder}", setup)
    lost = [each.name for each in before if each not in criteria]
    may_run = trusted.has(code) or not (setup or any(each.command for each in criteria))
    return CriteriaFound(digest=code, criteria=list(criteria), setup=setup, agreed=may_run and not lost, lost=lost)


def _leads_out(project: Path, criteria: Iterable[Criterion]) -> Criterion | None:
    """The first criterion whose folder is not in the project, by a link."""
    inside = os.path.realpath(project)
    folders = ((each, os.path.realpath(project / each.cwd)) for each in criteria if each.cwd != ".")
    return next((each for each, folder in folders if not Path(folder).is_relative_to(inside)), None)


def remember(trusted: Trusted, criteria: CriteriaFound, project: Path) -> None:
    commands = {each.name: each.command for each in criteria.criteria}
    trusted.remember(criteria.digest, {"project": str(project), "criteria": commands, "setup": criteria.setup})


def verdicts_in(task: Task) -> dict[str, object]:
    """The extra fields of STATE.json, where the agent records its judgements."""
    try:
        state = task.read_state()
    except StateInvalid:
        return {}
    return dict(state.model_extra or {}) if state else {}
