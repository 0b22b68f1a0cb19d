"""A child that serves several sessions: watched during each, left alone in between, fed through its stdin."""

from __future__ import annotations

import contextlib
import os
import selectors
from collections.abc import Callable, Mapping
from dataclasses import replace

from marathon.process.adopted import Adopted
from marathon.process.command import Command, Exit
from marathon.process.launch import launch
from marathon.process.output import Output
from marathon.process.signals import Signals
from marathon.process.watch import Callbacks, Watch

_SWEEP_PATIENCE = 4.0
_LEAVE_GRACE = 3.0


class Kept:
    """Started at once; StartFailed comes with the first attend. Whoever makes one closes it."""

    def __init__(self, command: Command) -> None:
        theirs, self._stdin = os.pipe2(os.O_CLOEXEC)
        try:
            os.set_blocking(self._stdin, False)
            self._command = replace(command, stdin=theirs)
            self._adopted = Adopted()
            self._launched = launch(self._command, None)
        except BaseException:
            os.close(self._stdin)
            raise
        finally:
            os.close(theirs)
        self._deliver: Callable[[str, bytes, bool], None] = lambda stream, line, complete: None
        self._output = Output(self._launched.streams, lambda *piece: self._deliver(*piece))
        self._unsent = bytearray()
        self._unheard: list[list[str]] = []  # reports that came while nobody attended
        self._agent = 0
        self._status: int | None = None
        self._closed = False

    def send(self, data: bytes) -> None:
        """Queue bytes for its stdin; they go out while it is attended."""
        self._unsent += data

    def attend(
        self,
        *,
        signals: Signals,
        done: Callable[[], bool],
        on_output: Callable[[str, bytes, bool], None],
        on_tick: Callable[[], bool],
        on_interrupt: Callable[[], None],
        on_resume: Callable[[], None],
        timeout: float | None,
        readers: Mapping[int, Callable[[], None]] | None = None,
        grace: float = 5.0,
        tick: float = 0.25,
    ) -> tuple[Exit | None, float]:
        """Until `done`, or until it is gone: then its Exit comes too. Also the seconds this took."""
        callbacks = Callbacks(on_tick, on_interrupt, on_resume)
        watch = Watch(self._command, self._launched, None, signals, callbacks, timeout, grace, tick)
        watch.agent, watch.status = self._agent, self._status
        self._deliver = on_output

        def arrange(selector: selectors.BaseSelector) -> None:
            for fd, read in (readers or {}).items():
                if fd not in selector.get_map():
                    selector.register(fd, selectors.EVENT_READ, read)
            wants_to_write = self._stdin in selector.get_map()
            if self._unsent and not wants_to_write:
                selector.register(self._stdin, selectors.EVENT_WRITE, self._write)
            elif wants_to_write and not self._unsent:
                selector.unregister(self._stdin)

        try:
            while self._unheard:
                watch.hear(self._unheard.pop(0))
            watch.until_the_tree_is_gone(self._output, done, arrange)
        except BaseException:
            self._deliver = lambda stream, line, complete: None
            self._end(tree_is_gone=watch.tree_is_gone)
            raise
        self._agent, self._status = watch.agent, watch.status
        if not watch.tree_is_gone and not watch.lost:
            return None, watch.elapsed()
        self._end(tree_is_gone=watch.tree_is_gone)
        return watch.verdict(self._adopted), watch.elapsed()

    def sweep(self) -> int:
        """End what its tools left running; returns how many processes that were."""
        control = self._launched.control
        try:
            control.settimeout(_SWEEP_PATIENCE)
            control.send(b"sweep")
            while words := control.recv(4096).decode().split():
                if words[0] == "swept":
                    return int(words[1])
                self._unheard.append(words)  # it has just started, or ended: the next attend hears of it
        except OSError:  # it takes too long, or the guardian is gone
            pass
        finally:
            control.settimeout(None)
        return 0

    def close(self) -> None:
        """The end of its input asks it to leave; what is still there after a moment is ended."""
        if self._closed:
            return
        os.close(self._stdin)
        self._stdin = -1
        control = self._launched.control
        with contextlib.suppress(OSError):
            control.settimeout(_LEAVE_GRACE)
            while (words := control.recv(4096).split()) and not {b"gone", b"left"} & set(words):
                pass
        self._end(tree_is_gone=False)

    def _write(self) -> None:
        try:
            del self._unsent[: os.write(self._stdin, self._unsent[: 1 << 16])]
        except BlockingIOError:
            pass
        except OSError:  # it reads no more; its end will be reported
            self._unsent.clear()

    def _end(self, *, tree_is_gone: bool) -> None:
        if self._closed:
            return
        self._closed = True
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1
        self._launched.control.close()
        self._adopted.dismiss(self._launched.guardian)
        if not tree_is_gone:
            self._adopted.end_all()
        self._output.drain()
        for fd in self._launched.streams.values():
            os.close(fd)
