"""Runs children: one (`run`), many beside each other (`run_all`), or one that lives on (`Resident`).

All three use the same select loop over the guardians' reports, the children's output, the runner's signals and the
clock. Whichever way a child is left, nothing of its tree is left with it.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import psutil

from marathon.process import tree
from marathon.process.clock import since_boot
from marathon.process.guardian import fork_guardian
from marathon.process.output import Lines, Pipes, Transcript
from marathon.process.signals import ENDING, Interrupted, Signals
from marathon.process.start import Command, Exit, Reason, StartFailed
from marathon.process.terminal import Terminal, suspend_self

_TICK = 0.25
_AGAIN_WITHIN = 2.0  # the second Ctrl+C
_INTERRUPT_GRACE = 1.5
_GUARDIAN_LATE = 2.0  # after the grace: then it is not going to report
_GUARDIAN_PATIENCE = 3.0  # more than it needs to end a tree once we have let go of it
_SWEEP_PATIENCE = 4.0
_LEAVE_GRACE = 3.0
_STRAYS_PATIENCE = 2.0  # what is left then cannot be killed
_BY_SIGNAL: dict[int, Reason] = {signal.SIGTERM: "terminated", signal.SIGHUP: "hungup"}
_OURS: tuple[Reason, ...] = ("exited", "timeout", "stopped")  # a signal to the runner outranks these
_CUT_SHORT: tuple[Reason, ...] = ("stopped", "interrupted", "terminated", "hungup")

OnOutput = Callable[[str, bytes, bool], None]


def run(
    command: Command,
    *,
    signals: Signals,
    on_output: OnOutput,
    on_tick: Callable[[], bool],
    on_interrupt: Callable[[], None],
    on_resume: Callable[[], None],
    timeout: float | None,
    grace: float = 5.0,
    tick: float = _TICK,
) -> Exit:
    """Returns when the agent and its whole tree are gone.

    on_output(stream, line, complete): stream is "out" or "err", the line comes without its newline, and an
    overlong one in pieces of which the last is complete. on_tick is called at least every `tick` seconds;
    True asks to stop the child now. An exception from a callback ends the tree and is raised on.
    """
    with contextlib.ExitStack() as cleanup:
        terminal = Terminal() if command.terminal else None
        if terminal:
            cleanup.callback(terminal.close)
            terminal.wait_for_foreground()
            terminal.lent = True
            cleanup.callback(terminal.take_back)
        lines = Lines(on_output)
        child = cleanup.enter_context(contextlib.closing(_Tree(command, lines.take)))
        child.begin(timeout, grace)
        with _Attendance(child, terminal, signals, on_tick, on_interrupt, on_resume, tick) as attendance:
            while not child.is_over:
                attendance.loop.turn()
        child.end()
        if child.failed:
            raise child.failed
        child.pipes.drain()
        lines.flush()
        return child.verdict()


class Resident:
    """A child that serves several sessions: watched during each, left alone in between, fed through its stdin.

    It is started at once; StartFailed comes with the first attend. The owner closes it.
    """

    def __init__(self, command: Command) -> None:
        self._deliver: OnOutput = _ignore_output
        self._lines = Lines(lambda *piece: self._deliver(*piece))
        self._unsent = bytearray()
        theirs, self._stdin = os.pipe()
        try:
            os.set_blocking(self._stdin, False)
            self._tree = _Tree(replace(command, stdin=theirs), self._lines.take)
        except BaseException:
            os.close(self._stdin)
            raise
        finally:
            os.close(theirs)

    def send(self, data: bytes) -> None:
        """Queue bytes for its stdin; they go out while it is attended."""
        self._unsent += data

    def attend(
        self,
        *,
        signals: Signals,
        done: Callable[[], bool],
        on_output: OnOutput,
        on_tick: Callable[[], bool],
        on_interrupt: Callable[[], None],
        on_resume: Callable[[], None],
        timeout: float | None,
        readers: Mapping[int, Callable[[], None]] | None = None,
        grace: float = 5.0,
        tick: float = _TICK,
    ) -> tuple[Exit | None, float]:
        """Until `done`, or until it is gone: then its Exit comes too. Also the seconds this took."""
        child = self._tree
        child.begin(timeout, grace)
        self._deliver = on_output
        try:
            with _Attendance(child, None, signals, on_tick, on_interrupt, on_resume, tick) as attendance:
                for fd, read in (readers or {}).items():
                    attendance.loop.selector.register(fd, selectors.EVENT_READ, read)
                while not child.is_over and not done():
                    self._offer_input(attendance.loop.selector)
                    attendance.loop.turn()
            if not child.is_over:
                return None, child.elapsed()
            child.end()
            if child.failed:
                raise child.failed
            child.pipes.drain()
            self._lines.flush()
        except BaseException:
            self._end()
            raise
        self._end()
        return child.verdict(), child.elapsed()

    def sweep(self) -> int:
        """End what its tools left running; returns how many processes that were."""
        self._tree.tools_swept = None
        self._tree.wake()
        self._tree.wire.tell("sweep")
        self._hear_until(lambda: self._tree.tools_swept is not None, _SWEEP_PATIENCE)
        return self._tree.tools_swept or 0

    def close(self) -> None:
        """The end of its input asks it to leave; what is still there after a moment is ended."""
        if self._stdin < 0:
            return
        os.close(self._stdin)
        self._stdin = -1
        self._hear_until(lambda: False, _LEAVE_GRACE)
        self._tree.close()

    def _hear_until(self, enough: Callable[[], bool], seconds: float) -> None:
        """Listen to its guardian, between two sessions."""
        deadline = time.monotonic() + seconds
        while not enough() and not self._tree.is_over and (left := deadline - time.monotonic()) > 0:
            if select.select([self._tree.wire], [], [], left)[0]:
                self._tree.hear()

    def _offer_input(self, selector: selectors.BaseSelector) -> None:
        offered = self._stdin in selector.get_map()
        if self._unsent and not offered:
            selector.register(self._stdin, selectors.EVENT_WRITE, self._write)
        elif offered and not self._unsent:
            selector.unregister(self._stdin)

    def _write(self) -> None:
        try:
            del self._unsent[: os.write(self._stdin, self._unsent[: 1 << 16])]
        except BlockingIOError:
            pass
        except OSError:  # it reads no more; its end will be reported
            self._unsent.clear()

    def _end(self) -> None:
        self._deliver = _ignore_output
        os.close(self._stdin)
        self._stdin = -1
        self._tree.close()


@dataclass(frozen=True)
class Job:
    command: Command  # not one for the terminal
    timeout: float | None
    log: Path  # its stdout and stderr go there; the folder exists
    parallel: bool = False  # may run beside its neighbours that are parallel too


@dataclass(frozen=True)
class Done:
    exit: Exit | None  # None: it could not be started
    reason: str  # why it could not be started, or ""
    tail: str  # the end of what it said, on both streams
    log: Path


def run_all(
    jobs: Sequence[Job],
    *,
    signals: Signals,
    at_once: int,
    on_start: Callable[[int], None],
    on_done: Callable[[int, Done], None],
    stop: Callable[[], bool],
    on_tick: Callable[[], None],
    grace: float = 5.0,
) -> list[Done]:
    """Returns when all of them, and everything they started, are gone; the n-th result is the n-th job's.

    Jobs start in order. Neighbours that are `parallel` run beside each other, up to `at_once` of them; any other
    runs alone. on_start(n) comes before each try to start, on_done(n, …) also after one that failed.

    When `stop` says so the running ones are ended, no more are started, and the list is shorter: what was ended
    for that reason is not done, neither in the list nor for on_done. One of ENDING does the same and is raised as
    Interrupted. Ctrl+Z suspends us, not the commands, and no timeout counts that time. An exception from a
    callback, or a log that cannot be written, ends everything and is raised on.
    """
    if at_once < 1:
        raise ValueError(f"at_once is {at_once}: then nothing would ever start")
    running: dict[int, tuple[_Tree, Transcript]] = {}
    results: dict[int, Done] = {}
    waiting = list(range(len(jobs)))
    ended_by: list[int] = []  # signals
    stopped = False

    def still_running() -> list[_Tree]:
        return [child for child in loop.trees if child.status is None]

    def hear_signal(signum: int) -> None:
        if signum in ENDING:
            ended_by.append(signum)
            for child in still_running():
                child.stop_for(signum)
        elif signum == signal.SIGTSTP and not ended_by and not stopped:
            began = since_boot()
            suspend_self(job=False)
            for child in loop.trees:
                child.suspended += since_boot() - began

    def look_around() -> None:
        nonlocal stopped
        on_tick()
        if not stopped and not ended_by and stop():
            stopped = True
            for child in still_running():
                child.stop("stopped", grace)

    def may_start() -> bool:
        if ended_by or stopped or not waiting:
            return False
        together = [jobs[waiting[0]], *(jobs[number] for number in running)]
        return len(together) == 1 or (len(together) <= at_once and all(job.parallel for job in together))

    def begin(number: int) -> None:
        on_start(number)
        job = jobs[number]
        transcript = Transcript(job.log)
        try:
            child = _Tree(job.command, transcript.take)
        except OSError as error:
            transcript.close()
            report(number, _not_started(error, job))
            return
        running[number] = child, transcript
        child.begin(job.timeout, grace)
        loop.add(child)

    def finish(number: int) -> None:
        child, transcript = running.pop(number)
        loop.drop(child)
        with contextlib.closing(transcript), contextlib.closing(child):
            child.end()
            child.pipes.drain()
        ended = child.verdict()
        if child.failed:
            report(number, _not_started(child.failed, jobs[number]))
        elif ended.reason not in _CUT_SHORT:
            report(number, Done(ended, "", transcript.tail(), jobs[number].log))

    def report(number: int, done: Done) -> None:
        results[number] = done
        on_done(number, done)

    with _Loop(signals, hear_signal, look_around, _TICK) as loop:
        try:
            loop.turn()  # a signal may have come before
            while running or may_start():
                while may_start():
                    begin(waiting.pop(0))
                loop.turn()
                for number in [number for number, (child, _) in running.items() if child.is_over]:
                    finish(number)
        finally:
            for child in loop.trees:  # only an exception leaves any; all are told first, and end beside each other
                child.wire.close()
            for child, transcript in running.values():
                child.close()
                transcript.close()
    if ended_by:
        raise Interrupted(ended_by[0])
    return [results[number] for number in sorted(results)]


def _not_started(error: OSError, job: Job) -> Done:
    about = f"{error.filename}: " if error.filename else ""
    return Done(None, f"{about}{error.strerror or error}", "", job.log)


def _ignore_output(stream: str, line: bytes, complete: bool) -> None:
    pass


class _Tree:
    """One guarded tree, as the runner sees it."""

    def __init__(self, command: Command, take: Callable[[str, bytes], None]) -> None:
        guarded = fork_guardian(command)
        self.command = command
        self.guardian = guarded.guardian
        self.wire = guarded.wire
        self.pipes = Pipes(guarded.streams, take)
        self.on_report: Callable[[list[str]], None] = lambda words: None  # what concerns the person at the terminal
        self.agent = 0
        self.status: int | None = None  # of the agent, once it has ended
        self.failed: StartFailed | None = None
        self.tools_swept: int | None = None
        self.suspended = 0.0  # seconds that are not counted
        self.is_over = False
        self._mark = guarded.mark
        self._is_gone = False
        self._swept = 0
        self._reaped = False
        self._closed = False
        self.begin(None, 0.0)

    def begin(self, timeout: float | None, grace: float) -> None:
        """A session begins: its time is counted from here."""
        self.reason: Reason = "exited"
        self.suspended = 0.0
        self.grace = grace
        self._timeout = timeout
        self._began = since_boot()
        self._give_up_at = inf

    def elapsed(self) -> float:
        return since_boot() - self._began - self.suspended

    def verdict(self) -> Exit:
        # Without a guardian no one knows: the agent was killed, by the kernel or by us.
        status = -signal.SIGKILL if self.status is None else self.status
        code, signum = (status, None) if status >= 0 else (None, -status)
        return Exit(code, signum, self.reason, self._swept, self.elapsed())

    def hear(self) -> None:
        """What the guardian reports."""
        for words in self.wire.hear():
            match words:
                case []:
                    self.is_over = True
                case ["started", pid]:
                    self.agent = int(pid)
                    self.on_report(words)
                case ["failed", number, subject]:
                    self.is_over = self._is_gone = True
                    about = self.command.argv[0] if subject == "program" else str(self.command.cwd)
                    self.failed = StartFailed(int(number), os.strerror(int(number)), about)
                case ["exit", status]:
                    self.status = int(status)
                case ["swept", count]:
                    self.tools_swept = int(count)
                case ["gone" | "left" as outcome, count]:
                    self._swept = int(count)
                    self.is_over, self._is_gone = True, outcome == "gone"
                case _:
                    self.on_report(words)

    def may_be_stopped(self) -> bool:
        return self.reason == "exited" and self.status is None

    def stop_for(self, signum: int) -> None:
        """One of ENDING came to the runner."""
        if signum == signal.SIGINT:
            self.stop("interrupted", min(self.grace, _INTERRUPT_GRACE))
        else:
            self.stop(_BY_SIGNAL[signum], self.grace, signum)

    def stop(self, reason: Reason, grace: float, signum: int = signal.SIGTERM) -> None:
        if self.reason in _OURS:
            self.reason = reason
        self.wake()
        self.wire.tell("stop", int(signum), grace)
        self._give_up_at = min(self._give_up_at, since_boot() + grace + _GUARDIAN_LATE)

    def look_at_the_clock(self) -> None:
        if since_boot() >= self._give_up_at:
            os.kill(self.guardian, signal.SIGKILL)
        if self.may_be_stopped() and self._timeout is not None and self.elapsed() >= self._timeout:
            self.stop("timeout", self.grace)

    def wake(self) -> None:
        """An agent may stop its whole group, and the guardian with it; it is of no use asleep."""
        if not self._reaped:
            os.kill(self.guardian, signal.SIGCONT)

    def end(self) -> None:
        """Let go of the guardian, and end what it has left."""
        if self._reaped:
            return
        self._reaped = True
        self.wire.close()
        deadline = time.monotonic() + _GUARDIAN_PATIENCE
        while os.waitpid(self.guardian, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:  # someone has stopped it
                os.kill(self.guardian, signal.SIGKILL)
            time.sleep(0.001)
        if not self._is_gone:
            self._end_strays()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.end()
            self.pipes.close()

    def _end_strays(self) -> None:
        ended: set[psutil.Process] = set()
        deadline = time.monotonic() + _STRAYS_PATIENCE
        while (strays := tree.strays(self._mark, self.agent)) and time.monotonic() < deadline:
            ended.update(strays)
            tree.end(strays, 0.0)
        self._swept += len([stray for stray in ended if stray.pid != self.agent])


class _Loop:
    """The one select loop: on_signal for each signal, on_tick at least every `tick` seconds."""

    def __init__(
        self, signals: Signals, on_signal: Callable[[int], None], on_tick: Callable[[], None], tick: float
    ) -> None:
        self.selector = selectors.DefaultSelector()
        self.trees: list[_Tree] = []
        self.next_tick = 0.0
        self._signals = signals
        self._on_signal = on_signal
        self._on_tick = on_tick
        self._tick = tick
        self.selector.register(signals.fd, selectors.EVENT_READ, self._hear_signals)

    def __enter__(self) -> _Loop:
        return self

    def __exit__(self, *_: object) -> None:
        self.selector.close()

    def add(self, child: _Tree) -> None:
        self.trees.append(child)
        self.selector.register(child.wire, selectors.EVENT_READ, child.hear)
        child.pipes.register(self.selector)

    def drop(self, child: _Tree) -> None:
        self.trees.remove(child)
        self.selector.unregister(child.wire)
        child.pipes.unregister(self.selector)

    def turn(self) -> None:
        for key, _ in self.selector.select(max(0.0, self.next_tick - since_boot())):
            key.data()
        for child in self.trees:
            child.look_at_the_clock()
        if since_boot() >= self.next_tick:
            self.next_tick = since_boot() + self._tick
            for child in self.trees:
                child.wake()
            self._on_tick()

    def _hear_signals(self) -> None:
        for signum in self._signals.take():
            self._on_signal(signum)


class _Attendance:
    """One child and the person in front of it: Ctrl+C, Ctrl+Z, and the terminal if the agent has it."""

    def __init__(
        self,
        child: _Tree,
        terminal: Terminal | None,
        signals: Signals,
        on_tick: Callable[[], bool],
        on_interrupt: Callable[[], None],
        on_resume: Callable[[], None],
        tick: float,
    ) -> None:
        self.loop = _Loop(signals, self._hear_signal, self._look_around, tick)
        self._child = child
        self._terminal = terminal
        self._signals = signals
        self._on_tick = on_tick
        self._on_interrupt = on_interrupt
        self._on_resume = on_resume
        self._last_interrupt = -inf

    def __enter__(self) -> _Attendance:
        self._child.on_report = self._hear_guardian
        self.loop.add(self._child)
        return self

    def __exit__(self, *_: object) -> None:
        self._child.on_report = lambda words: None
        self.loop.selector.close()

    def _look_around(self) -> None:
        self._continued()
        child = self._child
        if child.agent and self._on_tick() and child.may_be_stopped():
            child.stop("stopped", child.grace)

    def _hear_guardian(self, words: list[str]) -> None:
        match words:
            case ["started", _]:
                self.loop.next_tick = 0.0
                if self._terminal:
                    self._terminal.used = True
            case ["interrupt"]:
                self._interrupt()
            case ["suspended", signum]:
                self._suspend(int(signum))

    def _hear_signal(self, signum: int) -> None:
        if signum == signal.SIGINT:
            self._interrupt()
        elif signum in _BY_SIGNAL:
            self._child.stop_for(signum)
        elif signum == signal.SIGTSTP:
            self._child.wire.tell("suspend")
        elif signum == signal.SIGCONT:
            self._continued()

    def _interrupt(self) -> None:
        now = since_boot()
        if now - self._last_interrupt <= _AGAIN_WITHIN:
            self._child.stop_for(signal.SIGINT)
        else:
            self._on_interrupt()
        self._last_interrupt = now

    # Suspension

    def _suspend(self, signum: int) -> None:
        """The tree stands still: let the shell have the terminal until it continues us."""
        if signum in (signal.SIGTTIN, signal.SIGTTOU) and self._agent_may_have_it():
            self._hand_over()
            return
        began = since_boot()
        if self._terminal:
            self._terminal.take_back(remember=True)
            suspend_self(job=True)
            if self._signals.pending(*ENDING):
                return  # `kill %1` from the shell: the terminal is the shell's, and the tree is about to end
            self._terminal.wait_for_foreground()
        else:
            suspend_self(job=False)
        self._child.suspended += since_boot() - began
        self._on_resume()
        self._hand_over()

    def _continued(self) -> None:
        """Stopped without being asked: the shell then gave the terminal to us, not to the agent.

        Looked at with every tick as well: the shell may hand it over only after its signal has been heard.
        """
        if self._child.agent and self._terminal and self._terminal.lent and self._terminal.belongs_to(os.getpgrp()):
            self._hand_over()

    def _agent_may_have_it(self) -> bool:
        return self._terminal is not None and self._terminal.belongs_to(os.getpgrp(), self._group())

    def _group(self) -> int:
        """The agent's: it is born into the guardian's, but may have left it, as shells do."""
        agent, guardian = self._child.agent, self._child.guardian
        try:
            return agent if os.getpgid(agent) == agent else guardian
        except OSError:
            return guardian

    def _hand_over(self) -> None:
        if self._terminal:
            self._terminal.give(self._group())
        self._child.wire.tell("resume")
