"""One runner a task: exactly one of many wins, a dead one blocks nobody, and no stranger is ever signalled."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from marathon.process import linux, tree
from tests.faults.sweep import Sweeper
from tests.process.driver import alive, until
from tests.support.world import World, finish, plan, research

Start = Callable[..., subprocess.Popen[str]]
EARLIER = "m-20260202-143000-1-abcdef"
NAMED = re.compile(r"Another runner has this task \(pid (\d+) on \S+, for \S+\)")


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any marathon, and says so when it is signalled."""
    script = "trap 'echo signalled; exit 1' TERM INT HUP CONT; echo; while :; do sleep 0.1; done"
    process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    yield process
    if process.poll() is None:
        process.kill()
        process.communicate()


def everything_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "001.jsonl"}


def test_the_second_runner_names_the_first_and_changes_nothing(world: World, in_background: Start) -> None:
    world.script(research(hold=True))
    first = in_background()
    until(lambda: world.holding(1), "the first session")
    before = everything_in(world.task), sorted(world.states.iterdir())
    for args in ([], ["-h", "other words"], ["--auto-approve"]):
        began = time.monotonic()
        second = world.run(*args)
        assert second.returncode == 6
        assert time.monotonic() - began < 15
        assert second.stdout == ""
        named = NAMED.search(second.stderr)
        assert named
        assert int(named[1]) == first.pid
    assert (everything_in(world.task), sorted(world.states.iterdir())) == before
    assert first.poll() is None
    world.release(1)
    assert first.wait(30) == 3
    assert world.sessions() == 1


@pytest.mark.parametrize("earlier", [False, True])
def test_of_fifty_runners_exactly_one_runs(cli: Sweeper, world: World, earlier: bool) -> None:
    if earlier:
        world.script(research())
        assert cli.run(world, *world.task_args()) == 3  # leaves its own name in the lock
    number = world.sessions() + 1
    world.script(research(), research(hold=True))
    if not earlier:
        world.script(research(hold=True))
    args = world.task_args("-h", "again") if earlier else world.task_args()
    outs = {cli.start(world, *args, out=world.home / f"out-{one}"): world.home / f"out-{one}" for one in range(50)}
    codes: dict[int, int] = {}

    def only_one_left() -> bool:
        for pid in outs.keys() - codes.keys():
            if (code := cli.poll(pid)) is not None:
                codes[pid] = code
        return len(codes) == 49 and world.holding(number)

    until(only_one_left, "49 of 50 give up", seconds=60)
    assert set(codes.values()) == {6}
    (winner,) = outs.keys() - codes.keys()
    for pid in codes:
        named = NAMED.search(outs[pid].read_text())
        assert named, outs[pid].read_text()
        assert int(named[1]) == winner
    world.release(number)
    until(lambda: cli.poll(winner) is not None, "the winner comes to its gate")
    assert world.sessions() == number
    assert len(world.records("begun")) == 1
    assert len(world.records("restart_begun")) == earlier


def test_the_runner_writes_the_state_only_while_no_agent_lives(world: World, in_background: Start) -> None:
    world.script(research(hold=True), plan())
    runner = in_background()
    until(lambda: world.holding(1), "the agent has left its proposal and goes on working")
    proposed = world.read("STATE.json"), (world.task / "STATE.json").stat()
    assert world.cli("tell", "task", "a word").returncode == 0
    assert world.cli("status", "task").returncode == 0
    assert world.cli("approve", "task").returncode == 2
    assert world.run("-h", "again").returncode == 6
    assert world.cli("stop", "task").returncode == 0
    assert (world.read("STATE.json"), (world.task / "STATE.json").stat()[:9]) == (proposed[0], proposed[1][:9])
    world.release(1)
    assert runner.wait(30) == 3


def test_what_an_agent_leaves_running_never_writes_over_the_runner(world: World) -> None:
    body = '{"state":"completed","phase":"done","iteration":9,"updatedAt":null,"note":"late"}'
    scribble = (
        f"while :; do echo '{body}' > ../agent/late; mv ../agent/late task/STATE.json; echo >> ../agent/count; done"
    )
    (world.agent / "scribble.sh").write_text(scribble)
    wait_for_it = "while ! [ -s ../agent/count ]; do sleep 0.01; done"
    world.script(research(run=f"setsid sh ../agent/scribble.sh >/dev/null 2>&1 & {wait_for_it}"))
    done = world.run()
    assert done.returncode == 3
    assert "had left running" in done.stdout
    count = (world.agent / "count").stat().st_size
    state = world.state()
    assert state["state"] == "paused"
    assert state["phase"] == "research"
    time.sleep(0.3)
    assert world.state() == state
    assert (world.agent / "count").stat().st_size == count


def test_a_killed_runner_leaves_no_lock_and_no_agent(world: World, in_background: Start) -> None:
    world.script({"run": "setsid sleep 1000 & echo $! > ../agent/helper", "hold": True}, research())
    runner = in_background()
    until(lambda: world.holding(1), "the first session")
    helper = int((world.agent / "helper").read_text())
    below = [psutil.Process(helper), *tree.descendants(runner.pid)]
    runner.kill()
    runner.wait()
    until(lambda: not any(alive(process.pid) for process in below), "the agent dies with its runner")
    assert "interrupted" in world.cli("status", "task").stdout
    again = world.run()
    assert again.returncode == 3
    assert world.sessions() == 2
    assert [record["ending"] for record in world.records("session_ended")] == ["lost", "ended"]


