"""What follows a session, its gate, waits and checks, stands in that session's log, whichever runner did it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from marathon.core.events import CheckEnded, GateAnswered, GateOpened, Logged, SessionEnded, WaitBegan, WaitEnded
from marathon.store.events import follow
from tests.process.driver import until
from tests.support.world import Entry, World, chunk, finish, plan, research

CRASH: Entry = {"say": ["it broke"], "exit": 7}


def log_of(world: World, number: int) -> Path:
    return world.task / f".marathon/runs/001/events/{number:03d}.jsonl"


def after_the_end(world: World, number: int) -> list[Logged]:
    """What a session's log holds after its end, without notices and the ends of runners."""
    events = [event for event in follow(log_of(world, number)) if event.type not in ("notice", "runner_ended")]
    (end,) = [place for place, event in enumerate(events) if isinstance(event, SessionEnded)]
    return events[end + 1 :]


def test_a_gate_and_the_answer_from_another_shell_stand_in_the_log(world: World) -> None:
    world.script(research(), plan())
    assert world.run().returncode == 3
    assert after_the_end(world, 1) == [GateOpened("review", "research")]
    assert world.cli("approve", "task").returncode == 0
    assert world.run().returncode == 3
    assert after_the_end(world, 1) == [
        GateOpened("review", "research"),
        GateAnswered("continue", "command", "research"),
    ]
    assert after_the_end(world, 2) == [GateOpened("review", "plan")]
    token = world.records("gate_opened")[0]["token"]
    assert token not in log_of(world, 1).read_text()


def test_a_wait_before_a_retry_stands_in_the_log(world: World) -> None:
    world.script(CRASH, research())
    assert world.run("--retry-wait", "0.2s").returncode == 3
    began, ended = after_the_end(world, 1)
    assert isinstance(began, WaitBegan)
    assert "exit code 7" in began.reason
    assert 0 < began.seconds <= 0.2
    assert ended == WaitEnded(early=False)


def test_what_was_checked_stands_in_the_log(world: World) -> None:
    text = "# Do it\n\nAll of it.\n\n## Success Criteria\n\n- Made: `test -e made`\n"
    (world.task / "instructions.md").write_text(text)
    world.script(research(), plan(), finish(), finish(touch="made"))
    assert world.run("--auto-approve", "--trust").returncode == 0
    (failed,), (passed,) = after_the_end(world, 3), after_the_end(world, 4)
    assert isinstance(failed, CheckEnded)
    assert isinstance(passed, CheckEnded)
    assert (failed.name, failed.met, failed.reason, failed.command) == ("Made", False, "exit code 1", "test -e made")
    assert (passed.name, passed.met, passed.reason) == ("Made", True, "")


def test_a_session_whose_runner_was_killed_is_ended_in_its_log_by_the_next(
    world: World, in_background: Callable[..., subprocess.Popen[str]]
) -> None:
    world.script(chunk(say=["I begin"], hold=True), research())
    runner = in_background()
    until(lambda: world.holding(1), "the session runs")
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    assert not [event for event in follow(log_of(world, 1)) if isinstance(event, SessionEnded)]
    assert world.run().returncode == 3
    (end,) = [event for event in follow(log_of(world, 1)) if isinstance(event, SessionEnded)]
    assert (end.ending, end.cause) == ("lost", "the runner was killed")
    assert 0 <= end.seconds < 30


def test_a_session_that_prints_without_end_leaves_a_log_of_a_size_and_that_is_told(world: World) -> None:
    lines = "head -c 37000000 /dev/zero | tr '\\0' x | fold -w 60000"
    world.script(research(run=f"echo the first line; {lines}; echo; echo the last line"))
    ran = world.run()
    assert ran.returncode == 3, ran.stderr
    assert sum(each.stat().st_size for each in (world.kept / "runs/001/events").iterdir()) < 33 << 20
    assert re.search(r"^Log: +too long; of the first 8 MB only the calls", world.cli("status", "task").stdout, re.M)
    told = world.cli("logs", "task").stdout
    assert "What the agent said and printed here was removed, because its log became too long (32 MB are kept)" in told
    assert "the first line" not in told
    assert told.index("was removed") < told.index("xxxx") < told.index("the last line")
