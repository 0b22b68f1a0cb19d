"""What many tasks cost `list`, against one."""

from __future__ import annotations

import shutil

from bench.counts import Counts
from bench.row import Row, Target
from bench.scratch import DIRECT, Scratch, least_work


def measure(scratch: Scratch, counts: Counts) -> list[Row]:
    one = scratch.finished_task("few/20260202-143000-task")
    for number in range(counts.tasks):
        shutil.copytree(one, scratch.project / "many" / f"{20260101 + number}-143000-task")
    commands = {folder: (*DIRECT, "list", folder) for folder in ("few", "many")}
    least = {name: 1000 * seconds for name, seconds in least_work(scratch, commands, counts.lists).items()}
    name = f"list of {counts.tasks} tasks"
    return [Row(name, least["many"], "ms cpu", least["few"], "list of 1", Target("ratio", 3))]
