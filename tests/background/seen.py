"""What the tests of this room look at from outside: the runner that has a task, and its gate."""

from __future__ import annotations

import fcntl
import json
import os
from typing import Any

from tests.process.driver import until
from tests.support.world import World

GATE = b"[q]      Quit marathon"


def is_held(world: World) -> bool:
    """Whether a runner has the task."""
    try:
        fd = os.open(world.task / ".marathon" / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(fd)


def runner(world: World) -> int:
    """The pid in the note of the lock."""
    return int(json.loads((world.task / ".marathon" / "lock").read_text())["pid"])


def gates(world: World) -> list[dict[str, Any]]:
    return world.records("gate_opened") if (world.task / ".marathon" / "journal.jsonl").exists() else []


def at_gate(world: World, count: int = 1) -> None:
    until(lambda: len(gates(world)) == count, f"gate {count} is open")


def over(world: World) -> None:
    until(lambda: not is_held(world), "the runner has ended")


def events(world: World, iteration: int) -> list[dict[str, Any]]:
    log = world.task / ".marathon" / "runs" / "001" / "events" / f"{iteration:03d}.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()]
