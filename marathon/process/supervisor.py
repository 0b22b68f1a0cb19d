"""Runs children: one (`run`), many beside each other (`run_all`), or one that lives on (`Resident`).

All three use the same select loop over the guardians' reports, the children's output, the runner's signals and the
clock. Whichever way a child is left, nothing of its tree is left with it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from marathon.process import tree
from marathon.process.guarded import Guarded
from marathon.process.output import Lines, Transcript
from marathon.process.sandbox import wall_of
from marathon.process.signals import ENDING, Interrupted, Signals
from marathon.process.start import Command, Exit, Reason, StartFailed
from marathon.process.terminal import Terminal, suspend_self

_TICK = 0.25
_AGAIN_WITHIN = 2.0  # the second Ctrl+C
_SWEEP_PATIENCE = 4.0
_LEAVE_GRACE = 3.0
_CUT_SHORT: tuple[Reason, ...] = ("stopped", "interrupted", "terminated", "hungup")

OnOutput = Callable[[str, bytes, bool], None]
Files = Mapping[int, Callable[[], None]]


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
    on_clock: Callable[[float], None] = lambda seconds: None,
    readers: Files | None = None,
) -> Exit:
    """Returns when the agent and its whole tree are gone.

    on_output(stream, line, complete): stream is "out" or "err", the line comes without its newline, and an
    overlong one in pieces of which the last is complete. on_tick is called at least every `tick` seconds;
    True asks to stop the child now. Before it, on_clock gets the seconds so far, without suspended time. `readers` are
    watched beside the child. An exception from a callback ends the tree and is raised on.
    """
    with contextlib.ExitStack() as cleanup:
        terminal = Terminal() if command.terminal else None
        if terminal:
            cleanup.callback(terminal.close)
            terminal.wait_for_foreground()
            terminal.lent = True
            cleanup.callback(terminal.take_back, drop=command.session)
        lines = Lines(on_output)
        child = cleanup.enter_context(contextlib.closing(Guarded(command, lines.take, timeout, grace)))
        attendance = _Attendance(child, terminal, signals, on_tick, on_interrupt, on_resume, tick, on_clock)
        attendance.until(lambda: False, readers or {}, dict)
        ended = child.finish()
        lines.flush()
        return ended


class Resident:
    """A child that serves several sessions: watched during each, left alone in between, fed through its stdin.

    It is started at once; StartFailed comes with the first attend. The owner closes it.
    """

    _on_output: OnOutput  # of the session that attends it

    def __init__(self, command: Command) -> None:
        self.wall = wall_of(command.env)
        self._lines = Lines(lambda *piece: self._on_output(*piece))
        self._unsent = bytearray()
        self._closed = False
        theirs, self._stdin = os.pipe()
        try:
            os.set_blocking(self._stdin, False)
            self._child = Guarded(replace(command, stdin=theirs), self._lines.take, None, 0.0)
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
        readers: Files | None = None,
        grace: float = 5.0,
        tick: float = _TICK,
        on_clock: Callable[[float], None] = lambda seconds: None,
        ask: Callable[[], bool] | None = None,
    ) -> tuple[Exit | None, float]:
        """Until `done`, or until it is gone: then its Exit comes too. Also the seconds this took.

        Before it is ended for whatever reason, `ask` asks it to stop, and it gets a moment to tell what it used.
        """
        child = self._child
        child.begin(timeout, grace, ask)
        self._on_output = on_output
        attendance = _Attendance(child, None, signals, on_tick, on_interrupt, on_resume, tick, on_clock)
        with contextlib.ExitStack() as at_its_end:
            at_its_end.callback(self.close)
            attendance.until(
                lambda: child.is_settled(done),
                readers or {},
                lambda: {self._stdin: self._write} if self._unsent else {},
            )
            if not child.is_over:
                at_its_end.pop_all()
                return None, child.elapsed()
            ended = child.finish()
            self._lines.flush()
        return ended, ended.seconds

    def is_alive(self) -> bool:
        """Asked of the process itself: its guardian may not have told its end yet."""
        process = tree.look(self._child.agent)
        return process is not None and tree.is_alive(process)

    def sweep(self) -> int:
        """End what its tools left running; returns how many processes that were."""
        self._child.tools_swept = None
        self._child.wake()
        self._child.wire.tell("sweep")
        self._hear_until(lambda: self._child.tools_swept is not None, _SWEEP_PATIENCE)
        return self._child.tools_swept or 0

    def not_counted(self, seconds: float) -> None:
        """A human was waited for, which is no time of the session."""
        self._child.suspended += seconds

    def end_input(self) -> None:
        """The end of its input asks it to leave. What was not sent yet is dropped."""
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1
            self._unsent.clear()

    def close(self) -> None:
        """Asks it to leave; what is still there after a moment is ended."""
        if not self._closed:
            self._closed = True
            self.end_input()
            self._hear_until(lambda: False, _LEAVE_GRACE)
            self._child.close()

    def _hear_until(self, enough: Callable[[], bool], seconds: float) -> None:
        """Listen to its guardian, between two sessions."""
        deadline = time.monotonic() + seconds
        while not enough() and not self._child.is_over and (left := deadline - time.monotonic()) > 0:
            if select.select([self._child.wire], [], [], left)[0]:
                self._child.hear()

    def _write(self) -> None:
        try:
            del self._unsent[: os.write(self._stdin, self._unsent[: 1 << 16])]
        except BlockingIOError:
            pass
        except OSError:  # it reads no more; its end will be reported
            self._unsent.clear()


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
    waiting = list(range(len(jobs)))
    running: dict[int, tuple[Guarded, Transcript]] = {}
    results: dict[int, Done] = {}
    endings: list[int] = []  # why no more are started: signals, or 0 for `stop`

    def end_all(why: int, end: Callable[[Guarded], None]) -> None:
        endings.append(why)
        for child in loop.trees:
            if child.status is None:
                end(child)

    def hear_signal(signum: int) -> None:
        if signum in ENDING:
            end_all(signum, lambda child: child.stop_for(signum))
        elif signum == signal.SIGTSTP and not endings:
            began = time.monotonic()
            suspend_self(job=False)
            for child in loop.trees:
                child.suspended += time.monotonic() - began

    def look_around() -> None:
        on_tick()
        if not endings and stop():
            end_all(0, lambda child: child.stop("stopped", grace))

    def may_start() -> bool:
        if endings or not waiting:
            return False
        together = [jobs[number] for number in (waiting[0], *running)]
        return len(together) == 1 or (len(together) <= at_once and all(job.parallel for job in together))

    def begin(number: int) -> None:
        on_start(number)
        job = jobs[number]
        transcript = Transcript(job.log)
        try:
            child = Guarded(replace(job.command, joined=True), transcript.take, job.timeout, grace)
        except OSError as error:
            transcript.close()
            report(number, _not_started(error, job))
        else:
            running[number] = child, transcript
            loop.trees.append(child)

    def finish(number: int) -> None:
        child, transcript = running.pop(number)
        loop.trees.remove(child)
        job = jobs[number]
        with contextlib.closing(transcript), contextlib.closing(child):
            try:
                ended = child.finish()
            except StartFailed as error:
                report(number, _not_started(error, job))
                return
        if ended.reason not in _CUT_SHORT:
            report(number, Done(ended, "", transcript.tail(), job.log))

    def report(number: int, done: Done) -> None:
        results[number] = done
        on_done(number, done)

    loop = _Loop(signals, hear_signal, look_around, _TICK)
    try:
        loop.turn({}, {})  # a signal may have come before
        while running or may_start():
            while may_start():
                begin(waiting.pop(0))
            loop.turn({}, {})
            for number in [number for number, (child, _) in running.items() if child.is_over]:
                finish(number)
    finally:  # only an exception leaves any running; all are told first, and end beside each other
        for child, _ in running.values():
            child.wire.close()
        for child, transcript in running.values():
            child.close()
            transcript.close()
    if signum := next(filter(None, endings), 0):
        raise Interrupted(signum)
    return [results[number] for number in sorted(results)]


def _not_started(error: OSError, job: Job) -> Done:
    about = f"{error.filename}: " if error.filename else ""
    return Done(None, f"{about}{error.strerror or error}", "", job.log)


@dataclass
class _Loop:
    """The one select loop: on_signal for each signal, on_tick at least every `tick` seconds."""

    signals: Signals
    on_signal: Callable[[int], None]
    on_tick: Callable[[], None]
    tick: float
    trees: list[Guarded] = field(default_factory=list)
    _next_tick: float = 0.0

    def turn(self, readers: Files, writers: Files) -> None:
        files = {self.signals.fd: self._hear_signals, **readers}
        for child in self.trees:
            files |= {child.wire.fileno(): child.hear, **child.pipes.files()}
        readable, writable, _ = select.select(files, writers, [], max(0.0, self._next_tick - time.monotonic()))
        for act in [files[fd] for fd in readable] + [writers[fd] for fd in writable]:
            act()
        for child in self.trees:
            child.look_at_the_clock()
        if time.monotonic() >= self._next_tick:
            self._next_tick = time.monotonic() + self.tick
            for child in self.trees:
                child.wake()
            self.on_tick()

    def _hear_signals(self) -> None:
        for signum in self.signals.take():
            self.on_signal(signum)


@dataclass
class _Attendance:
    """One child and the person in front of it: Ctrl+C, Ctrl+Z, and the terminal if the agent has it."""

    child: Guarded
    terminal: Terminal | None
    signals: Signals
    on_tick: Callable[[], bool]
    on_interrupt: Callable[[], None]
    on_resume: Callable[[], None]
    tick: float
    on_clock: Callable[[float], None]
    _last_interrupt: float = -inf

    def until(self, done: Callable[[], bool], readers: Files, writers: Callable[[], Files]) -> None:
        """Returns when the child is over as well. The further files are watched beside it."""
        loop = _Loop(self.signals, self._hear_signal, self._look_around, self.tick, [self.child])
        self.child.on_report = self._hear_guardian
        while not self.child.is_over and not done():
            loop.turn(readers, writers())

    def _look_around(self) -> None:
        self._continued()
        self.on_clock(self.child.elapsed())
        if self.child.agent and self.on_tick() and self.child.may_be_stopped():
            self.child.stop("stopped", self.child.grace)

    def _hear_guardian(self, words: list[str]) -> None:
        match words:
            case ["started", _]:
                if self.terminal:
                    self.terminal.used = True
                self._look_around()
            case ["interrupt"]:
                self._interrupt()
            case ["suspended", signum]:
                self._suspend(int(signum))

    def _hear_signal(self, signum: int) -> None:
        if signum == signal.SIGINT:
            self._interrupt()
        elif signum in ENDING:
            self.child.stop_for(signum)
        elif signum == signal.SIGTSTP:
            self.child.wire.tell("suspend")
        elif signum == signal.SIGCONT:
            self._continued()

    def _interrupt(self) -> None:
        now = time.monotonic()
        if now - self._last_interrupt <= _AGAIN_WITHIN:
            self.child.stop_for(signal.SIGINT)
        else:
            self.on_interrupt()
        self._last_interrupt = now

    def _suspend(self, signum: int) -> None:
        """The tree stands still: let the shell have the terminal until it continues us."""
        wants_terminal = signum in (signal.SIGTTIN, signal.SIGTTOU)
        groups = os.getpgrp(), os.getpgid(self.child.guardian)
        if wants_terminal and self.terminal and self.terminal.belongs_to(*groups):
            self._hand_over()
            return
        began = time.monotonic()
        if self.terminal:
            self.terminal.take_back(remember=True)
            suspend_self(job=True)
            if self.signals.pending(*ENDING):
                return  # `kill %1` from the shell: the terminal is the shell's, and the tree is about to end
            self.terminal.wait_for_foreground()
        else:
            suspend_self(job=False)
        self.child.suspended += time.monotonic() - began
        self.on_resume()
        self._hand_over()

    def _continued(self) -> None:
        """Stopped without being asked: the shell then gave the terminal to us, not to the agent.

        Looked at with every tick as well: the shell may hand it over only after its signal has been heard.
        """
        if self.child.agent and self.terminal and self.terminal.lent and self.terminal.belongs_to(os.getpgrp()):
            self._hand_over()

    def _hand_over(self) -> None:
        if self.terminal:
            self.terminal.give(os.getpgid(self.child.guardian))  # which is always in the agent's group
        self.child.wire.tell("resume")
