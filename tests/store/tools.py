"""What the tests of this room share: another umask, a disk that is full, the order of calls, and other processes."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import stat
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

_WATCHED = {os.write, os.fsync, os.rename, os.link, os.unlink, os.ftruncate, os.close}


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextlib.contextmanager
def full_after(size: int) -> Iterator[None]:
    """No file can grow beyond so many bytes: what still fits is written, and then the system refuses."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def calls_of(act: Callable[[], object]) -> list[str]:
    """The calls to the system that matter for what survives a power cut, in their order."""
    seen: list[str] = []

    def watch(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called in _WATCHED:
            seen.append(called.__name__)

    sys.setprofile(watch)
    try:
        act()
    finally:
        sys.setprofile(None)
    return seen


class Other:
    """A process of its own that runs one function; ended with the `with` block at the latest."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                act()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        self._code: int | None = None

    def __enter__(self) -> Other:
        return self

    def __exit__(self, *_: object) -> None:
        if self._code is None:
            self.kill()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Its exit code; minus the signal's number if one ended it."""
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code


def all_at_once(count: int, act: Callable[[int], object]) -> None:
    """So many processes, each with its number; all of them must come to a good end."""
    ready, go = os.pipe()

    def one(number: int) -> None:
        os.close(go)
        os.read(ready, 1)
        act(number)

    others = [Other(lambda number=number: one(number)) for number in range(count)]  # type: ignore[misc]
    os.close(ready)
    os.close(go)
    assert [other.wait() for other in others] == [0] * count
