"""The process between runner and agent. It lives just long enough to end the whole tree, whoever dies first.

It is forked from the runner, starts the agent, and talks to the runner over a socket. When the runner's end of that
socket closes, the runner is dead or has let go, and the tree is ended.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import NoReturn

import psutil

from marathon.process import linux, tree
from marathon.process.signals import Signals
from marathon.process.start import Command, StartFailed, start
from marathon.process.terminal import Terminal, blocked

SWEEP_GRACE = 1.0  # for what outlives the agent, and for the agent when it outlives the runner
_LOOK_AGAIN = 0.05  # for what was born, or changed parents, while we looked
_CONFIRM = 0.01
_GIVE_UP = 1.5  # after the first KILL: what is still there cannot be killed by us
_STOP_ROUNDS = 5
_LOOKS_AFTER_CTRL_Z = 20
_FOLLOW_EVERY = 0.25
_REMEMBER_EVERY = 1.0
# Every signal that may be sent to a guardian has a handler: the default would end or stop it, and what it ignored the
# agent would ignore too.
_HEARD = (
    *(signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE, signal.SIGALRM),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
)


class Wire:
    """One end of the socket between runner and guardian. A message is a line of words."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._rest = b""
        self.close = end.close
        self.fileno = end.fileno

    def tell(self, *words: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendall(" ".join(map(str, words)).encode() + b"\n")

    def hear(self) -> list[list[str]]:
        """The messages that have come; an empty message if the other side is gone."""
        try:
            data = self._socket.recv(4096)
        except OSError:  # who dies with messages unread resets the connection
            data = b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.decode().split() for line in lines] if data else [[]]


@dataclass(frozen=True)
class Guarded:
    """What the runner has of a guardian and its tree."""

    guardian: int
    wire: Wire  # closing our end makes the guardian end the tree, and itself
    mark: str
    streams: dict[str, int] = field(default_factory=dict)  # "out" and "err", to read from


def fork_guardian(command: Command) -> Guarded:
    mark = os.urandom(8).hex()
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        streams: dict[str, int] = {}
        stdio = [subprocess.DEVNULL if command.stdin is None else command.stdin]
        for name in () if command.terminal else ("out", "err"):
            streams[name], far_end = os.pipe()
            ours.callback(os.close, streams[name])
            theirs.callback(os.close, far_end)
            stdio.append(far_end)
        near, far = socket.socketpair()
        ours.callback(near.close)
        theirs.callback(far.close)
        with blocked(*signal.valid_signals()):
            try:
                guardian = os.fork()
            except OSError as error:
                raise StartFailed(error.errno, error.strerror, command.argv[0]) from error
            if guardian == 0:
                _guard(command, stdio, Wire(far), mark)
        ours.pop_all()
    return Guarded(guardian, Wire(near), mark, streams)


def _guard(command: Command, stdio: list[int], wire: Wire, mark: str) -> NoReturn:
    """The guardian's whole life. Begins with all signals blocked, and never returns into the runner's code."""
    try:
        gc.freeze()  # the runner's garbage would close files that are ours by now
        stdio = [0, 1, 2] if command.terminal else stdio
        _be_as_if_just_born(keep={wire.fileno(), *stdio, *command.inherit})
        with Signals(_HEARD) as signals:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            linux.become_subreaper()
            try:
                agent, terminal = _start_agent(command, stdio, mark)
            except OSError as error:
                wire.tell("failed", error.errno, "cwd" if error.filename == str(command.cwd) else "program")
            else:
                wire.tell("started", agent.pid)
                _close(stdio)
                Guardian(agent.pid, wire, signals, terminal, tree.Family(mark)).keep_watch()
    finally:
        os._exit(0)


def _be_as_if_just_born(keep: set[int]) -> None:
    """Whatever the runner was started with, the agent gets no open files and no ignored signals."""
    _close(set(map(int, os.listdir("/dev/fd"))) - keep)
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if signal.getsignal(number) is not signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)


