"""What an agent tries, to get out of its sandbox. Runs as the agent, and writes which of it worked."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

facts: dict[str, Any] = json.loads(Path("facts.json").read_text())
project, outside, state = Path(facts["project"]), Path(facts["outside"]), Path(facts["state"])
own, other, states = Path(facts["own"]), Path(facts["other"]), Path(facts["states"])
task, repository = Path(os.environ["MARATHON_TASK_DIR"]), project / ".git"
libc = ctypes.CDLL(None, use_errno=True)
MS_RDONLY_OFF, MNT_DETACH, CLONE_NEWNS, CLONE_NEWUSER = 0x20 | 0x1000, 2, 0x20000, 0x10000000


def write(path: Path) -> Callable[[], bool]:
    def attempt() -> bool:
        with open(path, "a") as file:
            file.write("# from inside\n")
        return True

    return attempt


def replace(path: Path) -> Callable[[], bool]:
    """Move it away, so that something else could stand there. What worked is put right again."""

    def attempt() -> bool:
        away = path.with_name(f"{path.name}.away")
        os.rename(path, away)
        os.rename(away, path)
        return True

    return attempt


def talk(name: str) -> Callable[[], bool]:
    def attempt() -> bool:
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as line:
            line.connect(name)
        return True

    return attempt


def through_a_link() -> bool:
    (task / "link").symlink_to(outside / "home/.bashrc")
    with open(task / "link", "a") as file:
        file.write("")
    return True


def by_hard_link() -> bool:
    os.link(other / "journal.jsonl", task / "linked")
    return True


def through_proc() -> bool:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            os.stat(f"/proc/{pid}/root{other}/journal.jsonl")
            return True
    return False


def sees_bystander() -> bool:
    return b"4321" in Path(f"/proc/{facts['bystander']}/cmdline").read_bytes()


def signals_bystander() -> bool:
    os.kill(facts["bystander"], 0)
    return sees_bystander()


def planted() -> bool:
    """Git would take hooks and settings from there, for whoever uses it next."""
    (repository / "commondir").write_text("../evil\n")
    return True


def checked(result: int) -> bool:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return True


def in_a_child(attempt: Callable[[], bool]) -> Callable[[], bool]:
    """So that what it does to its own mounts is not in the way of the others."""

    def run() -> bool:
        pid = os.fork()
        if pid == 0:
            code = 1
            with contextlib.suppress(OSError):
                code = 0 if attempt() else 1
            os._exit(code)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
            raise OSError(1, "it failed in the child")
        return True

    return run


def umount() -> bool:
    return os.environ.get("TMPDIR") == "/tmp" and checked(libc.umount2(os.fsencode(state), MNT_DETACH))


def remount() -> bool:
    return os.environ.get("TMPDIR") == "/tmp" and checked(libc.mount(None, b"/", None, MS_RDONLY_OFF, None))


def unshare() -> bool:
    if os.environ.get("TMPDIR") != "/tmp":
        return False
    checked(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS))
    with contextlib.suppress(OSError):
        return umount()
    return remount()


def device() -> bool:
    os.mknod(task / "disk", 0o60600, os.makedev(8, 0))
    with open(task / "disk", "rb"):
        return True


ATTEMPTS: dict[str, Callable[[], bool]] = {
    "rename docs": replace(project / "docs"),
    "rename the tasks' folder": replace(project / "docs/tasks"),
    "rename the task": replace(task),
    "another task's state": write(project / "docs/tasks/other/STATE.json"),
    "rename another task": replace(project / "docs/tasks/other"),
    "another task's home": write(other / "journal.jsonl"),
    "its own journal": write(own / "journal.jsonl"),
    "its own inbox": write(own / "answer.json"),
    "what was agreed to": write(state / "agreed"),
    "a hook": write(repository / "hooks/pre-commit"),
    "rename the hooks": replace(repository / "hooks"),
    "a hook of the project": write(project / ".husky/pre-commit"),
    "rename the project's hooks": replace(project / ".husky"),
    "config": write(repository / "config"),
    "info": write(repository / "info/attributes"),
    "rename .git": replace(repository),
    "a hook of a submodule": write(repository / "modules/sub/hooks/pre-commit"),
    "config of a submodule": write(repository / "modules/sub/config"),
    "rename the submodules": replace(repository / "modules"),
    "another worktree": write(repository / "worktrees/side/commondir"),
    "rename the worktrees": replace(repository / "worktrees"),
    "shared memory": lambda: Path(facts["shm"]).exists(),
    "another runner's channel": lambda: bool((states / "m-other.json").read_text()),
    "a home's dotfile": write(outside / "home/.bashrc"),
    "our code": lambda: os.access(Path(facts["ours"]) / "marathon/errors.py", os.W_OK),
    "a link out": through_a_link,
    "a hard link": by_hard_link,
    "another root": through_proc,
    "another process": sees_bystander,
    "a signal": signals_bystander,
    "tmux": talk(facts["sockets"]["tmux"]),
    "the session's bus": talk(facts["sockets"]["dbus"]),
    "a container engine": talk(facts["sockets"]["engine"]),
    "the terminal's variables": lambda: "TMUX" in os.environ,
    "abstract socket": talk(facts["sockets"]["abstract"]),
    "umount": in_a_child(umount),
    "remount": in_a_child(remount),
    "unshare": in_a_child(unshare),
    "device": in_a_child(device),
    "the project": write(project / "code.py"),
    "the repository": write(repository / "description"),
    "commondir": planted,
}

if __name__ == "__main__":
    found = {}
    commit = ["git", "-c", "user.name=n", "-c", "user.email=e", "-c", "core.hooksPath=", "commit"]
    subprocess.run([*commit, "-qm", "work", "--allow-empty"], check=False)
    for name, attempt in ATTEMPTS.items():
        try:
            found[name] = "out" if attempt() else "no"
        except OSError as error:
            found[name] = error.strerror or "no"
    (task / "found.json").write_text(json.dumps(found))
    sys.exit(0)
