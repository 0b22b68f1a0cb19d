"""list --all with many tasks: what a thousand of them cost, beside ten."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.row import Row
from bench.scratch import MARATHON, WAITS_FOR_HUMAN, Scratch
from bench.waits import least_work
from marathon.cli.overview import in_index
from marathon.core.budgets import Usage
from marathon.show.status import Status
from marathon.store.places import index_folder
from marathon.store.runs import Runs
from marathon.store.task_index import remember_task

FEW, MANY, PER_PROJECT = 10, 1000, 5


def tasks(scratch: Scratch) -> list[Row]:
    """Each task is a copy of one at its review, with a summary of its own, in one of many projects."""
    scratch.new_task("reviewed")
    scratch.run(scratch.marathon("reviewed"), WAITS_FOR_HUMAN)
    counts = {"few": FEW, "many": scratch.count(MANY, 3 * FEW)}
    listed = (*MARATHON, "list", "--all")
    least: dict[str, float] = {}
    for name, count in counts.items():
        other = replace(scratch, project=scratch.project / name)
        _register(scratch, other, count)
        least |= least_work(other, {name: listed}, scratch.count(9, 2))
    about = f"{1000 * least['many']:.0f} ms of processor time for {counts['many']}, {1000 * least['few']:.0f} for {FEW}"
    return [Row("list --all with 1,000 tasks, beside ten", least["many"] / least["few"], "x", 3, about)]


def _register(source: Scratch, target: Scratch, count: int) -> None:
    with at_home(source):
        facts = Runs(source.project / "reviewed" / ".marathon").summary()
    assert facts
    status = Status(**{**facts, "usage": Usage(**facts["usage"])})
    with at_home(target):
        for number in range(count):
            project = target.project / "projects" / str(number // PER_PROJECT)
            task = project / "docs" / "tasks" / f"task-{number}"
            shutil.copytree(source.project / "reviewed", task)
            runs = Runs(task / ".marathon")
            runs.write_summary(facts)
            remember_task(index_folder(), task, project, in_index(status, runs.journal_size()))


@contextmanager
def at_home(scratch: Scratch) -> Iterator[None]:
    """In this process, what is kept outside of projects lies where the commands will look for it."""
    before = dict(os.environ)
    Path(scratch.environment()["HOME"]).mkdir(parents=True, exist_ok=True)
    os.environ |= {"HOME": scratch.environment()["HOME"]}
    os.environ.pop("XDG_STATE_HOME", None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
