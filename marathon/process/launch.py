"""Fork the guardian and, from it, exec the agent. A forked copy never returns into the caller's code."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import os
import signal
import socket
from collections.abc import Collection
from dataclasses import dataclass
from typing import NoReturn

from marathon.process import kernel
from marathon.process.command import Command, StartFailed
from marathon.process.guardian import Guardian
from marathon.process.signals import Signals
from marathon.process.terminal import Terminal, blocked

# Asked for once: building the set takes longer than changing every one of them.
_EVERY = signal.valid_signals()
_CATCHABLE = _EVERY - {signal.SIGKILL, signal.SIGSTOP}


@dataclass(frozen=True)
class Launched:
    guardian: int
    control: socket.socket  # closing our end makes the guardian end the tree
    streams: dict[str, int]  # "out" and "err", to read from


def launch(command: Command, terminal: Terminal | None) -> Launched:
    kernel.become_subreaper()
    with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as theirs:
        control, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        on_failure.callback(control.close)
        theirs.callback(far_end.close)
        streams: dict[str, int] = {}
        outputs: dict[str, int] = {}
        for name in () if terminal else ("out", "err"):
            streams[name], outputs[name] = os.pipe()
            on_failure.callback(os.close, streams[name])
            theirs.callback(os.close, outputs[name])
        with blocked(*_EVERY):
            pid = _fork(command)
            if pid == 0:
                _be_guardian(command, terminal, far_end, outputs)
        on_failure.pop_all()
    return Launched(pid, control, streams)


def _fork(command: Command) -> int:
    try:
        return os.fork()
    except OSError as error:
        raise StartFailed(error.errno, os.strerror(error.errno or 0), command.argv[0]) from error


def _be_guardian(
    command: Command, terminal: Terminal | None, control: socket.socket, outputs: dict[str, int]
) -> NoReturn:
    status = 70
    try:
        # Garbage of the runner must not be finalised here: it would close numbers that are ours by then.
        gc.disable()
        signal.set_wakeup_fd(-1)
        listened = (signal.SIGCHLD, signal.SIGINT) if terminal else (signal.SIGCHLD,)
        for number in _CATCHABLE:
            signal.signal(number, signal.SIG_DFL if number in listened else signal.SIG_IGN)
        if terminal is None:
            os.setsid()
        kernel.become_subreaper()
        agent = _start_agent(command, terminal, control, outputs)
        if agent:
            with Signals(listened) as signals:
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                Guardian(agent, control, signals, terminal).keep_watch()
        status = 0
    finally:
        os._exit(status)


def _start_agent(
    command: Command, terminal: Terminal | None, control: socket.socket, outputs: dict[str, int]
) -> int | None:
    guardian = os.getpid()
    try:
        failure, report = os.pipe()
        wait, go = os.pipe()
        agent = os.fork()
    except OSError as error:
        control.send(b"failed %d program" % (error.errno or 0))
        return None
    if agent == 0:
        os.close(go)
        _be_agent(command, terminal, guardian, outputs, report, wait)
    os.close(report)
    if terminal:
        # In the agent's group we hear the Ctrl+C that the terminal sends to it. All of this before the program
        # begins: there is no moment in which it lacks the terminal, and no Ctrl+C that we miss.
        os.setpgid(agent, agent)
        os.setpgid(0, agent)
        terminal.give(agent)
        terminal.used = True
    os.close(go)
    _close_all_but({control.fileno(), failure, *command.inherit, *([terminal.fd] if terminal else [])})
    _leave_stdio()
    message = os.read(failure, 64)
    os.close(failure)
    if message:
        os.waitpid(agent, 0)
        control.send(b"failed " + message)
        return None
    control.send(b"started %d" % agent)
    return agent


def _be_agent(
    command: Command,
    terminal: Terminal | None,
    guardian: int,
    outputs: dict[str, int],
    report: int,
    wait: int,
) -> NoReturn:
    subject = b"program"
    try:
        report = _above_stdio(report)
        kernel.die_with_parent(signal.SIGKILL)
        os.read(wait, 1)
        if os.getppid() != guardian:
            os._exit(127)
        if terminal:
            _use_terminal()
        else:
            os.setsid()
            _use_streams(command.stdin, outputs)
        _close_all_but({report, *command.inherit})
        for fd in command.inherit:
            os.set_inheritable(fd, True)
        subject = b"cwd"
        os.chdir(command.cwd)
        subject = b"program"
        for number in _CATCHABLE:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(command.argv[0], command.argv, command.env)
    except OSError as error:
        os.write(report, b"%d %s" % (error.errno or errno.EINVAL, subject))
    except Exception:  # words or an environment that cannot be passed on
        os.write(report, b"%d %s" % (errno.EINVAL, subject))
    finally:
        os._exit(127)


def _use_streams(stdin: int | None, outputs: dict[str, int]) -> None:
    source = os.open(os.devnull, os.O_RDONLY) if stdin is None else stdin
    for target, fd in enumerate([_above_stdio(fd) for fd in (source, outputs["out"], outputs["err"])]):
        os.dup2(fd, target)


def _use_terminal() -> None:
    for target in (0, 1, 2):
        if not os.isatty(target):
            fd = _above_stdio(os.open("/dev/tty", os.O_RDWR))
            os.dup2(fd, target)


def _leave_stdio() -> None:
    fd = _above_stdio(os.open(os.devnull, os.O_RDWR))
    for target in (0, 1, 2):
        os.dup2(fd, target)
    os.close(fd)


def _above_stdio(fd: int) -> int:
    """A copy that no dup2 onto 0, 1 or 2 can overwrite; we may have been started with those closed."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _close_all_but(kept: Collection[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))
