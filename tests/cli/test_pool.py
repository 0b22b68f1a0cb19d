"""run A B C: a pool of runners that a gate does not block, and that Ctrl+C ends without loss."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

from tests.process.driver import Pty, until
from tests.support.side import Side
from tests.support.world import World


def test_a_gate_frees_its_place_and_an_answer_brings_the_task_back(world: World) -> None:
    side = Side(world, "one", "two")
    side.hold("two")
    (side.task("two") / "STATE.json").write_text('{"state": "running", "phase": "implement"}')
    pool = side.start("run", "one", "two", "--adopt", "--worktree")
    try:
        until(lambda: side.works("two"), "two has the place that one left", 60)
        assert side.status("one")["condition"] == "gate"
        side.type("approve", "one")
        side.release("two")
        output = pool.communicate(timeout=90)[0]
    finally:
        if pool.poll() is None:
            pool.terminate()
    assert pool.returncode == 3, output
    lines = [re.sub(r"^\d\d:\d\d:\d\d  |(?<=pid) \d+|(?<=code: )\w{6}", "", line) for line in output.splitlines()]
    assert lines[: lines.index("")] == [
        "one: started, pid",
        "one: waiting for you: review of research. See and answer: pi-marathon status one (the gate's code: )",
        "two: started, pid",
        "one: its gate is answered",
        "two: completed",
        "one: started, pid",
        "one: waiting for you: review of plan. See and answer: pi-marathon status one (the gate's code: )",
    ]
    table = lines[lines.index("") + 1 :]
    assert table[0].split() == ["Task", "State", "Cost", "Time"]
    assert table[1].startswith("one   waiting for you: review of plan")
    assert table[3:6] == ["What to type:", "  pi-marathon status one   # the gate's code: ", "  git merge marathon/two"]
    assert table[6] == "After your answers, continue with:"
    assert table[7].startswith("  pi-marathon run one two --adopt --worktree ")
    (log,) = (path for path in side.state.glob("tasks/*/output.log") if b"Phase: plan" in path.read_bytes())
    assert log.stat().st_mode & 0o777 == 0o600
    assert not list(Path(side.task("one")).rglob("output.log"))


def test_ctrl_c_stops_every_runner_and_nothing_is_lost(world: World, typed: Callable[..., Pty]) -> None:
    side = Side(world, "one", "two")
    side.hold("one", "two")
    pool = typed("run", "one", "two", "--parallel", "2", "--auto-approve", *side.agent_args())
    until(lambda: side.works("one") and side.works("two"), "both work", 60)
    pool.expect(b"Several of these tasks work in")
    pool.send(b"\x03")
    pool.expect(b"Stopping. What is done is saved.")
    assert pool.wait() == 128 + signal.SIGINT
    assert {side.status(name)["condition"] for name in ("one", "two")} == {"ready"}
    assert not any(row["runner"] for row in side.listed().values())


def test_what_cannot_run_is_refused_before_anything_starts(world: World) -> None:
    side = Side(world, "one")
    assert "nope does not exist" in side.type("run", "one", "nope", expected=7)
    assert "No such option" in side.type("run", "one", "--human", "x", expected=2)
    assert not (side.task("one") / ".marathon").exists()
