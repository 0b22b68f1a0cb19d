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
from tests.process.driver import until
from tests.support.debian import need_bubblewrap
from tests.support.loops import LoopWorld
from tests.support.world import World

ATTEMPTS = Path(__file__).with_name("attempts.py")
# What is gone for every agent, or can be done only in a mount namespace of its own: nothing to compare with.
ONLY_INSIDE = {"umount", "remount", "unshare", "device", "the terminal's variables"}


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


# Types into its terminal as if the human had. The kernel reads only the lower half of a request.
TYPES = """
import ctypes, json, os
libc, met = ctypes.CDLL(None, use_errno=True), {}
libc.ioctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p)
for name, request in (("TIOCSTI", 0x5412), ("with more bits", 7 << 32 | 0x5412), ("TIOCLINUX", 0x541C)):
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
        met[name] = "out" if libc.ioctl(terminal, request, b"\\x0c") == 0 else os.strerror(ctypes.get_errno())
    except OSError as error:
        met[name] = error.strerror
path = os.environ["MARATHON_TASK_DIR"] + "/met.json"
with open(path + ".new", "w") as file:
    json.dump(met, file)
os.rename(path + ".new", path)
"""
REFUSED, NO_TERMINAL = "Operation not permitted", "No such device or address"


@pytest.mark.parametrize(
    ("options", "met"),
    [
        (("--mode", "tui", "--sandbox"), (REFUSED, REFUSED, REFUSED)),
        (("--mode", "stream", "--sandbox"), (NO_TERMINAL,) * 3),
        (("--mode", "tui"), ("out", "out", "Inappropriate ioctl for device")),
    ],
)
def test_an_agent_does_not_type_into_the_terminal(world: World, options: tuple[str, ...], met: tuple[str, ...]) -> None:
    allowed = Path("/proc/sys/dev/tty/legacy_tiocsti")
    if "out" in met and allowed.exists() and allowed.read_text().strip() == "0":
        met = ("Input/output error",) * 2 + met[2:]
    (world.project / "types.py").write_text(TYPES)
    terminal = world.typed(
        "--task", "task", "--agent", "command", "--workflow", "loop", *options, "--", sys.executable, "-P", "types.py"
    )
    try:
        until(lambda: (world.task / "met.json").exists(), "the agent to have tried")
    finally:
        terminal.close()
    assert tuple(json.loads(world.read("met.json")).values()) == met


# Adds to files, moves files away, commits, and says what it could.
HARM = """
import json, os, subprocess, sys
done = {}
for name in sys.argv[1:]:
    try:
        open(name, "a").close()
        os.rename(name, name + ".away")
        done[name] = True
    except OSError:
        done[name] = False
commit = ["git", "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "work", "--allow-empty"]
done["commit"] = subprocess.run(commit).returncode == 0
with open(os.environ["MARATHON_TASK_DIR"] + "/done.json", "w") as file:
    json.dump(done, file)
"""


def harmed(world: World, *options: str, names: list[Path]) -> dict[str, bool]:
    argv = [sys.executable, "-c", HARM, *map(str, names)]
    once = ("--workflow", "loop", "--max-iterations", "1", "--sandbox")
    ran = world.cli("--task", "task", "--agent", "command", *once, *options, "--", *argv)
    assert (world.task / "done.json").exists(), ran.stdout + ran.stderr
    return dict(json.loads(world.read("done.json")))


def test_in_a_worktree_git_keeps_its_links_and_the_project_is_left_alone(world: World) -> None:
    project, repository = world.project, world.project / ".git"
    (project / "code.py").touch()
    git(project, "init", "-q")
    git(project, "add", "code.py")
    git(project, "commit", "-qm", "first")
    git(project, "worktree", "add", "-q", "-b", "side", str(world.home / "side"))
    mine, side = repository / f"worktrees/task-{world.kept.name[:8]}", repository / "worktrees/side"
    names = [Path(".git"), repository / "hooks/pre-commit", repository / "config"]
    names += [mine / "commondir", mine / "gitdir", side / "commondir", side / "HEAD"]
    done = harmed(world, "--worktree", names=[*names, Path("code.py"), project / "code.py"])
    done.pop(str(project / "code.py"))  # in /tmp, which is another one inside
    assert (project / "code.py").exists()
    assert done == {str(name): False for name in names} | {"code.py": True, "commit": True}
    assert git(project, "log", "-1", "--format=%s", "marathon/task") == "work\n"


