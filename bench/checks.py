"""What `check` adds to a hundred commands, against a shell that does nothing but run them beside each other."""

from __future__ import annotations

import os
from statistics import median

from bench.counts import Counts
from bench.row import Row
from bench.scratch import DIRECT, Scratch, seconds_of


def measure(scratch: Scratch, counts: Counts) -> list[Row]:
    """Wall time, because that is what somebody waits for; both take turns."""
    task = scratch.new_task("checked")
    table = "".join(f'[[check]]\nname = "check {number}"\ncommand = "true"\n' for number in range(counts.checks))
    (task / "checks.toml").write_text(f"parallel = true\n{table}")
    check = [*DIRECT, "check", "checked", "--trust"]
    beside = ["sh", "-c", f"seq {counts.checks} | xargs -P {os.cpu_count() or 1} -I _ sh -c true"]
    one, empty = scratch.new_task("one"), [*DIRECT, "check", "one", "--trust"]
    (one / "checks.toml").write_text('[[check]]\nname = "one"\ncommand = "true"\n')
    times: dict[str, list[float]] = {"check": [], "shell": [], "one": []}
    for _ in range(counts.check_rounds):
        for name, argv in (("check", check), ("shell", beside), ("one", empty)):
            times[name].append(1000 * seconds_of(scratch, argv))
    whole, shell, single = (median(times[name]) for name in ("check", "shell", "one"))
    each = (whole - single) / max(1, counts.checks - 1)
    return [
        Row(f"check of {counts.checks} commands", whole, "ms", shell, "the same by xargs -P"),
        Row("of that for each command", each, "ms", shell / counts.checks, "the same by xargs -P"),
    ]
