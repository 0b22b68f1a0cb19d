"""Twenty-odd ways out of --sandbox. Each leads out without it, and none with it.

One session tries all of them and writes down which worked, so the table costs few processes.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.git.test_snapshot import git
from tests.support.debian import need_bubblewrap
from tests.support.world import World

ATTEMPTS = Path(__file__).with_name("attempts.py")
# What a process may do on the machine anyway, or only in a mount namespace of its own: nothing to compare with.
ONLY_INSIDE = {"umount", "remount", "unshare", "device"}


@pytest.fixture(autouse=True)
def _bubblewrap() -> None:
    need_bubblewrap()


@pytest.fixture
def machine() -> Iterator[Path]:
    """A place outside of /tmp, which is another one inside: a home, and programs of the user that listen."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    (folder / "home").mkdir()
    (folder / "home/.bashrc").write_text("# mine\n")
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, folder)
        shared = Path(f"/dev/shm/{folder.name}")
        shared.write_text("x")
        cleanup.callback(shared.unlink)
        yield folder


@pytest.fixture
def sockets(machine: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    names = {
        "tmux": str(tmp_path / "tmux"),
        "dbus": str(machine / "bus"),
        "engine": str(machine / "home/engine.sock"),
        "abstract": f"\0{machine}",
    }
    with contextlib.ExitStack() as cleanup:
        for name in names.values():
            listening = cleanup.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(name)
            listening.listen()
        yield names


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Another process of the user."""
    process = subprocess.Popen(["sleep", "4321"])
    yield process
    process.kill()
    process.wait()


def prepare(world: World, machine: Path, sockets: dict[str, str], bystander: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The task lies deep in a repository with submodules, worktrees and hooks of its own; beside it lies another."""
    project = world.project
    shutil.rmtree(world.task)
    world.task = project / "docs/tasks/mine"
    for name in ("mine", "other"):
        (project / "docs/tasks" / name).mkdir(parents=True)
        (project / "docs/tasks" / name / "instructions.md").write_text("# Do it\n\nAll of it.\n")
    (project / "docs/tasks/other/STATE.json").write_text("{}")
    git(project, "init", "-q")
    (project / ".husky").mkdir()
    (project / ".husky/pre-commit").write_text("true\n")
    (project / "code.py").write_text("x = 1\n")
    git(project, "config", "core.hooksPath", ".husky/_")
    git(project, "add", "-A")
    git(project, "-c", "core.hooksPath=", "commit", "-qm", "first")
    git(project, "worktree", "add", "-q", "-b", "side", str(machine / "side"))
    git(project, "init", "-q", str(project / ".git/modules/sub"))
    module = project / ".git/modules/sub"
    shutil.copytree(module / ".git", module, dirs_exist_ok=True)
    shutil.rmtree(module / ".git")
    other = world.kept_of(project / "docs/tasks/other")
    other.mkdir(parents=True)
    (other / "journal.jsonl").write_text("{}\n")
    world.states.mkdir(exist_ok=True)
    (world.states / "m-other.json").write_text("{}")
    own = str(world.kept)
    state = str(world.home / ".local/state/pi-marathon")
    return {
        "project": str(project),
        "other": str(other),
        "own": own,
        "state": state,
        "states": str(world.states),
        "outside": str(machine),
        "shm": f"/dev/shm/{machine.name}",
        "sockets": sockets,
        "bystander": bystander.pid,
        "ours": str(Path(__file__).parents[2]),
    }


def tried(world: World, facts: dict[str, Any], *options: str, workflow: str = "loop") -> dict[str, str]:
    """Which of the attempts led out, and what the others met."""
    shutil.copy(ATTEMPTS, world.project / "attempts.py")
    (world.project / "facts.json").write_text(json.dumps(facts))
    argv = [sys.executable, "attempts.py"]
    ran = world.cli(
        *("--task", "docs/tasks/mine", "--agent", "command", "--workflow", workflow, "--max-iterations", "1"),
        *(*options, "--", *argv),
        HOME=f"{facts['outside']}/home",
        TMUX="x,1,0",
    )
    found = world.task / "found.json"
    assert found.exists(), ran.stdout + ran.stderr
    return dict(json.loads(found.read_text()))


def test_each_of_them_leads_out_without_it(
    world: World, machine: Path, sockets: dict[str, str], bystander: subprocess.Popen[bytes]
) -> None:
    facts = prepare(world, machine, sockets, bystander)
    found = tried(world, facts)
    assert {name for name, met in found.items() if met != "out"} - ONLY_INSIDE == set()


@pytest.mark.parametrize("offline", [False, True])
def test_none_of_them_leads_out(
    world: World,
    machine: Path,
    sockets: dict[str, str],
    bystander: subprocess.Popen[bytes],
    offline: bool,
) -> None:
    facts = prepare(world, machine, sockets, bystander)
    found = tried(world, facts, "--sandbox=offline" if offline else "--sandbox")
    # It may work in the project. `commondir` is taken away after the session.
    allowed = {"the project", "the repository", "commondir"} | (set() if offline else {"abstract socket"})
    assert {name: met for name, met in found.items() if met == "out"}.keys() == allowed
    assert len(found) >= 30
    assert bystander.poll() is None
    assert not (world.project / ".git/commondir").exists()
    assert (world.project / ".git/commondir.found").exists()
    assert (machine / "home/.bashrc").read_text() == "# mine\n"
    work = git(world.project, "-c", "core.hooksPath=", "log", "-1", "--format=%s")
    assert work == "work\n", "and the work itself can be done"
    assert not list(world.states.iterdir()) or [path.name for path in world.states.iterdir()] == ["m-other.json"]


def test_research_cannot_write_the_project(
    world: World, machine: Path, sockets: dict[str, str], bystander: subprocess.Popen[bytes]
) -> None:
    facts = prepare(world, machine, sockets, bystander)
    found = tried(world, facts, "--sandbox=offline", workflow="rpi")
    assert [name for name, met in found.items() if met == "out"] == []
    assert git(world.project, "log", "-1", "--format=%s") == "first\n"
    prompt = next((world.kept / "runs/001/prompts").glob("*.md")).read_text()
    assert "The project itself, its repository included, is read-only." in prompt
