"""The other end of sweeper.py, and what must be true of a task after its runner was killed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from marathon.process.tree import find_by_environ
from tests.process.driver import until
from tests.support.world import ROOT, World, as_human

HERE = Path(__file__).resolve().parent
FULL = bool(os.environ.get("MARATHON_FULL_SWEEP"))
# MARATHON_FULL_SWEEP=records: only around the records, which is where what is known changes.
RECORDS = r"fsync in append_durable|open .*\.(jsonl|md)$" if os.environ.get("MARATHON_FULL_SWEEP") == "records" else ""
KILLED = -9
ORDER = ["research", "plan", "implement"]


class Sweeper:
    """Runs command lines with everything imported already: a point of a sweep costs a fork, not a start of Python."""

    def __init__(self) -> None:
        self._alone = threading.Lock()  # some tests type at the same moment
        self._server = subprocess.Popen(
            [sys.executable, "-P", str(HERE / "sweeper.py")],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, world: World, *args: str, kill_at: int = 0, out: Path | None = None) -> int:
        printed = out or world.home / "out"
        return self.fork(args, world.project, world.env(), printed, printed, kill_at)

    def fork(
        self,
        args: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        out: Path,
        err: Path,
        kill_at: int | None = None,
        of: str = "",
    ) -> int:
        """The pid of a command line that has begun. It dies before its n-th change whose name `of` matches."""
        args = as_human(args, cwd, Path(env["HOME"]))
        where = {"cwd": str(cwd), "env": env, "out": str(out), "err": str(err)}
        return int(self._ask({"start": {"args": args, **where, "kill_at": kill_at, "of": of}}))

    def poll(self, pid: int) -> int | None:
        answer = self._ask({"poll": pid})
        return None if answer is None else int(answer)

    def run(self, world: World, *args: str, kill_at: int = 0) -> int:
        """Its exit code."""
        (world.home / "out").unlink(missing_ok=True)
        return self.wait(self.start(world, *args, kill_at=kill_at))

    def wait(self, pid: int, seconds: float = 60) -> int:
        """Its exit code."""
        ended: list[int] = []

        def over() -> bool:
            code = self.poll(pid)
            ended.extend([] if code is None else [code])
            return bool(ended)

        until(over, "the command line ends", seconds)
        return ended[0]

    def printed(self, world: World) -> str:
        """What the last run in this world wrote to stdout and stderr."""
        return (world.home / "out").read_text()

    def close(self) -> None:
        assert self._server.stdin
        self._server.stdin.close()
        self._server.wait()

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._server.stdin
        assert self._server.stdout
        with self._alone:
            self._server.stdin.write(json.dumps(request) + "\n")
            self._server.stdin.flush()
            return json.loads(self._server.stdout.readline())


@contextmanager
def sweeper() -> Iterator[Sweeper]:
    server = Sweeper()
    try:
        yield server
    finally:
        server.close()


def marathon_args(*args: str) -> list[str]:
    """--task with the phased agent behind it; it keeps its records in the world it is run in."""
    agent = ["sh", str(HERE / "phased_agent.sh"), "../agent"]
    return ["--task", "task", "--agent", "command", *args, "--", *agent]


def copy_of(world: World, folder: Path) -> World:
    """The same world in another place, as if it had always been there."""
    shutil.copytree(world.project.parent, folder, symlinks=True)
    copied = world_at(folder)
    for note in copied.home.glob(".local/state/pi-marathon/tasks/*/home.json"):
        note.write_text(json.dumps({"task": str(copied.task)}))
        note.parent.rename(copied.kept)
        (copied.task / ".marathon").unlink(missing_ok=True)
        (copied.task / ".marathon").symlink_to(copied.kept)
        lock = copied.kept / "lock"
        lock.write_text(lock.read_text().replace(str(world.project), str(copied.project)))
    return copied


def world_at(folder: Path) -> World:
    copied = object.__new__(World)
    copied.project, copied.agent = folder / "project", folder / "agent"
    copied.home, copied.states = folder / "home", folder / "states"
    copied.task = copied.project / "task"
    return copied


def points(changes: int, step: int) -> list[int]:
    """The changes before which to kill: all of them in a full sweep, else some of them; always the first and last."""
    chosen = range(1, changes + 1) if FULL else range(1, changes + 1, 2 * step)
    return sorted({*chosen, changes})


def changes_of(world: World) -> list[str]:
    return (world.home / "out.changes").read_text().splitlines()


def assert_whole(world: World) -> None:
    """Right after the kill, before anybody mends anything: no file is half written."""
    journal = world.task / ".marathon" / "journal.jsonl"
    lines = journal.read_bytes().split(b"\n") if journal.exists() else []
    for line in lines[:-1]:
        assert isinstance(json.loads(line), dict)
    state = world.task / "STATE.json"
    if state.exists():
        assert json.loads(state.read_bytes())["phase"] in [*ORDER, "done"]
    human = world.task / "human.md"
    if human.exists() and human.read_bytes():
        assert human.read_text().startswith("# Human Feedback\n\n## ")
        assert human.read_text().endswith("\n")


def assert_in_order(world: World) -> None:
    """The journal tells of no gate passed without an answer, no phase left out, none begun again once it had ended."""
    records = world.journal()
    assert [record["n"] for record in records] == list(range(1, len(records) + 1))
    phase, answered = "research", False
    for record in records:
        match record["type"]:
            case "gate_opened":
                assert record["phase"] == phase
                answered = False
            case "gate_answered":
                answered = True
            case "moved":
                assert answered, f"{phase} was left without an answer"
                assert record["phase"] == ORDER[ORDER.index(phase) + 1]
                phase, answered = record["phase"], False
            case "session_started":
                assert record["phase"] == phase
            case "run_started":
                phase, answered = "research", False
    log = (world.agent / "log").read_text().splitlines()
    for number, line in enumerate(log):
        if line.startswith("ended"):
            assert line.replace("ended", "began") not in log[number:], f"repeated although finished: {line}"


def assert_completed(world: World, run: int) -> None:
    state = world.state()
    assert (state["state"], state["phase"], state["kept"]) == ("completed", "done", "as it is")
    for name, text in {"research.md": "findings", "plan.md": "plan", "result.md": "result"}.items():
        assert world.read(name) == f"{text} of run {run}\n"
    assert world.read("work.md").splitlines() == [f"chunk of run {number}" for number in range(1, run + 1)]
    assert [record["phase"] for record in world.records("moved")] == ["plan", "implement"] * run
    assert len(world.records("finished")) == run
    files = sorted((world.task / ".marathon" / "runs").glob("*/iterations/*.json"))
    assert len(files) == len(world.records("session_ended"))
    assert all(json.loads(path.read_text())["ending"] for path in files)
    assert_in_order(world)


def nobody_left(world: World) -> bool:
    return not find_by_environ("MARATHON_TASK_DIR", str(world.task))
