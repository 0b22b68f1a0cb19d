"""What many tasks cost `list`, against one."""

from __future__ import annotations

import shutil

from bench.counts import Counts
from bench.row import Row, Target
from bench.scratch import DIRECT, Scratch, fastest


def measure(scratch: Scratch, counts: Counts) -> list[Row]:
    one = scratch.finished_task("few/20260202-143000-task")
    for number in range(counts.tasks):
        shutil.copytree(one, scratch.project / "many" / f"{20260101 + number}-143000-task")
    commands = {folder: (*DIRECT, "list", folder) for folder in ("few", "many")}
    best = {name: 1000 * seconds for name, seconds in fastest(scratch, commands, counts.lists).items()}
    return [Row(f"list of {counts.tasks} tasks", best["many"], "ms", best["few"], "list of 1", Target("ratio", 3))]
