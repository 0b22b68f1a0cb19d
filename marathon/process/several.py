"""Run several commands beside each other, each in a tree of its own, and keep what they say in a file each."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from marathon.process import tree
from marathon.process.adopted import Adopted
from marathon.process.clock import since_boot
from marathon.process.command import Command, Exit, Reason
from marathon.process.launch import Launched, launch
from marathon.process.output import Pipes, Transcript
from marathon.process.signals import ENDING, Interrupted, Signals
from marathon.process.terminal import suspend_self
from marathon.process.watch import Callbacks, Watch

_TICK = 0.25
_CUT_SHORT: tuple[Reason, ...] = ("stopped", "interrupted", "terminated", "hungup")
_NOTHING_TO_SAY = Callbacks(tick=lambda: False, interrupt=lambda: None, resume=lambda: None)


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
    return _Round(jobs, signals, at_once, on_start, on_done, stop, on_tick, grace).run()


class _Strays(Adopted):
    """What dead guardians left to us; the living ones are no strays."""

    def spare(self, guardian: int) -> None:
        if known := tree.identity(guardian):
            self._before.add(known)

    def forget(self, *, all_but: set[int]) -> None:
        """Pids are used again: keep only what somebody will still ask for."""
        self.ended.clear()
        self.statuses = {pid: status for pid, status in self.statuses.items() if pid in all_but}


@dataclass(frozen=True, eq=False)
class _Running:
    number: int
    job: Job
    launched: Launched
    watch: Watch
    pipes: Pipes
    transcript: Transcript
    files: contextlib.ExitStack  # closes its pipes and its log


@dataclass
class _Round:
    jobs: Sequence[Job]
    signals: Signals
    at_once: int
    on_start: Callable[[int], None]
    on_done: Callable[[int, Done], None]
    stop: Callable[[], bool]
    on_tick: Callable[[], None]
    grace: float

    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _strays: _Strays = field(default_factory=_Strays)
    _running: list[_Running] = field(default_factory=list)
    _done: dict[int, Done] = field(default_factory=dict)
    _started: int = 0
    _stopping: bool = False
    _signum: int | None = None
    _next_tick: float = 0.0

    def run(self) -> list[Done]:
        with self._selector:
            self._selector.register(self.signals.fd, selectors.EVENT_READ, self._hear_signals)
            try:
                self._hear_signals()
                while self._any_runs():
                    for key, _ in self._selector.select(max(0.0, self._next_tick - since_boot())):
                        key.data()
                    for each in self._running:
                        each.watch.look_at_the_clock()
                    for each in [each for each in self._running if each.watch.over]:
                        self._finish(each)
            finally:
                self._end_the_rest()
        if self._signum is not None:
            raise Interrupted(self._signum)
        return [self._done[number] for number in sorted(self._done)]

    # Starting

    def _any_runs(self) -> bool:
        """After starting what may start now; False when all is done."""
        self._tick()
        while self._may_start():
            self._start(self._started)
        return bool(self._running)

    def _may_start(self) -> bool:
        if self._stopping or self._started == len(self.jobs):
            return False
        together = [self.jobs[self._started], *(each.job for each in self._running)]
        return len(together) == 1 or (len(together) <= self.at_once and all(job.parallel for job in together))

    def _start(self, number: int) -> None:
        job = self.jobs[number]
        self._started += 1
        self.on_start(number)
        with contextlib.ExitStack() as files:
            transcript = Transcript(job.log)
            files.callback(transcript.close)
            try:
                launched = launch(job.command, None)
            except OSError as error:
                self._report(number, _not_started(error, job))
                return
            for fd in launched.streams.values():
                files.callback(os.close, fd)
            pipes = Pipes(launched.streams, transcript.take)
            watch = Watch(job.command, launched, None, self.signals, _NOTHING_TO_SAY, job.timeout, self.grace, _TICK)
            self._running.append(_Running(number, job, launched, watch, pipes, transcript, files.pop_all()))
        self._strays.spare(launched.guardian)
        watch.register(self._selector, pipes)

    # While they run

    def _tick(self) -> None:
        if since_boot() < self._next_tick:
            return
        self._next_tick = since_boot() + _TICK
        self.on_tick()
        if not self._stopping and self.stop():
            self._end_those_that_run(lambda watch: watch.stop("stopped", self.grace))

    def _hear_signals(self) -> None:
        for signum in self.signals.take():
            if signum in ENDING:
                self._signum = self._signum or signum
                self._end_those_that_run(partial(Watch.stop_for, signum=signum))
            elif signum == signal.SIGTSTP and not self._stopping:
                self._step_aside()

    def _end_those_that_run(self, end: Callable[[Watch], None]) -> None:
        self._stopping = True
        for each in self._running:
            if each.watch.status is None:
                end(each.watch)

    def _step_aside(self) -> None:
        began = since_boot()
        suspend_self(job=False)
        for each in self._running:
            each.watch.suspended += since_boot() - began

    # Ending

    def _finish(self, each: _Running) -> None:
        self._running.remove(each)
        with each.files:
            self._forget(each.launched)
            each.launched.control.close()
            self._strays.dismiss(each.launched.guardian)
            if not each.watch.tree_is_gone:
                self._strays.end_all()
            each.pipes.drain()
        done = self._verdict(each)
        if done.exit is None or done.exit.reason not in _CUT_SHORT:
            self._report(each.number, done)

    def _forget(self, launched: Launched) -> None:
        for fd in (launched.control.fileno(), *launched.streams.values()):
            if fd in self._selector.get_map():
                self._selector.unregister(fd)

    def _verdict(self, each: _Running) -> Done:
        if each.watch.failed:
            return _not_started(each.watch.failed, each.job)
        ended = each.watch.verdict(self._strays)
        self._strays.forget(all_but={other.watch.agent for other in self._running})
        return Done(ended, "", each.transcript.tail(), each.job.log)

    def _report(self, number: int, done: Done) -> None:
        self._done[number] = done
        self.on_done(number, done)

    def _end_the_rest(self) -> None:
        """Only an exception leaves any. All are told first, so that they end beside each other."""
        for each in self._running:
            each.launched.control.close()
        for each in self._running:
            with each.files:
                self._strays.dismiss(each.launched.guardian)
        if not all(each.watch.tree_is_gone for each in self._running):
            self._strays.end_all()


def _not_started(error: OSError, job: Job) -> Done:
    about = f"{error.filename}: " if error.filename else ""
    return Done(None, f"{about}{error.strerror or error}", "", job.log)