def test_what_outlives_runner_and_guardian_is_named_and_ended_by_the_next_start(
    world: World, in_background: Start
) -> None:
    # A helper in a session of its own that holds the lock by its inherited descriptor.
    keep = "setsid sh -c 'echo $$ > ../agent/helper; exec sleep 1000' </dev/null >/dev/null 2>&1 &"
    hold = f"{keep} while ! [ -s ../agent/helper ]; do sleep 0.01; done; touch ../agent/ready; exec sleep 1000"
    args = ["--task", "task", "--agent", "command", "--", "sh", "-c", hold]
    runner = subprocess.Popen(
        world.argv(*args), cwd=world.project, env=world.env(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    until(lambda: (world.agent / "ready").exists(), "the agent has its helper")
    helper = int((world.agent / "helper").read_text())
    (guardian,) = (each for each in psutil.Process(runner.pid).children() if each.name() == linux.GUARDIAN)
    os.kill(runner.pid, signal.SIGSTOP)
    os.kill(guardian.pid, signal.SIGKILL)
    runner.kill()
    runner.wait()
    assert alive(helper)
    world.script(research())
    again = world.run()
    assert again.returncode == 3
    assert f"Ending pid {helper} (sleep 1000), left by an earlier runner." in again.stdout
    assert not alive(helper)


def leave_note(world: World, **fields: object) -> None:
    """The lock as an earlier runner left it."""
    world.kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    note = {"pid": 1, "host": "here", "runner": EARLIER, "since": 1.0, "resume": "", **fields}
    (world.kept / "lock").write_text(json.dumps(note))


def test_a_reused_pid_blocks_nobody_and_is_never_signalled(world: World, stranger: subprocess.Popen[bytes]) -> None:
    world.script(research())
    leave_note(world, pid=stranger.pid)
    world.states.mkdir(mode=0o700)
    mail = {"runnerId": EARLIER, "pid": stranger.pid, "taskDir": str(world.task)}
    (world.states / f"{EARLIER}.json").write_text(json.dumps(mail))
    done = world.run()
    assert done.returncode == 3
    assert "Ending pid" not in done.stdout
    assert stranger.poll() is None
    stranger.kill()
    assert stranger.communicate()[0] == b""


@pytest.mark.parametrize(
    ("runner", "task"), [(f"{EARLIER}0", ""), (EARLIER[:-1], ""), ("", ""), (EARLIER, ""), (EARLIER, "-2")]
)
def test_processes_of_other_runners_and_of_other_tasks_are_left_alone(world: World, runner: str, task: str) -> None:
    """Whatever runner a note names, only what was started for this task can be ended by it."""
    world.script(research())
    leave_note(world, pid=2**22 - 1)
    started_for = {"MARATHON_TASK_DIR": f"{world.task}{task}"} if task else {}
    sleeper = subprocess.Popen(["sleep", "1000"], env={**os.environ, "MARATHON_RUNNER_ID": runner, **started_for})
    try:
        assert world.run().returncode == 3
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"{half",
        b"\0" * 100,
        b"[]",
        b'"text"',
        b'{"pid":"x","host":1,"runner":[],"since":null}',
        b'{"pid":99999999999999999999999,"host":"h","runner":"../../../etc/passwd","since":1e308}',
        b'{"pid":-1,"host":"h\\u001b[2J","runner":"$(touch pwned)\\u0000","since":NaN}',
        b'{"pid":0,"host":"h","runner":"m-1","since":Infinity,"resume":7}',
        b"[" * 100_000,
    ],
    ids=["empty", "half", "nul", "list", "text", "types", "path", "escapes", "infinity", "deep"],
)
def test_a_nonsense_note_in_the_lock_blocks_nobody(cli: Sweeper, world: World, note: bytes) -> None:
    world.script(research())
    world.kept.mkdir(mode=0o700, parents=True)
    (world.kept / "lock").write_bytes(note)
    assert cli.run(world, "status", "task") == 0
    assert cli.run(world, *world.task_args()) == 3, cli.printed(world)
    assert "Phase: research" in cli.printed(world)
    assert not (world.project / "pwned").exists()


def test_a_nonsense_note_in_a_held_lock_is_still_told_as_busy(world: World) -> None:
    world.script(research())
    own = world.kept
    own.mkdir(mode=0o700, parents=True)
    hostile = b'{"pid":-1,"host":"h\\u001b[2J","runner":"..","since":-1e999}'
    for note in (b"{half", hostile, hostile.replace(b"-1e999", b"NaN")):
        (own / "lock").write_bytes(note)
        take = "import fcntl,sys,time; f=open(sys.argv[1],'r+'); fcntl.flock(f,2); print(flush=True); time.sleep(1000)"
        holder = subprocess.Popen([sys.executable, "-IS", "-c", take, str(own / "lock")], stdout=subprocess.PIPE)
        try:
            assert holder.stdout
            holder.stdout.readline()
            done = world.run()
            assert done.returncode == 6, done.stderr
            assert done.stderr.startswith("pi-marathon: Another runner has this task")
            assert "\x1b" not in done.stderr
        finally:
            holder.kill()
            holder.communicate()
    assert world.sessions() == 0


def test_after_a_reboot_the_task_is_free(world: World) -> None:
    """Nothing of a lock survives but its note, and a session that was under way is taken up again."""
    world.script({"hold": True}, research(), plan(), finish())
    runner = world.start()
    until(lambda: world.holding(1), "the first session")
    below = tree.descendants(runner.pid)
    runner.kill()
    runner.communicate()
    until(lambda: not any(alive(process.pid) for process in below), "everything is gone, as after a reboot")
    leave_note(world, pid=os.getpid())
    assert world.run("--auto-approve").returncode == 0
    assert world.sessions() == 4
