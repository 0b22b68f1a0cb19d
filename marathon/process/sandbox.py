"""Runs a program behind a wall (bubblewrap): it can write where it is allowed to, and reads most of the machine.

The arguments travel in the environment of a Command, so that whatever an agent starts is wrapped in one place, `start`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from marathon.errors import TaskInvalid

WRAP = "MARATHON_WRAP"  # in the environment of a Command, and never in that of its process
INSTALL = "Install bubblewrap (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap)."
_OLDEST = (0, 4)
# What leads to programs of the user that would do anything for who asks.
_SESSION = ("TMUX", "STY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK")
# A process table of its own: through /proc another process of the user would lead out. No sockets of the session in
# /run, where a service manager or a container engine would start anything; names are still looked up.
_BASE = (
    *("bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--ro-bind", "/", "/"),
    *("--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--setenv", "TMPDIR", "/tmp"),
    *("--tmpfs", "/run", "--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve"),
    *("--ro-bind-try", "/run/current-system", "/run/current-system"),  # NixOS has its programs there
    *(word for name in _SESSION for word in ("--unsetenv", name)),
    *("--cap-drop", "ALL"),
)
# Root would keep what takes a mount away. What it needs among files of several users stays, and for a sandbox in ours.
_OF_ROOT = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETFCAP", "SETGID", "SETUID")
_OTHERS = ("/tmp", "/run", "/dev", "/proc")  # have no socket from outside

_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_ARCHITECTURE, _NUMBER, _REQUEST = 4, 0, 24  # where the kernel's seccomp_data holds them
_TYPING = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX type into a terminal as if the human had
# ioctl by architecture and number: x86-64, its x32 and i386; aarch64 and 32-bit ARM; riscv64.
_IOCTL = (
    *((0xC000003E, 16), (0xC000003E, 0x40000000 | 514), (0x40000003, 54)),
    *((0xC00000B7, 29), (0x40000028, 54), (0xC00000F3, 29)),
)


class Place(NamedTuple):
    """A file or folder, and what the program may do there."""

    path: Path
    may: Literal["write", "read", "nothing"]
    instead: Path | None = None  # what stands there for the program


def arguments(places: Iterable[Place], *, offline: bool) -> list[str]:
    """bubblewrap's command line. What is not there is left out. Raises TaskInvalid for what nothing could hold.

    A deeper place comes later, so it may differ from what is around it. The folders on the way to it become mounts:
    a mount cannot be renamed, so no other folder can take its place.
    """
    ours = [Place(path, "read") for path in (Path(sys.prefix), Path(__file__).parents[2])]  # they may lie in /tmp
    places = list({each.path: each for each in places}.values())  # the last word on a path counts
    writable = [each.path for each in places if each.may == "write"]
    for path in writable:
        if any(Path(each).is_relative_to(path) for each in _OTHERS):
            raise TaskInvalid(
                f"{path} holds the whole machine, so --sandbox cannot hold it. Work in a folder below it."
            )
    places += [each for each in ours if not any(each.path.is_relative_to(path) for path in writable)]
    between = {parent for each in places for parent in each.path.parents if _around(parent, places) == "write"}
    known = {each.path for each in places}
    places += [Place(path, "write") for path in sorted(between) if path not in known]
    words = [*_base(), *(("--unshare-net",) if offline else ())]
    for path, may, instead in sorted(places, key=lambda each: len(each.path.parts)):
        option = "--bind-try" if may == "write" else "--ro-bind-try"
        words += ("--tmpfs", str(path)) if may == "nothing" else (option, str(instead or path), str(path))
    return words


def _around(path: Path, places: Sequence[Place]) -> str:
    """What may be done in a folder, by the nearest place that it is or lies in."""
    holding = [each for each in places if path.is_relative_to(each.path)]
    return max(holding, key=lambda each: len(each.path.parts)).may if holding else ""


def _base() -> tuple[str, ...]:
    return (*_BASE, *(word for name in _OF_ROOT for word in ("--cap-add", f"CAP_{name}") if os.geteuid() == 0))


def as_variable(wall: Sequence[str], session: Sequence[Place]) -> str:
    """How a sandbox travels. A program that is kept for several sessions is started with the places of its first."""
    more = [("--bind-try" if each.may == "write" else "--ro-bind-try", *[str(each.path)] * 2) for each in session]
    return json.dumps({"wall": list(wall), "session": [word for each in more for word in each]})


def wall_of(env: Mapping[str, str]) -> list[str]:
    """Without what is for one session. A program behind another wall has to be started again."""
    return list(json.loads(env[WRAP])["wall"]) if WRAP in env else []


def may_write(env: Mapping[str, str], folder: Path) -> bool:
    """Whether a sandbox of ours lets its program write in this folder, which it names itself."""
    return WRAP not in env or os.path.realpath(folder) in _after("--bind-try", wall_of(env))


@contextlib.contextmanager
def wrapped(
    argv: tuple[str, ...], env: Mapping[str, str]
) -> Iterator[tuple[tuple[str, ...], dict[str, str], list[int]]]:
    """What is really started, its environment, and the file that it has to inherit."""
    rest = dict(env)
    if not (sandbox := json.loads(rest.pop(WRAP, "null"))):
        yield argv, rest, []
        return
    words = [*sandbox["wall"], *sandbox["session"]]
    words += _without_sockets(words)
    words += [each for path in _after("--tmpfs", words) if path not in _OTHERS for each in ("--remount-ro", path)]
    with _filter() as fd:
        yield (*words, "--seccomp", str(fd), "--", *argv), rest, [fd]


def _without_sockets(words: Sequence[str]) -> Iterator[str]:
    """A read-only file system does not keep anyone from talking to a socket in it, such as a container engine's."""
    open_or_gone = (*_OTHERS, *_after("--tmpfs", words), *_after("--bind-try", words))
    found = set()
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/unix").read_bytes().splitlines():
            if path := re.search(rb" (/.*)", line):
                found.add(os.path.realpath(os.fsdecode(path[1])))
    for name in sorted(found):
        if os.path.exists(name) and not any(Path(name).is_relative_to(each) for each in open_or_gone):
            yield from ("--ro-bind-try", "/dev/null", name)


