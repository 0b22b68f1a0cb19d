"""The process between runner and agent. It outlives both just long enough to end the whole tree.

It is forked from the runner, starts the agent, and talks to the runner over a socket. When the runner's end of that
socket closes, the runner is dead or has let go, and the tree is ended.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import NoReturn

import psutil

from marathon.process import linux, tree, window
from marathon.process.signals import Signals
from marathon.process.start import Command, StartFailed, start
from marathon.process.terminal import Terminal, blocked

SWEEP_GRACE = 1.0  # for what outlives the agent, and for the agent when it outlives the runner
_ABOUT_TO_END = 0.5  # a short program of the agent's own, such as git
_LOOK_AGAIN = 0.05  # for what was born, or changed parents, while we looked
_CONFIRM = 0.01
_CONFIRMATIONS = 2
_GIVE_UP = 1.5  # after the first KILL: what is still there cannot be killed by us
_STOP_ROUNDS = 5
_AFTER_CTRL_Z = 1.0  # how long we look whether it has caught the agent in a vfork
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


def fork_guardian(command: Command) -> tuple[int, Wire, str, dict[str, int]]:
    """Its pid, our end of the wire, the mark of its tree, and the "out" and "err" of the agent to read from.

    Closing our end of the wire makes the guardian end the tree, and itself.

    A fork is safe while we have one thread: a lock that another one holds would stay locked in the child. So nothing
    that runs in a runner leaves a thread behind. What needs threads (the page, the MCP server) never forks.
    """
    mark = os.urandom(8).hex()
    if linux.HERE:
        linux.prctl()
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        streams: dict[str, int] = {}
        stdio = [subprocess.DEVNULL if command.stdin is None else command.stdin]
        for name in () if command.terminal else ("out",) if command.joined else ("out", "err"):
            streams[name], far_end = os.pipe()
            ours.callback(os.close, streams[name])
            theirs.callback(os.close, far_end)
            stdio.append(far_end)
        stdio = [0, 1, 2] if command.terminal else [*stdio, stdio[-1]][:3]
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
    return guardian, Wire(near), mark, streams


def _guard(command: Command, stdio: list[int], wire: Wire, mark: str) -> NoReturn:
    """The guardian's whole life. Begins with all signals blocked, and never returns into the runner's code."""
    try:
        gc.freeze()  # the runner's garbage would close files that are ours by now
        _be_as_if_just_born(keep={wire.fileno(), *stdio, *command.inherit})
        with Signals(_HEARD) as signals:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            linux.become_subreaper()
            if command.session:
                linux.be_known_as(linux.GUARDIAN)
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


@dataclass
class Guardian:
    agent: int
    wire: Wire
    signals: Signals
    terminal: Terminal | None
    family: tree.Family

    _agent_alive: bool = True
    _runner_gone: bool = False
    _term_at: float = inf  # from then on, everyone in the tree gets TERM
    _kill_at: float = inf
    _ctrl_z_at: float = -inf
    _termed: set[psutil.Process] = field(default_factory=set)
    _swept: set[psutil.Process] = field(default_factory=set)
    _frozen: set[psutil.Process] | None = None

    def keep_watch(self) -> None:
        """Until nothing of the tree is left, or what is left cannot be ended."""
        while (left := self._any_left()) and time.monotonic() < self._kill_at + _GIVE_UP:
            self._do_what_is_due()
            files = {self.signals.fd: self._hear_signals}
            files |= {} if self._runner_gone else {self.wire.fileno(): self._hear_runner}
            for fd in select.select(files, [], [], self._patience())[0]:
                files[fd]()
        if self._runner_gone and self.terminal:
            self.terminal.repair_after(os.getpgrp(), self.agent)
        if self._runner_gone:
            window.clear_after_the_dead()
        self.wire.tell("left" if left else "gone", len(self._swept))

    def _any_left(self) -> bool:
        """Collects the dead as well."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if pid == 0:
                    return True
                if pid == self.agent:
                    self._agent_changed(status)
        if linux.HERE:
            return False  # a subreaper without children has no descendants
        for _ in range(_CONFIRMATIONS):  # one may have been born, and orphaned, while we looked
            if self.family.living():
                return True
            # No one gets out of a group by forking. The agent is gone, so its number must not be a new process.
            if time.monotonic() >= self._kill_at and not self.terminal and not psutil.pid_exists(self.agent):
                with contextlib.suppress(OSError):
                    os.killpg(self.agent, signal.SIGKILL)
            time.sleep(_CONFIRM)
        return False

    def _agent_changed(self, status: int) -> None:
        if not os.WIFSTOPPED(status):
            self._agent_alive = False
            self.wire.tell("exit", os.waitstatus_to_exitcode(status))
            self._end_all()
        elif self.terminal and self._frozen is None:
            self._freeze(os.WSTOPSIG(status))

    def _hear_runner(self) -> None:
        for words in self.wire.hear():
            match words:
                case []:
                    self._runner_gone = True
                    self._end_all()
                case ["stop", signum, grace]:
                    self._stop(int(signum), float(grace))
                case ["sweep"]:
                    self._sweep_tools()
                case ["suspend"]:
                    self._freeze(signal.SIGTSTP)
                case ["resume"]:
                    self._thaw()

    def _hear_signals(self) -> None:
        heard = self.signals.take()
        if self.terminal and signal.SIGINT in heard:
            self.wire.tell("interrupt")
        if self.terminal and signal.SIGTSTP in heard:
            self._ctrl_z_at = time.monotonic()

    def _sweep_tools(self) -> None:
        """End what an agent that lives on has left in sessions of its own, as its tools do; its helpers stay."""
        tools = [each for each in self.family.living() if tree.session_of(each) not in (0, self.agent)]
        self.wire.tell("swept", tree.end(tree.wait(tools, _ABOUT_TO_END), SWEEP_GRACE))

    # Ending

    def _stop(self, signum: int, grace: float) -> None:
        """First only the agent and its group: it gets the chance to end its own children in its own way."""
        now = time.monotonic()
        self._kill_at = min(self._kill_at, now + grace)
        self._term_at = min(self._term_at, (now + self._kill_at) / 2)
        self._signal_group(signum)
        self._thaw()

    def _end_all(self) -> None:
        self._term_at = time.monotonic()
        self._kill_at = min(self._kill_at, self._term_at + SWEEP_GRACE)

    def _do_what_is_due(self) -> None:
        now = time.monotonic()
        if now >= self._term_at:
            for process in self._living():
                if now >= self._kill_at:
                    tree.send(process, signal.SIGKILL)
                elif process not in self._termed:
                    self._termed.add(process)
                    tree.send(process, signal.SIGTERM)
                    tree.send(process, signal.SIGCONT)
        elif now < self._ctrl_z_at + _AFTER_CTRL_Z:
            self._freeze_if_caught_in_vfork()
        self._follow_the_agent()
        if self._agent_alive and not linux.HERE:
            self.family.living(thorough=False)  # which remembers them

    def _patience(self) -> float | None:
        now = time.monotonic()
        if now >= self._term_at or now < self._ctrl_z_at + _AFTER_CTRL_Z:
            return _LOOK_AGAIN
        regular = _FOLLOW_EVERY if self.terminal else None if linux.HERE else _REMEMBER_EVERY
        return regular if self._term_at == inf else self._term_at - now

    def _living(self) -> list[psutil.Process]:
        living = self.family.living()
        if not self._agent_alive:
            self._swept.update(living)
        return living

    # The agent's process group

    def _signal_group(self, signum: int) -> None:
        if self._agent_alive:
            with contextlib.suppress(OSError):
                os.killpg(os.getpgrp() if self.terminal else self.agent, signum)

    def _follow_the_agent(self) -> None:
        """A shell makes a group of its own; we go with it, to hear the Ctrl+C that the terminal sends there."""
        if self._agent_alive and self.terminal:
            with contextlib.suppress(OSError):
                if os.getpgid(self.agent) == self.agent != os.getpgrp():
                    os.setpgid(0, self.agent)

    # Suspension

    def _freeze_if_caught_in_vfork(self) -> None:
        """An agent whose child a Ctrl+Z has stopped between vfork and exec cannot stop itself, nor go on."""
        agent = tree.look(self.agent)
        waits = agent is not None and tree.status(agent) == psutil.STATUS_DISK_SLEEP
        if waits and any(tree.status(child) == psutil.STATUS_STOPPED for child in tree.descendants(self.agent)):
            self._freeze(signal.SIGTSTP)

    def _freeze(self, signum: int) -> None:
        """Stop everything that runs, so that it can be continued without waking what was stopped before."""
        if self._kill_at < inf:
            return  # it is being ended
        self._follow_the_agent()
        self._ctrl_z_at = -inf
        self._frozen = set()
        for _ in range(_STOP_ROUNDS):
            running = {each for each in self.family.living() if tree.status(each) != psutil.STATUS_STOPPED}
            if running <= self._frozen:
                break
            for process in running - self._frozen:
                tree.send(process, signal.SIGSTOP)
            self._frozen |= running
        self.wire.tell("suspended", signum)

    def _thaw(self) -> None:
        self._signal_group(signal.SIGCONT)
        for process in self._frozen or ():
            tree.send(process, signal.SIGCONT)
        self._frozen = None
