"""Knows what a task's files ask for and whether a human agreed to it, and holds a proposed end against that."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from marathon.core.criteria import CriteriaInvalid, Criterion, digest, read_criteria, said_in_full
from marathon.core.events import Notice
from marathon.core.names import StateInvalid
from marathon.core.records import Checked, CriteriaFound, Scored
from marathon.core.score import score
from marathon.core.steps import Verify
from marathon.runner.checks import Checks
from marathon.runner.journal import Ledger
from marathon.runner.marathon import Workshop
from marathon.runner.session import update_state
from marathon.store.files import make_private_directory
from marathon.store.task import Task
from marathon.store.trusted import Trusted


@dataclass
class Verifier:
    shop: Workshop
    ledger: Ledger
    agreed: Trusted
    shape: Literal["tool", "colleague"] | None = None  # as the human chose it
    _seen: tuple[object, ...] = ()

    def look(self) -> None:
        """Note what the files say now, where that is new: the agent may have changed them as well as the human."""
        progress = self.ledger.progress
        files = self.shop.task.criteria_marks()
        if progress.finished or progress.cancelled or self._seen == (files, progress.criteria, progress.scored):
            return
        self._look_at_instructions()
        self._look_at_criteria()
        self._seen = (files, self.ledger.progress.criteria, self.ledger.progress.scored)

    def _look_at_instructions(self) -> None:
        """How closely a human looks: as chosen, or for a task that begins, by how much its instructions say."""
        progress = self.ledger.progress
        scored = progress.scored
        if self.shape is not None:
            if scored is None or scored.shape != self.shape:
                self.ledger.record(Scored(shape=self.shape, chosen=True))
        elif progress.iteration == 0 and not (scored and scored.chosen):
            rated = score(said_in_full(*self.shop.task.criteria_texts()))
            if scored is None or (scored.points, scored.missing) != (rated.total, rated.missing):
                self.ledger.record(Scored(shape=rated.shape, points=rated.total, missing=rated.missing))

    def _look_at_criteria(self) -> None:
        progress = self.ledger.progress
        known = progress.criteria
        found = found_criteria(self.shop.task, self.shop.project, progress.agreed, self.agreed)
        if known is None and not (found.criteria or found.problem):
            return
        if known is None or replace(known, n=0, at="") != found:
            self.ledger.record(found)

    def agree(self) -> None:
        """The human has seen exactly these, and said yes."""
        criteria = self.ledger.progress.criteria
        if criteria is not None and not criteria.problem:
            remember(self.agreed, criteria, self.shop.project)
            self._seen = ()

    def verify(self, step: Verify) -> None:
        """Run the commands, read the agent's judgements, and record what came of it all."""
        shop, progress = self.shop, self.ledger.progress
        criteria = step.criteria.criteria
        if _leads_out(shop.project, criteria):  # since it was agreed to
            self._seen = ()
            return
        shop.emit(
            Notice(
                f"Completion is proposed: checking {len(criteria)} {'criterion' if len(criteria) == 1 else 'criteria'}."
            )
        )
        logs = shop.task.runs.folder(progress.run) / "checks" / f"{progress.iteration:03d}"
        make_private_directory(logs)
        checks = Checks(
            project=shop.project,
            logs=logs,
            env=check_environment(shop.task, shop.runner),
            signals=shop.signals,
            emit=shop.emit,
            stop=shop.stop_now,
            inherit=(shop.lock_fd,),
        )
        results = checks.run(criteria, verdicts_in(shop.task))
        if results is None:
            return
        status = {result.name: result.met for result in results}
        update_state(shop, progress.phase, progress.iteration, criteriaStatus=status)
        self.ledger.record(Checked(digest=step.criteria.digest, results=results))


def found_criteria(task: Task, project: Path, before: Sequence[Criterion], agreed: Trusted) -> CriteriaFound:
    """What the task's files say now. They may ask for more unasked; what they asked for before may not go unasked."""
    try:
        criteria = read_criteria(*task.criteria_texts())
        if each := _leads_out(project, criteria):
            raise CriteriaInvalid(f"{each.name}: its folder {each.cwd} leads out of the project")
    except CriteriaInvalid as invalid:
        return CriteriaFound(agreed=False, problem=str(invalid))
    code = digest(criteria, f"{project}\n{task.folder}")
    lost = [each.name for each in before if each not in criteria]
    may_run = agreed.has(code) or not any(each.command for each in criteria)
    return CriteriaFound(digest=code, criteria=list(criteria), agreed=may_run and not lost, lost=lost)


def _leads_out(project: Path, criteria: Iterable[Criterion]) -> Criterion | None:
    """The first whose folder is not in the project, by a link."""
    inside = os.path.realpath(project)
    folders = ((each, os.path.realpath(project / each.cwd)) for each in criteria if each.cwd != ".")
    return next((each for each, folder in folders if not Path(folder).is_relative_to(inside)), None)


def remember(agreed: Trusted, criteria: CriteriaFound, project: Path) -> None:
    commands = {each.name: each.command for each in criteria.criteria}
    agreed.remember(criteria.digest, {"project": str(project), "criteria": commands})


def check_environment(task: Task, runner: str) -> dict[str, str]:
    """A check is no human either: with a runner's id in its environment it cannot answer a gate."""
    return {**os.environ, "MARATHON_RUNNER_ID": runner, "MARATHON_TASK_DIR": str(task.folder)}


def verdicts_in(task: Task) -> dict[str, object]:
    """The fields of STATE.json we do not know ourselves; the agent's judgements are among them."""
    try:
        state = task.read_state()
    except StateInvalid:
        return {}
    return dict(state.model_extra or {}) if state else {}