@pytest.mark.parametrize("planted", ["file", "link"])
def test_an_agent_does_not_choose_the_repository_that_it_may_write(world: World, tmp_path: Path, planted: str) -> None:
    """The session before has put the entry there."""
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", str(other))
    entry = world.project / ".git"
    entry.write_text(f"gitdir: {other}/.git\n") if planted == "file" else entry.symlink_to(other / ".git")
    if planted == "link":
        ran = world.cli("--task", "task", "--agent", "command", "--sandbox", "--", "true")
        assert ran.returncode == 7
        assert f"{entry} is a link" in ran.stdout + ran.stderr
    else:
        assert harmed(world, names=[other / ".git/description"]) == {
            f"{other}/.git/description": False,
            "commit": False,
        }


def test_checks_run_what_the_agent_wrote_behind_the_same_wall(world: World, machine: Path) -> None:
    harm = f"echo x >> {machine}/home/.bashrc || touch held; echo y > made; test -e held"
    (world.task / "checks.toml").write_text(f'[[check]]\nname = "x"\ncommand = "{harm}"\n')
    state = '{"state": "completed", "phase": "done", "iteration": 1, "updatedAt": "2026-02-02T14:30:00Z"}'
    agent = ("sh", "-c", f"echo '{state}' > task/STATE.json; echo done > task/result.md")
    once = ("--workflow", "loop", "--trust", "--max-iterations", "1", "--sandbox")
    ran = world.cli("--task", "task", "--agent", "command", *once, "--", *agent)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (machine / "home/.bashrc").read_text() == "# mine\n"
    assert (world.project / "made").exists()


def test_a_measured_loop_and_what_it_measures_stay_inside(world: World, machine: Path) -> None:
    loop, out = LoopWorld(world), machine / "home/out"
    held = f"touch {out} 2>/dev/null; "
    loop.start(verify=f"{held}touch .git {loop.folder}/state.json 2>/dev/null; cat speed")
    harm = f"{held}echo x >> {loop.folder}/results.jsonl; echo 50 > speed"
    once = ("--trust", "--agent", "command", "--max-iterations", "1", "--sandbox")
    ran = loop.type("loop", "run", "perf", *once, "--", "sh", "-c", harm)
    assert loop.actions()[-2:] == ["baseline", "keep"], ran.stdout + ran.stderr
    assert loop.speed() == "50"
    assert not out.exists()


def test_offline_needs_an_agent_without_a_model_and_hosts_are_not_chosen(world: World) -> None:
    offline = world.cli("--task", "task", "--agent", "command,codex", "--sandbox=offline", "--", "true")
    assert offline.returncode == 2
    assert "--sandbox=offline: codex asks a model, and has no network then" in offline.stderr
    hosts = world.cli("--task", "task", "--agent", "command", "--sandbox=api.anthropic.com", "--", "true")
    assert hosts.returncode == 2
    assert "the network is on or off here, not open for some hosts" in hosts.stderr


@pytest.mark.parametrize(
    ("bwrap", "said"),
    [
        ('[ $1 = --version ] && echo "bubblewrap 0.3.1" || exit 1', "bwrap 0.3.1 is too old"),
        (
            "echo 'bwrap: No permissions to create new namespace' >&2; exit 1",
            "No permissions to create new namespace. ",
        ),
        ("", "bwrap was not found. Install bubblewrap"),
    ],
)
def test_doctor_and_the_start_say_what_the_sandbox_lacks(world: World, bwrap: str, said: str) -> None:
    folder = world.home / "bin"
    folder.mkdir()
    for name in ("sh", "env", "git"):
        (folder / name).symlink_to(str(shutil.which(name)))
    if bwrap:
        (folder / "bwrap").write_text(f"#!/bin/sh\n{bwrap}\n")
        (folder / "bwrap").chmod(0o755)
    started = world.cli("--task", "task", "--agent", "command", "--sandbox", "--", "true", PATH=str(folder))
    assert started.returncode == 1
    assert said in started.stderr
    assert said.partition(". ")[0] in world.cli("doctor", PATH=str(folder)).stdout
