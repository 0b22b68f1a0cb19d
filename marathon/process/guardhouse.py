"""The guardian's own program: runs beside the runner, starts one agent after the other and watches over each.

It imports little, because a small process forks fast. And it forks ahead: while the runner writes down how a session
went, a recruit is made that waits to become the next agent.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import marshal
import os
import select
import signal
import socket
from contextlib import ExitStack, suppress

from marathon.process import kernel
from marathon.process.guardian import Guardian
from marathon.process.signals import Signals
from marathon.process.terminal import Terminal, blocked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_MOST_FILES = 253  # that the kernel lets one message carry
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
                os.sched_yield()  # to the runner, which has just been told and waits for this processor
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
        recruit, link = _recruit(control, own_session=not on_terminal)
        if not on_terminal:
            _wait_until_closed(link)  # by exec, or by its end: woken once, with all it has said
        taken, inherited = _receive(link)
    except OSError as error:
        control.send(b"failed %d program" % (error.errno or 0))
        return False
    with link, ExitStack() as until_the_end:
        if taken != b"taken":
            os.waitpid(recruit, 0)
            if taken:
                control.send(b"failed " + taken)
            return taken != b""
        for fd in inherited:
            until_the_end.callback(os.close, fd)
        signals.take()
        terminal = Terminal() if on_terminal else None
        if terminal:
            until_the_end.callback(terminal.close)
            _step_forward(recruit, terminal)
            link.send(b"go")
        if failure := link.recv(64):
            os.waitpid(recruit, 0)
            control.send(b"failed " + failure)
            return True
        control.send(b"started %d" % recruit)
        guardian = Guardian(recruit, control, signals, terminal)
        guardian.keep_watch()
    return guardian.sign_off()  # only now, when we hold nothing of the agent's any more


def _wait_until_closed(link: socket.socket) -> None:
    closed = select.poll()
    closed.register(link, 0)
    closed.poll()


def _step_forward(agent: int, terminal: Terminal) -> None:
    """In the agent's group we hear the Ctrl+C that the terminal sends to it. All of this before the program begins:
    there is no moment in which it lacks the terminal, and no Ctrl+C that we miss."""
    os.setpgid(agent, agent)
    os.setpgid(0, agent)
    terminal.give(agent)
    terminal.used = True


def _receive(link: socket.socket) -> tuple[bytes, list[int]]:
    message, files, flags, _ = socket.recv_fds(link, 64, _MOST_FILES)
    for fd in files:
        os.set_inheritable(fd, False)
    if flags & socket.MSG_CTRUNC:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return message, files


# The recruit


def _recruit(control: socket.socket, *, own_session: bool) -> tuple[int, socket.socket]:
    """A copy of us that hears the next order and becomes the agent; its pid, and our link to it."""
    guardian = os.getpid()
    link, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with far_end, blocked(*_FROM_TERMINAL):
        pid = os.fork()
        if pid == 0:
            link.close()
            _be_recruit(control, far_end, guardian, own_session)
    return pid, link


def _be_recruit(control: socket.socket, link: socket.socket, guardian: int, own_session: bool) -> NoReturn:
    try:
        kernel.die_with_parent(signal.SIGKILL)
        if os.getppid() != guardian:  # it died before we could ask for that
            os._exit(127)
        if own_session:
            os.setsid()
        # But not of SIGTSTP: stopped before exec we could not say that we never got there. Exec resets it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _practise()
        order, files = b"none", [-1]
        while order not in (b"start", b""):  # any other crossed with the end of the tree it was meant for
            order, files = _receive(control)
        if order:
            letter, *files = files
            socket.send_fds(link, [b"taken"], files[3:])
            if not own_session:
                link.recv(64)
            paths, argv, cwd, env, inherited = marshal.loads(os.pread(letter, os.fstat(letter).st_size, 0))
            places = {**dict(zip(inherited, files[3:], strict=True)), **dict(enumerate(files[:3]))}
            report = _put_in_place(places, link.fileno())
            os.write(report, _become_agent(paths, argv, cwd, env))
    except OSError as error:
        link.send(b"%d program" % (error.errno or 0))
    finally:
        os._exit(127)


def _practise() -> None:
    """All that an order takes, once on nothing: what a fork shares is copied where it is touched first, and that is
    better done while nobody waits. What it opens, exec closes."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there:
        socket.send_fds(there, [b"start"], [os.memfd_create("order")])
        _, (letter,) = _receive(here)
        os.pwrite(letter, marshal.dumps(([], ["-"], "", dict(os.environ), ())), 0)
        _, argv, _, env, _ = marshal.loads(os.pread(letter, os.fstat(letter).st_size, 0))
        _put_in_place({letter: letter}, here.fileno())
        with suppress(OSError):
            os.execve("/", argv, env)  # which nobody can
        os.close(letter)


def _put_in_place(files: dict[int, int], report: int) -> int:
    """Give the files their numbers, all others are closed by exec; returns where to report to."""
    free = max(files) + 1
    report = fcntl.fcntl(report, fcntl.F_DUPFD_CLOEXEC, free)
    for number, fd in [(number, fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, free)) for number, fd in files.items()]:
        os.dup2(fd, number)
    return report


def _become_agent(paths: list[str], argv: list[str], cwd: str, env: dict[str, str]) -> bytes:
    """Run the first of the paths that can be run. Returns only if there is none: the first reason."""
    reasons = []
    try:
        os.chdir(cwd)
    except OSError as error:
        return b"%d cwd" % (error.errno or 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for path in paths:
        try:
            os.execve(path, argv, env)
        except OSError as error:
            reasons.append(error.errno or 0)
        except Exception:  # words or an environment that cannot be passed on
            reasons.append(errno.EINVAL)
    return b"%d program" % reasons[0]