def _after(option: str, words: Sequence[str]) -> list[str]:
    return [words[at + 1] for at, word in enumerate(words) if word == option]


@contextlib.contextmanager
def _filter() -> Iterator[int]:
    """The system calls' filter as bubblewrap reads it: an agent that has the terminal may not type into it."""
    rules = []
    for at, (architecture, number) in enumerate(_IOCTL):
        to_request = 4 * (len(_IOCTL) - at - 1) + 1
        rules += [
            (_LOAD, 0, 0, _ARCHITECTURE),
            (_JUMP_IF_EQUAL, 0, 2, architecture),
            (_LOAD, 0, 0, _NUMBER),
            (_JUMP_IF_EQUAL, to_request, 0, number),
        ]
    rules += [(_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _REQUEST)]
    rules += [(_JUMP_IF_EQUAL, len(_TYPING) - at, 0, request) for at, request in enumerate(_TYPING)]
    rules += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    made = os.memfd_create("seccomp")
    fd = fcntl.fcntl(made, fcntl.F_DUPFD, 3)  # the first three are the program's own
    os.close(made)
    try:
        os.write(fd, b"".join(struct.pack("=HBBI", *rule) for rule in rules))
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


def problem() -> str:
    """Why bubblewrap cannot be used here, and what helps; empty if it can."""
    if shutil.which("bwrap") is None:
        return f"bwrap was not found. {INSTALL}"
    try:
        with _filter() as fd:
            tried = subprocess.run(
                [*_base(), "--tmpfs", "/mnt", "--remount-ro", "/mnt", "--seccomp", str(fd), "--", "true"],
                capture_output=True,
                text=True,
                timeout=20,
                check=False,
                pass_fds=[fd],
            )
    except (OSError, subprocess.SubprocessError) as error:
        return f"bwrap does not run: {error}."
    if not tried.returncode:
        return ""
    said = tried.stderr.strip().partition("\n")[0].removesuffix(".")
    version = bwrap_version()
    if version and tuple(map(int, version.split(".")[:2])) < _OLDEST:
        return f"bwrap {version} is too old ({said}). It has to be {'.'.join(map(str, _OLDEST))} or newer."
    return f"bwrap does not work here: {said}. {_forbidden()}"


def bwrap_version() -> str:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        said = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
        if found := re.search(r"\d+\.\d+(\.\d+)?", said):
            return found[0]
    return ""


def _forbidden() -> str:
    """Which setting of the kernel switches user namespaces off, as the command that allows them."""
    for setting, allowed in (
        ("kernel.unprivileged_userns_clone", "1"),
        ("kernel.apparmor_restrict_unprivileged_userns", "0"),
        ("user.max_user_namespaces", "10000"),
    ):
        with contextlib.suppress(OSError):
            now = Path("/proc/sys", *setting.split(".")).read_text().strip()
            if (now == "0") != (allowed == "0"):
                return f"User namespaces are switched off. To allow them: sudo sysctl -w {setting}={allowed}"
    return "In a container, user namespaces may be forbidden from outside (Docker: --security-opt seccomp=unconfined)."


def what_is_left(terminal: bool) -> str:
    """What the wall does not hold on this machine, for an agent that gets the terminal."""
    if not terminal or platform.machine() in ("x86_64", "aarch64", "riscv64"):
        return ""
    with contextlib.suppress(OSError):
        if Path("/proc/sys/dev/tty/legacy_tiocsti").read_text().strip() == "0":
            return ""
    machine = platform.machine()
    return f"An agent that has the terminal could type into it here ({machine}): the filter does not know this machine."
