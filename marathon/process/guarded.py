"""One guarded tree, as the runner sees it: told what to do, asked how it is, and ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from math import inf

import psutil

from marathon.process import tree
from marathon.process.guardian import fork_guardian
from marathon.process.output import Pipes
from marathon.process.start import Command, Exit, Reason, StartFailed

_INTERRUPT_GRACE = 1.5
_LAST_WORDS = 2.0  # for what it still has to tell, before it is ended
_GUARDIAN_LATE = 2.0  # after the grace: then it is not going to report
_GUARDIAN_PATIENCE = 3.0  # more than it needs to end a tree once we have let go of it
_STRAYS_PATIENCE = 2.0  # what is left then cannot be killed
_REAP_EVERY = 0.0002
_BY_SIGNAL: dict[int, Reason] = {signal.SIGTERM: "terminated", signal.SIGHUP: "hungup"}
_OURS: tuple[Reason, ...] = ("exited", "timeout", "stopped")  # a signal to the runner outranks these


class Guarded:
    def __init__(
        self, command: Command, take: Callable[[str, bytes], None], timeout: float | None, grace: float
    ) -> None:
        self.guardian, self.wire, self._mark, streams = fork_guardian(command)
        self.pipes = Pipes(streams, take)
        self.on_report: Callable[[list[str]], None] = lambda words: None  # what concerns the person at the terminal
        self._process = tree.look(self.guardian)
        self.agent = 0
        self.status: int | None = None  # of the agent, once it has ended
        self.tools_swept: int | None = None
        self.is_over = False
        self._command = command
        self._failed: StartFailed | None = None
        self._is_gone = False
        self._swept = 0
        self._reaped = False
        self.begin(timeout, grace)

    def begin(self, timeout: float | None, grace: float, ask: Callable[[], bool] | None = None) -> None:
        """A session begins: its time is counted from here. `ask` asks it to stop before it is ended, if it can."""
        self.grace = grace
        self.suspended = 0.0  # seconds that are not counted
        self._timeout = timeout
        self._began = time.monotonic()
        self._reason: Reason = "exited"
        self._give_up_at = inf
        self._ask = ask
        self._was_asked = False
        self._asked: tuple[float, int] | None = None  # how it is ended afterwards
        self._end_at = inf

    def elapsed(self) -> float:
        """By the clock that stands still while the machine sleeps: that is neither work nor a reason to time out."""
        return time.monotonic() - self._began - self.suspended

    def hear(self) -> None:
        """What the guardian reports."""
        for words in self.wire.hear():
            match words:
                case []:
                    self.is_over = True
                case ["started", pid]:
                    self.agent = int(pid)
                case ["failed", number, subject]:
                    self.is_over = self._is_gone = True
                    about = self._command.argv[0] if subject == "program" else str(self._command.cwd)
                    self._failed = StartFailed(int(number), os.strerror(int(number)), about)
                case ["exit", status]:
                    self.status = int(status)
                case ["swept", count]:
                    self.tools_swept = int(count)
                case ["gone" | "left" as outcome, count]:
                    self._swept = int(count)
                    self.is_over, self._is_gone = True, outcome == "gone"
            self.on_report(words)

    def may_be_stopped(self) -> bool:
        return self._reason == "exited" and self.status is None

    def stop_for(self, signum: int) -> None:
        """One of ENDING came to the runner."""
        if signum == signal.SIGINT:
            self.stop("interrupted", min(self.grace, _INTERRUPT_GRACE))
        else:
            self.stop(_BY_SIGNAL[signum], self.grace, signum)

    def stop(self, reason: Reason, grace: float, signum: int = signal.SIGTERM) -> None:
        if self._reason in _OURS:
            self._reason = reason
        ask, self._ask = self._ask, None
        if ask is not None and self.status is None and ask():
            self._was_asked, self._asked, self._end_at = True, (grace, signum), time.monotonic() + _LAST_WORDS
            return
        self._asked, self._end_at = None, inf
        self.wake()
        self.wire.tell("stop", int(signum), grace)
        self._give_up_at = min(self._give_up_at, time.monotonic() + grace + _GUARDIAN_LATE)

    def is_settled(self, done: Callable[[], bool]) -> bool:
        """Whether its session is over by itself. One that was asked to stop, and has told all, is ended."""
        if self._asked and done():
            self.stop(self._reason, *self._asked)
        return not self._was_asked and done()

    def look_at_the_clock(self) -> None:
        if self._asked is not None and time.monotonic() >= self._end_at:
            self.stop(self._reason, *self._asked)
        if time.monotonic() >= self._give_up_at:
            self._signal(signal.SIGKILL)
        if self.may_be_stopped() and self._timeout is not None and self.elapsed() >= self._timeout:
            self.stop("timeout", self.grace)

    def wake(self) -> None:
        """An agent may stop its whole group, and the guardian with it; it is of no use asleep."""
        self._signal(signal.SIGCONT)

    def finish(self) -> Exit:
        """It is over: take in the last of its output and say how it ended. StartFailed if it never began."""
        self._end()
        if self._failed:
            raise self._failed
        self.pipes.drain()
        # Without its guardian no one knows the status: the agent was killed, by the kernel or by us.
        status = -signal.SIGKILL if self.status is None else self.status
        code, signum = (status, None) if status >= 0 else (None, -status)
        return Exit(code, signum, self._reason, self._swept, self.elapsed())

    def close(self) -> None:
        """Ends whatever is left of it."""
        self._end()
        self.pipes.close()

    def _end(self) -> None:
        if self._reaped:
            return
        self._reaped = True
        self.wire.close()
        deadline = time.monotonic() + _GUARDIAN_PATIENCE
        while not self._guardian_is_gone():
            if time.monotonic() > deadline:  # it was stopped
                self._signal(signal.SIGKILL)
            time.sleep(_REAP_EVERY)
        if not self._is_gone:
            self._end_strays()

    def _guardian_is_gone(self) -> bool:
        try:
            return os.waitpid(self.guardian, os.WNOHANG)[0] != 0
        except ChildProcessError:  # a runner that went on in the background is not its parent
            return self._process is None or not tree.is_alive(self._process)

    def _signal(self, signum: int) -> None:
        """Its number may be another process by now, unless we are its parent."""
        if self._process is not None:
            tree.send(self._process, signum)

    def _end_strays(self) -> None:
        ended: set[psutil.Process] = set()
        deadline = time.monotonic() + _STRAYS_PATIENCE
        while (strays := tree.strays(self._mark, self.agent)) and time.monotonic() < deadline:
            ended.update(strays)
            tree.end(strays, 0.0)
        self._swept += len([stray for stray in ended if stray.pid != self.agent])