def _start_agent(command: Command, stdio: list[int], mark: str) -> tuple[subprocess.Popen[bytes], Terminal | None]:
    if not command.terminal:
        os.setsid()
        return start(command, stdio, mark), None
    # The agent is born into our group: it never lacks the terminal, and there is no Ctrl+C that we miss.
    os.setpgid(0, 0)
    terminal = Terminal()
    terminal.give(os.getpgrp())
    terminal.used = True
    tty = os.open("/dev/tty", os.O_RDWR)
    try:
        return start(command, [fd if os.isatty(fd) else tty for fd in stdio], mark), terminal
    finally:
        os.close(tty)


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)


class Guardian:
    def __init__(
        self, agent: int, wire: Wire, signals: Signals, terminal: Terminal | None, family: tree.Family
    ) -> None:
        self._agent = agent
        self._agent_alive = True
        self._wire = wire
        self._runner_alive = True
        self._signals = signals
        self._terminal = terminal
        self._family = family
        self._ladder: list[tuple[float, Callable[[], None]]] = []  # what is due when
        self._kill_at = inf
        self._termed: set[psutil.Process] = set()
        self._swept: set[psutil.Process] = set()
        self._frozen: list[psutil.Process] | None = None

    def keep_watch(self) -> None:
        """Until nothing of the tree is left, or what is left cannot be ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._signals.fd, selectors.EVENT_READ, self._hear_signals)
            selector.register(self._wire, selectors.EVENT_READ, self._hear_runner)
            while (left := self._any_left()) and time.monotonic() < self._kill_at + _GIVE_UP:
                self._climb()
                self._look_after_the_agent()
                for key, _ in selector.select(self._until_next_rung()):
                    key.data()
                if not self._runner_alive and self._wire in selector.get_map():
                    selector.unregister(self._wire)
        if not self._runner_alive and self._terminal:
            self._terminal.repair_after(os.getpgrp(), self._agent)
        self._wire.tell("left" if left else "gone", len(self._swept))

    def _any_left(self) -> bool:
        """Collects the dead as well."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if pid == 0:
                    return True
                if pid == self._agent:
                    self._agent_changed(status)
        if linux.HERE:
            return False  # a subreaper without children has no descendants
        if not self._family.living():
            time.sleep(_CONFIRM)  # one may have been born, and orphaned, while we looked
        return bool(self._family.living())

    def _agent_changed(self, status: int) -> None:
        if not os.WIFSTOPPED(status):
            self._agent_alive = False
            self._wire.tell("exit", os.waitstatus_to_exitcode(status))
            self._end_all_within(SWEEP_GRACE)
        elif self._terminal and self._frozen is None:
            self._freeze(os.WSTOPSIG(status))

    # What the runner and the terminal say

    def _hear_runner(self) -> None:
        for words in self._wire.hear():
            match words:
                case []:
                    self._runner_alive = False
                    self._end_all_within(SWEEP_GRACE)
                case ["stop", signum, grace]:
                    self._stop(int(signum), float(grace))
                case ["sweep"]:
                    self._sweep_tools()
                case ["suspend"]:
                    self._freeze(signal.SIGTSTP)
                case ["resume"]:
                    self._thaw()

    def _hear_signals(self) -> None:
        heard = self._signals.take()
        if not self._terminal:
            return
        if signal.SIGINT in heard:
            self._wire.tell("interrupt")
        if signal.SIGTSTP in heard and self._kill_at == inf:
            now = time.monotonic()
            looks = range(1, _LOOKS_AFTER_CTRL_Z + 1)
            self._ladder = [(now + look * _LOOK_AGAIN, self._freeze_if_caught_in_vfork) for look in looks]

    def _sweep_tools(self) -> None:
        """End what an agent that lives on has left in sessions of its own, as its tools do; its helpers stay."""
        tools = [each for each in self._family.living() if tree.session_of(each.pid) not in (None, self._agent)]
        self._wire.tell("swept", tree.end(tools, SWEEP_GRACE))

    # The ladder

    def _stop(self, signum: int, grace: float) -> None:
        now = time.monotonic()
        self._kill_at = min(self._kill_at, now + grace)
        half = (now + self._kill_at) / 2
        first = (now, lambda: self._signal_agent(signum)) if self._agent_alive else (now, self._term_all)
        self._ladder = [first, (half, self._term_all), (self._kill_at, self._kill_all)]

    def _end_all_within(self, grace: float) -> None:
        now = time.monotonic()
        self._kill_at = min(self._kill_at, now + grace)
        self._ladder = [(now, self._term_all), (self._kill_at, self._kill_all)]

    def _climb(self) -> None:
        now = time.monotonic()
        while self._ladder and self._ladder[0][0] <= now:
            self._ladder.pop(0)[1]()

    def _until_next_rung(self) -> float | None:
        patience = [max(0.0, self._ladder[0][0] - time.monotonic())] if self._ladder else []
        if self._agent_alive:
            patience += [_FOLLOW_EVERY] if self._terminal else []
            patience += [] if linux.HERE else [_REMEMBER_EVERY]
        return min(patience, default=None)

    def _signal_agent(self, signum: int) -> None:
        """Only the agent and its group: it gets the chance to end its own children in its own way."""
        if self._agent_alive:
            with contextlib.suppress(OSError):
                os.killpg(self._group(), signum)
                os.killpg(self._group(), signal.SIGCONT)
        self._thaw()

    def _term_all(self) -> None:
        """TERM for everyone, once each."""
        for process in self._living():
            if process not in self._termed:
                self._termed.add(process)
                tree.send(process, signal.SIGTERM)
                tree.send(process, signal.SIGCONT)
        again = time.monotonic() + _LOOK_AGAIN
        if again < self._kill_at:
            self._ladder.insert(0, (again, self._term_all))

    def _kill_all(self) -> None:
        for process in self._living():
            tree.send(process, signal.SIGKILL)
        self._ladder = [(time.monotonic() + _LOOK_AGAIN, self._kill_all)]

    def _living(self) -> list[psutil.Process]:
        living = self._family.living()
        if not self._agent_alive:
            self._swept.update(living)
        return living

    # The agent while it lives

    def _group(self) -> int:
        """Its own if it has one; on a terminal it is born into ours."""
        return self._agent if os.getpgid(self._agent) == self._agent else os.getpgrp()

    def _look_after_the_agent(self) -> None:
        """A shell makes a group of its own; we go with it, to hear the Ctrl+C that the terminal sends there."""
        if self._agent_alive and self._terminal:
            with contextlib.suppress(OSError):
                if self._group() != os.getpgrp():
                    os.setpgid(0, self._agent)
        if self._agent_alive and not linux.HERE:
            self._family.living(thorough=False)

    # Suspension

    def _freeze_if_caught_in_vfork(self) -> None:
        """After a Ctrl+Z. An agent whose child stopped between vfork and exec cannot stop itself, nor go on."""
        agent = tree.look(self._agent)
        waits = agent is not None and tree.status(agent) == psutil.STATUS_DISK_SLEEP
        if waits and any(tree.status(child) == psutil.STATUS_STOPPED for child in tree.descendants(self._agent)):
            self._freeze(signal.SIGTSTP)

    def _freeze(self, signum: int) -> None:
        """Stop everything that runs, so that it can be continued without waking what was stopped before."""
        if self._kill_at < inf:
            return  # it is being ended
        self._ladder = []
        frozen: set[psutil.Process] = set()
        for _ in range(_STOP_ROUNDS):
            running = {each for each in self._family.living() if tree.status(each) != psutil.STATUS_STOPPED}
            for process in running - frozen:
                tree.send(process, signal.SIGSTOP)
            if running <= frozen:
                break
            frozen |= running
        self._frozen = list(frozen)
        self._wire.tell("suspended", signum)

    def _thaw(self) -> None:
        if self._agent_alive:
            with contextlib.suppress(OSError):
                os.killpg(self._group(), signal.SIGCONT)
        for process in self._frozen or ():
            tree.send(process, signal.SIGCONT)
        self._frozen = None
