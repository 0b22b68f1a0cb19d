"""Have an agent started by a guardian: by one that stayed and waits for work, else by a new one."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import gc
import marshal
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from marathon.process import kernel
from marathon.process.adopted import GUARDIANS, Adopted
from marathon.process.command import Command, StartFailed
from marathon.process.guardhouse import guard
from marathon.process.terminal import Terminal, blocked

_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from marathon.process.guardhouse import guard; "
    "guard(on_terminal=sys.argv[2] == 'terminal', stay=True)"
)
_WHERE = str(Path(__file__).resolve().parents[2])
_EVERY = signal.valid_signals()
_MOST_WAITING = 2


@dataclass(frozen=True)
class Launched:
    guardian: int
    control: socket.socket  # closing our end makes the guardian end the tree, and itself
    on_terminal: bool
    stays: bool  # once its tree is gone it can have another
    streams: dict[str, int] = field(default_factory=dict)  # "out" and "err", to read from


_waiting: list[Launched] = []  # guardians whose tree is gone
os.register_at_fork(after_in_child=_waiting.clear)


def launch(command: Command, terminal: Terminal | None, *, stay: bool = False) -> Launched:
    """A guardian that is to stay takes longer to begin, and makes every next start with it quick."""
    with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as theirs:

        def opened(fd: int) -> int:
            theirs.callback(os.close, fd)
            return fd

        streams: dict[str, int] = {}
        if terminal:
            stdio = [fd if os.isatty(fd) else opened(os.open("/dev/tty", os.O_RDWR)) for fd in (0, 1, 2)]
        else:
            stdio = [opened(os.open(os.devnull, os.O_RDONLY)) if command.stdin is None else command.stdin]
            for name in ("out", "err"):
                streams[name], far_end = os.pipe()
                on_failure.callback(os.close, streams[name])
                stdio.append(opened(far_end))
        # In a file of its own: an environment may be larger than a message can be.
        letter = opened(os.memfd_create("order"))
        os.pwrite(letter, _order_for(command), 0)
        files = [letter, *stdio, *command.inherit]
        guardian = stay and _send_to_waiting(files, on_terminal=terminal is not None)
        if not guardian:
            guardian = _new_guardian(on_terminal=terminal is not None, stay=stay)
            on_failure.callback(_dismiss, guardian)
            socket.send_fds(guardian.control, [b"start"], files)
        on_failure.pop_all()
    return replace(guardian, streams=streams)


def part(launched: Launched, adopted: Adopted, *, tree_is_gone: bool) -> None:
    """A guardian that stays waits for its next tree; any other is dismissed, and what is left of its tree ended."""
    if tree_is_gone and launched.stays and len(_waiting) < _MOST_WAITING:
        _waiting.append(launched)
        return
    _dismiss(launched)
    if not tree_is_gone:
        adopted.end_all()


def _order_for(command: Command) -> bytes:
    cwd, program = os.path.abspath(command.cwd), command.argv[0]
    search = command.env.get("PATH", os.defpath)
    paths = _found(program, search, cwd)
    if not os.path.exists(os.path.join(cwd, paths[0])):  # any more
        _found.cache_clear()
        paths = _found(program, search, cwd)
    return marshal.dumps((paths, list(command.argv), cwd, dict(command.env), command.inherit))


@functools.lru_cache(maxsize=16)
def _found(program: str, search: str, cwd: str) -> list[str]:
    """Where it is, by the search path: to try is slow. One place has to stay, to say why it failed."""
    paths = [program] if "/" in program else [os.path.join(folder, program) for folder in search.split(os.pathsep)]
    return [path for path in paths if os.path.exists(os.path.join(cwd, path))] or paths[-1:]


def _send_to_waiting(files: Sequence[int], *, on_terminal: bool) -> Launched | None:
    """Hand the files, of which the first is the order, to a guardian that waits, if there is one."""
    for guardian in [each for each in reversed(_waiting) if each.on_terminal == on_terminal]:
        _waiting.remove(guardian)
        with contextlib.suppress(ConnectionError):  # somebody has killed it
            socket.send_fds(guardian.control, [b"start"], files)
            return guardian
        _dismiss(guardian)
    return None


def _new_guardian(*, on_terminal: bool, stay: bool) -> Launched:
    kernel.become_subreaper()
    control, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with far_end, blocked(*_EVERY):
        try:
            pid = os.fork()
        except OSError as error:
            control.close()
            raise StartFailed(error.errno, os.strerror(error.errno or 0), sys.executable) from error
        if pid == 0:
            _be_guardian(far_end.fileno(), on_terminal, stay)
    GUARDIANS.add(pid)
    atexit.unregister(_dismiss_waiting)
    atexit.register(_dismiss_waiting)
    return Launched(pid, control, on_terminal, stay)


def _be_guardian(far_end: int, on_terminal: bool, stay: bool) -> NoReturn:
    try:
        # Garbage of the runner must not be finalised here: it would close numbers that are ours by then.
        gc.disable()
        signal.set_wakeup_fd(-1)
        os.closerange(3, far_end)  # room for more, even if the runner has none left
        nothing = os.open(os.devnull, os.O_RDWR)
        # Copies first, which no dup2 can overwrite: we may have been started with 0, 1 or 2 closed.
        copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (far_end, nothing, nothing)]
        for number, fd in enumerate(copies):
            os.dup2(fd, number)
        if on_terminal:
            os.setpgid(0, 0)  # a Ctrl+C before the agent begins is for the runner alone
        else:
            os.setsid()
        if stay:
            kind = "terminal" if on_terminal else "pipes"
            os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", _PROGRAM, _WHERE, kind])
        guard(on_terminal=on_terminal, stay=False)
    finally:
        os._exit(127)


def _dismiss_waiting() -> None:
    while _waiting:
        _dismiss(_waiting.pop())


def _dismiss(guardian: Launched) -> None:
    guardian.control.close()
    Adopted.dismiss(guardian.guardian)
