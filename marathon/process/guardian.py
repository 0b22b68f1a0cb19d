"""The small process between runner and agent that outlives both just long enough to end the whole tree.

It is the subreaper of the tree, so "no children left" means that nothing of the session is left.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable
from math import inf

from marathon.process import tree
from marathon.process.signals import Signals
from marathon.process.terminal import Terminal

SWEEP_GRACE = 1.0  # for what outlives the agent, and for the agent when it outlives the runner
_LOOK_AGAIN = 0.05  # for what was born, or changed parents, while we looked
_GIVE_UP = 1.5  # after the first KILL: what is still there cannot be killed by us
_STOP_ROUNDS = 5
_LOOKS_AFTER_CTRL_Z = 20
_FOLLOW_EVERY = 0.25


class Guardian:
    def __init__(self, agent: int, control: socket.socket, signals: Signals, terminal: Terminal | None) -> None:
        self._agent = agent
        self._agent_alive = True
        self._ended = ""  # how the agent ended, until the runner is told
        self._control = control
        self._runner_alive = True
        self._signals = signals
        self._terminal = terminal
        self._ladder: list[tuple[float, Callable[[], None]]] = []
        self._kill_at = inf
        self._termed: set[tuple[int, int]] = set()
        self._swept: set[tuple[int, int]] = set()
        self._frozen: list[tree.Process] | None = None
        self._left = True

    def keep_watch(self) -> None:
        """Until nothing of the tree is left, or what is left cannot be ended."""
        with selectors.PollSelector() as selector:  # which asks the kernel once, not for each file as well
            selector.register(self._signals.fd, selectors.EVENT_READ, self._hear_signals)
            selector.register(self._control, selectors.EVENT_READ, self._hear_runner)
            while (left := self._reap()) and time.monotonic() < self._kill_at + _GIVE_UP:
                if self._ended:
                    self._tell(self._ended)
                    self._ended = ""
                self._climb()
                self._follow_the_agent()
                for key, _ in selector.select(self._until_next_rung()):
                    key.data()
                if not self._runner_alive and self._control.fileno() in selector.get_map():
                    selector.unregister(self._control)
        if not self._runner_alive and self._terminal:
            self._terminal.repair_after(os.getpgrp(), self._agent)
        if os.getpgrp() != os.getpid():
            os.setpgid(0, 0)  # where the next agent is born
        self._left = left

    def sign_off(self) -> bool:
        """Tell the runner how it ended; True if nothing is left."""
        self._tell(f"{self._ended} {'left' if self._left else 'gone'} {len(self._swept)}")
        return not self._left

    def _reap(self) -> bool:
        """Collect the dead; False when no descendant is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._agent:
                self._agent_changed(status)

    def _agent_changed(self, status: int) -> None:
        if not os.WIFSTOPPED(status):
            self._agent_alive = False
            self._ended = f"exit {os.waitstatus_to_exitcode(status)}"
            self._end_all_within(SWEEP_GRACE)
        elif self._terminal and self._frozen is None:
            self._freeze(os.WSTOPSIG(status))

    # What the runner says

    def _hear_runner(self) -> None:
        try:
            words = self._control.recv(4096).decode().split()
        except OSError:  # a runner that died with reports unread resets the connection
            words = []
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
        if signal.SIGINT in heard:
            self._tell("interrupt")
        if signal.SIGTSTP in heard and self._kill_at == inf:
            now = time.monotonic()
            looks = range(1, _LOOKS_AFTER_CTRL_Z + 1)
            self._ladder = [(now + look * _LOOK_AGAIN, self._freeze_if_caught_in_vfork) for look in looks]

    def _tell(self, message: str) -> None:
        with contextlib.suppress(OSError):
            self._control.send(message.encode())

    def _sweep_tools(self) -> None:
        """End what an agent that lives on has left in sessions of its own, as its tools do; its helpers stay."""
        tools = [each for each in tree.descendants(os.getpid()) if _session_of(each.pid) not in (-1, self._agent)]
        self._tell(f"swept {tree.end(tools, SWEEP_GRACE)}")

    # The ladder: what is due when

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
        follow = _FOLLOW_EVERY if self._terminal and self._agent_alive else None
        if not self._ladder:
            return follow
        rung = max(0.0, self._ladder[0][0] - time.monotonic())
        return rung if follow is None else min(rung, follow)

    # The agent's process group

    def _group(self) -> int:
        """Its own if it has one; on a terminal it is born into ours."""
        return self._agent if os.getpgid(self._agent) == self._agent else os.getpgrp()

    def _follow_the_agent(self) -> None:
        """A shell makes a group of its own; we go with it, to hear the Ctrl+C that the terminal sends there."""
        if self._terminal and self._agent_alive:
            with contextlib.suppress(OSError):
                if self._group() != os.getpgrp():
                    os.setpgid(0, self._agent)

    # The rungs

    def _signal_agent(self, signum: int) -> None:
        """Only the agent and its group: it gets the chance to end its own children in its own way."""
        if self._agent_alive:
            with contextlib.suppress(OSError):
                os.killpg(self._group(), signum)
                os.killpg(self._group(), signal.SIGCONT)
        self._thaw()

    def _term_all(self) -> None:
        """TERM for everybody, once each."""
        for process in self._living():
            if process.identity not in self._termed:
                self._termed.add(process.identity)
                tree.send(process, signal.SIGTERM)
                tree.send(process, signal.SIGCONT)
        again = time.monotonic() + _LOOK_AGAIN
        if again < self._kill_at:
            self._ladder.insert(0, (again, self._term_all))

    def _kill_all(self) -> None:
        for process in self._living():
            tree.send(process, signal.SIGKILL)
        self._ladder = [(time.monotonic() + _LOOK_AGAIN, self._kill_all)]

    def _living(self) -> list[tree.Process]:
        living = tree.descendants(os.getpid())
        if not self._agent_alive:
            self._swept |= {process.identity for process in living}
        return living

    # Suspension

    def _freeze_if_caught_in_vfork(self) -> None:
        """After a Ctrl+Z. An agent whose child stopped between vfork and exec cannot stop itself, nor go on."""
        family = tree.descendants(os.getpid())
        waits = any(process.pid == self._agent and process.state == "D" for process in family)
        if waits and any(process.parent == self._agent and process.stopped for process in family):
            self._freeze(signal.SIGTSTP)

    def _freeze(self, signum: int) -> None:
        """Stop everything that runs, so that it can be continued without waking what was stopped before."""
        if self._kill_at < inf:
            return  # it is being ended
        self._ladder = []
        frozen: dict[tuple[int, int], tree.Process] = {}
        for _ in range(_STOP_ROUNDS):
            running = [process for process in tree.descendants(os.getpid()) if not process.stopped]
            fresh = {process.identity: process for process in running}
            if fresh.keys() <= frozen.keys():
                break
            frozen |= fresh
            for process in fresh.values():
                tree.send(process, signal.SIGSTOP)
        self._frozen = list(frozen.values())
        self._tell(f"suspended {signum}")

    def _thaw(self) -> None:
        if self._agent_alive:
            with contextlib.suppress(OSError):
                os.killpg(self._group(), signal.SIGCONT)
        for process in self._frozen or ():
            tree.send(process, signal.SIGCONT)
        self._frozen = None


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1
