"""The runner's side of a running agent: one select loop over output, guardian, signals and clock."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from marathon.process.adopted import Adopted
from marathon.process.command import Command, Exit, Reason, StartFailed
from marathon.process.launch import Launched
from marathon.process.output import Output, Pipes
from marathon.process.signals import ENDING, Signals
from marathon.process.terminal import Terminal, suspend_self

AGAIN_WITHIN = 2.0  # the second Ctrl+C
_INTERRUPT_GRACE = 1.5
_GUARDIAN_LATE = 2.0  # after the grace: then it is not going to report
_BY_SIGNAL: dict[int, Reason] = {signal.SIGTERM: "terminated", signal.SIGHUP: "hungup"}
_WANTS_TERMINAL = (signal.SIGTTIN, signal.SIGTTOU)
_OURS: tuple[Reason, ...] = ("exited", "timeout", "stopped")  # a signal to the runner outranks these


@dataclass(frozen=True)
class Callbacks:
    tick: Callable[[], bool]
    interrupt: Callable[[], None]
    resume: Callable[[], None]


def _now() -> float:
    """Goes on while the machine sleeps, unlike the monotonic clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class Watch:
    command: Command
    launched: Launched
    terminal: Terminal | None
    signals: Signals
    call: Callbacks
    timeout: float | None
    grace: float
    tick: float

    tree_is_gone: bool = False
    failed: StartFailed | None = None
    _guardian_reports: bool = True
    agent: int = 0
    status: int | None = None  # of the agent, once it has ended
    _swept: int = 0
    _reason: Reason = "exited"
    _started: float = field(default_factory=_now)
    suspended: float = 0.0  # seconds that are not counted
    _next_tick: float = 0.0
    _last_interrupt: float = -inf
    _give_up_at: float = inf

    def until_the_tree_is_gone(
        self,
        output: Output,
        done: Callable[[], bool] = lambda: False,
        arrange: Callable[[selectors.BaseSelector], None] = lambda selector: None,
    ) -> None:
        """Returns as well when `done` says so, and when the guardian died unnoticed; then `tree_is_gone` is False.

        `arrange` may watch further files; it is called before each look. StartFailed if there never was a tree.
        """
        with selectors.PollSelector() as selector:  # which asks the kernel once, not for each file as well
            self.register(selector, output)
            selector.register(self.signals.fd, selectors.EVENT_READ, self._hear_signals)
            while not self.over and not done():
                arrange(selector)
                for key, _ in selector.select(max(0.0, self._next_tick - _now())):
                    key.data()
                self.look_at_the_clock()
        if self.failed:
            raise self.failed

    def register(self, selector: selectors.BaseSelector, output: Pipes) -> None:
        """What a loop has to hear of this one tree; it looks at the clock as well, after each select."""
        selector.register(self.launched.control, selectors.EVENT_READ, self._hear_guardian)
        output.register(selector)

    @property
    def over(self) -> bool:
        return self.tree_is_gone or self.lost

    @property
    def lost(self) -> bool:
        """Nobody can tell us of the tree any more."""
        return not self._guardian_reports

    def verdict(self, adopted: Adopted) -> Exit:
        status = adopted.statuses.get(self.agent, self.status)
        swept = self._swept + len([pid for pid, _ in adopted.ended if pid != self.agent])
        return Exit(
            code=status if status is not None and status >= 0 else None,
            signal=-status if status is not None and status < 0 else None,
            reason=self._reason,
            swept=swept,
            seconds=self.elapsed(),
        )

    def elapsed(self) -> float:
        return _now() - self._started - self.suspended

    # The guardian

    def _hear_guardian(self) -> None:
        try:
            words = self.launched.control.recv(4096).decode().split()
        except OSError:  # a guardian that died with orders unread resets the connection
            words = []
        self.hear(words)

    def hear(self, words: list[str]) -> None:
        """One report of the guardian."""
        match words:
            case []:
                self._guardian_reports = False
            case ["started", pid]:
                self.agent = int(pid)
                self._next_tick = 0.0
                if self.terminal:
                    self.terminal.used = True
            case ["failed", number, subject]:
                self.tree_is_gone = True
                about = self.command.argv[0] if subject == "program" else str(self.command.cwd)
                self.failed = StartFailed(int(number), os.strerror(int(number)), about)
            case ["interrupt"]:
                self._interrupt()
            case ["suspended", signum]:
                self._suspend(int(signum))
            case ["exit", status, *more]:
                self.status = int(status)
                if more:
                    self.hear(more)
            case ["gone" | "left" as outcome, swept]:
                self._swept = int(swept)
                self.tree_is_gone = outcome == "gone"

    def _tell(self, message: str) -> None:
        with contextlib.suppress(OSError):
            self.launched.control.send(message.encode())

    def stop_for(self, signum: int) -> None:
        """One of ENDING came to the runner."""
        if signum == signal.SIGINT:
            self.stop("interrupted", min(self.grace, _INTERRUPT_GRACE))
        else:
            self.stop(_BY_SIGNAL[signum], self.grace, signum)

    def stop(self, reason: Reason, grace: float, signum: int = signal.SIGTERM) -> None:
        if self._reason in _OURS:
            self._reason = reason
        os.kill(self.launched.guardian, signal.SIGCONT)
        self._tell(f"stop {int(signum)} {grace}")
        self._give_up_at = min(self._give_up_at, _now() + grace + _GUARDIAN_LATE)

    # Clock and signals

    def look_at_the_clock(self) -> None:
        now = _now()
        if now >= self._give_up_at:
            os.kill(self.launched.guardian, signal.SIGKILL)
        wanted = self._reason == "exited" and self.status is None
        if wanted and self.timeout is not None and self.elapsed() >= self.timeout:
            self.stop("timeout", self.grace)
        if now >= self._next_tick:
            self._next_tick = now + self.tick
            self._wake_the_guardian()
            self._continued()
            if self.agent and self.call.tick() and wanted and self._reason == "exited":
                self.stop("stopped", self.grace)

    def _wake_the_guardian(self) -> None:
        """An agent may stop its whole group, and the guardian with it; it is of no use asleep."""
        guardian = self.launched.guardian
        with contextlib.suppress(ChildProcessError):
            if os.waitid(os.P_PID, guardian, os.WSTOPPED | os.WNOHANG):
                os.kill(guardian, signal.SIGCONT)
        if self.terminal and not self.agent:
            # A Ctrl+Z may catch the agent just before its program begins, and the guardian waits for that.
            with contextlib.suppress(OSError):
                os.killpg(guardian, signal.SIGCONT)

    def _hear_signals(self) -> None:
        for signum in self.signals.take():
            if signum == signal.SIGINT:
                self._interrupt()
            elif signum in _BY_SIGNAL:
                self.stop_for(signum)
            elif signum == signal.SIGTSTP:
                self._tell("suspend")
            elif signum == signal.SIGCONT:
                self._continued()

    def _interrupt(self) -> None:
        now = _now()
        if now - self._last_interrupt <= AGAIN_WITHIN:
            self.stop_for(signal.SIGINT)
        else:
            self.call.interrupt()
        self._last_interrupt = now

    # Suspension

    def _suspend(self, signum: int) -> None:
        """The tree stands still: let the shell have the terminal until it continues us."""
        if signum in _WANTS_TERMINAL and self._can_have_it():
            self._hand_over()
            return
        began = _now()
        if self.terminal:
            self.terminal.take_back(remember=True)
            suspend_self(job=True)
            if self.signals.pending(*ENDING):
                return  # `kill %1` from the shell: the terminal is the shell's, and the tree is about to end
            self.terminal.wait_for_foreground()
        else:
            suspend_self(job=False)
        self.suspended += _now() - began
        self.call.resume()
        self._hand_over()

    def _continued(self) -> None:
        """Somebody stopped us without asking; the shell then gave the terminal to us, not to the agent.

        Looked at with every tick as well: the shell may hand it over only after its signal has been heard.
        """
        if self.agent and self.terminal and self.terminal.lent and self.terminal.belongs_to(os.getpgrp()):
            self._hand_over()

    def _can_have_it(self) -> bool:
        return self.terminal is not None and self.terminal.belongs_to(os.getpgrp(), self._group())

    def _group(self) -> int:
        """The agent's: it is born into the guardian's, but may have left it, as shells do."""
        try:
            return self.agent if os.getpgid(self.agent) == self.agent else self.launched.guardian
        except OSError:
            return self.launched.guardian

    def _hand_over(self) -> None:
        if self.terminal:
            self.terminal.give(self._group())
        self._tell("resume")
