"""What an agent prints, of any size and shape, passes through in bounded memory and never holds the runner up."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.sweep import nobody_left
from tests.process.driver import until
from tests.support.world import World, finish, plan, research

Start = Callable[..., subprocess.Popen[str]]
MEGABYTE = 1 << 20
PLENTY = 200  # MiB; a runner that does nothing needs about fifty


def peak_memory(pid: int) -> float:
    """The most memory a process has had, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) / 1024


FLOODS = {
    "one line of 200 MB": "head -c 200M /dev/zero | tr '\\0' a; echo",
    "50 MB on stderr": "yes \"$(head -c 2000 /dev/zero | tr '\\0' b)\" | head -c 50M >&2",
    "many short lines": "yes | head -n 60000",
    "carriage returns": "yes | head -n 60000 | tr '\\n' '\\r'",
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_needs_no_memory_and_blocks_nothing(world: World, in_background: Start, kind: str) -> None:
    world.script(research(run=FLOODS[kind]), plan(hold=True), finish())
    runner = in_background("--auto-approve", "--no-notify")
    drained = subprocess.Popen(["cat"], stdin=runner.stdout, stdout=subprocess.DEVNULL)
    try:
        until(lambda: world.holding(2), "the flood is over", seconds=120)
        assert peak_memory(runner.pid) < PLENTY
        log = (world.kept / "runs/001/events").glob("001.*")
        assert sum(part.stat().st_size for part in log) > 2 * MEGABYTE
        world.release(2)
        assert runner.wait(30) == 0
    finally:
        drained.kill()
        drained.wait()


def test_garbage_and_half_lines_are_shown_harmlessly(world: World) -> None:
    garbage = r"printf 'a\000b\377\376\n\r\n\033[2J\033]0;x\007c\n'; head -c 20000 /dev/urandom; printf '\nhalf a line'"
    world.script(research(run=garbage))
    done = world.run()
    assert done.returncode == 3
    assert "Traceback" not in done.stdout + done.stderr
    assert "\x1b" not in done.stdout
    assert "\x00" not in done.stdout
    assert "  half a line\n" in done.stdout
    assert "Phase: research" in done.stdout


def test_silence_ends_with_the_session_timeout(world: World) -> None:
    world.script({"hold": True})
    done = world.run("--session-timeout", "1s", "--retries", "0")
    assert done.returncode == 1
    assert "the session timed out" in done.stdout
    assert "Phase: research" in done.stdout
    assert nobody_left(world)
    assert world.state()["phase"] == "research"


def test_a_flood_does_not_keep_the_session_from_timing_out(world: World) -> None:
    world.script({"run": "yes"})
    done = world.run("--session-timeout", "1s", "--retries", "0", "--no-notify")
    assert done.returncode == 1
    assert "the session timed out" in done.stdout[-2000:]
    assert nobody_left(world)


def test_an_agent_that_closes_its_output_may_go_on_working(world: World) -> None:
    world.script(research(run="sleep 0.2"))
    closing = "exec >&- 2>&-; sleep 0.3; printf found > task/research.md; cp ../agent/state task/STATE.json"
    (world.agent / "state").write_text('{"state":"paused","phase":"research","iteration":1}')
    done = world.cli("--task", "task", "--agent", "command", "--", "sh", "-c", closing)
    assert done.returncode == 3
    assert "Review the output: task/research.md" in done.stdout
    assert world.records("session_ended")[0]["seconds"] >= 0.3


def test_output_that_nobody_reads_keeps_nothing_from_timing_out(world: World, in_background: Start) -> None:
    """Its pipe is full long before the flood is over; the session ends in time all the same, and the gate is kept."""
    world.script(research(run="yes 'a line of some length, again and again' | head -c 20M", hold=True))
    runner = in_background("--session-timeout", "3s", "--retries", "0", "--no-notify")
    until(lambda: (world.task / ".marathon/summary.json").exists(), "the runner is done but for its last words")
    assert world.records("session_ended")[-1]["ending"] == "timeout"
    assert world.records("gate_opened")[-1]["reason"] == "failed"
    out, _ = runner.communicate(timeout=60)
    assert runner.returncode == 1
    assert "some output was left out" in out
    assert "then: pi-marathon --task task" in out
