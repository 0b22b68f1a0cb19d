"""The guardian's own program: runs beside the runner, starts one agent after the other and watches over each.

It imports little, because the first agent waits for it.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import marshal
import os
import signal
import socket
from contextlib import suppress

from marathon.process import kernel
from marathon.process.guardian import Guardian
from marathon.process.signals import Signals
from marathon.process.terminal import Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_MOST_FILES = 253  # that the kernel lets one message carry
_INHERITED = 4  # the first of an order's files that the agent gets beside stdin, stdout and stderr
_LEASH = 210  # below it, scripts use numbers as they like
_FROM_TERMINAL = (signal.SIGINT, signal.SIGTSTP)
# What somebody might send us. Blocked, because what we ignore the agent would ignore too.
_DEAF_TO = {
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGPIPE,
    signal.SIGALRM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
}


def guard(*, on_terminal: bool, stay: bool) -> NoReturn:
    """All signals are blocked when this begins, and stdin is the socket to the runner."""
    try:
        listened = (signal.SIGCHLD, *_FROM_TERMINAL) if on_terminal else (signal.SIGCHLD,)
        _be_as_if_just_born()
        kernel.become_subreaper()
        gc.freeze()
        with socket.socket(fileno=0) as control, Signals(listened) as signals:
            signal.pthread_sigmask(signal.SIG_SETMASK, _DEAF_TO.difference(listened))
            while _serve(control, signals, on_terminal) and stay:
                pass
    finally:
        os._exit(0)


def _be_as_if_just_born() -> None:
    """Whatever the runner was started with, the agent gets no open files and no ignored signals."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with suppress(OSError):
                os.close(int(name))
    for number in signal.valid_signals():
        if signal.getsignal(number) is not signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)


def _serve(control: socket.socket, signals: Signals, on_terminal: bool) -> bool:
    """One agent, from the order to start it until its tree is gone; False if there is to be no next one."""
    try:
        files = _next_order(control)
        if not files:
            return False
        signals.take()
        terminal = _terminal_for_our_group() if on_terminal else None
        # It is killed if we are: when the last end of a pipe is closed, the kernel signals the owner of the other.
        leash, our_end = os.pipe()
        agent, failure = _start(files, leash, os.getpgrp() if on_terminal else None)
    except OSError as error:
        control.send(b"failed %d program" % (error.errno or 0))
        return False
    _close(leash, *files[:_INHERITED])
    if agent:
        control.send(b"started %d" % agent)
        guardian = Guardian(agent, control, signals, terminal)
        guardian.keep_watch()
    _close(our_end, *files[_INHERITED:])
    if terminal:
        terminal.close()
    if failure:
        control.send(b"failed " + failure)
    return not agent or guardian.sign_off()  # only now, when we hold nothing of the agent's any more


def _next_order(control: socket.socket) -> list[int]:
    """Its files: the letter that says what to start, stdin, stdout, stderr, and what else the agent is to have.
    No files if the runner is gone."""
    message, files = b"none", list[int]()
    while message not in (b"start", b""):  # any other crossed with the end of the tree it was meant for
        message, files, flags, _ = socket.recv_fds(control, 64, _MOST_FILES)
        for fd in files:
            os.set_inheritable(fd, False)
        if flags & socket.MSG_CTRUNC:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return files


def _terminal_for_our_group() -> Terminal:
    """The agent is born into our group: it never lacks the terminal, and there is no Ctrl+C that we miss."""
    terminal = Terminal()
    terminal.give(os.getpgrp())
    terminal.used = True
    return terminal


def _start(files: list[int], leash: int, group: int | None) -> tuple[int, bytes]:
    """The agent's pid, or why there is none: an error number, and what it is about."""
    letter, *stdio = files[:_INHERITED]
    paths, argv, cwd, env, numbers = marshal.loads(os.pread(letter, os.fstat(letter).st_size, 0))
    places = {number: fd for number, fd in zip(numbers, files[_INHERITED:], strict=True) if number > 2}
    places[max((*numbers, min(_LEASH, os.sysconf("SC_OPEN_MAX") - 2))) + 1] = leash
    copies = {} if places.keys().isdisjoint(places.values()) else _apart(places)
    try:
        os.chdir(cwd)
    except OSError as error:
        return 0, b"%d cwd" % (error.errno or 0)
    agent, number = _spawn(paths, argv, env, [*enumerate(stdio), *(copies or places).items()], group)
    _close(*copies.values())
    if not agent:
        return 0, b"%d program" % number
    with suppress(OSError):  # a kernel that knows no such thing
        fcntl.fcntl(leash, fcntl.F_SETOWN, agent)
        fcntl.fcntl(leash, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(leash, fcntl.F_SETFL, os.O_ASYNC)
    return agent, b""


def _apart(places: dict[int, int]) -> dict[int, int]:
    """Copies of the files with numbers that are nobody's place."""
    return {number: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(places) + 1) for number, fd in places.items()}


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


def _spawn(
    paths: list[str], argv: list[str], env: dict[str, str], files: list[tuple[int, int]], group: int | None
) -> tuple[int, int]:
    """Run the first of the paths that can be run, in this group or in a session of its own; its pid, or 0 and the first
    reason why none could."""
    reasons = []
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in files]
    where = {"setsid": True} if group is None else {"setpgroup": group}
    for path in paths:
        try:
            return os.posix_spawn(path, argv, env, file_actions=actions, setsigmask=(), **where), 0
        except OSError as error:
            reasons.append(error.errno or 0)
        except ValueError:  # words or an environment that cannot be passed on
            reasons.append(errno.EINVAL)
    return 0, reasons[0]
