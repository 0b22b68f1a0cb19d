"""Hands the code of an open gate from its runner to who answers from elsewhere: attach, the page, pi's dialog.

The code lies in no file. A socket in the task's home gives it to a process of this user that works in no session.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from marathon.process import linux, tree
from marathon.process.terminal import blocked
from marathon.store.lock import holder_of

_NAME = "gate"
_PATIENCE = 1.0  # with a peer that says nothing
_MOST = 200
_COMING = 1.0  # a runner that has just opened its gate
_LOOK_AGAIN = 0.02


class CodeSocket:
    """Answers inside `with`. A thread does it, because a human may be in an editor; it ends before anything forks."""

    def __init__(self, folder: Path, token: str, code: str) -> None:
        self._folder, self._token, self._code = folder, token, code
        self._thread: threading.Thread | None = None

    def __enter__(self) -> CodeSocket:
        # Where there are no such sockets, the code has to be typed.
        with contextlib.suppress(OSError), contextlib.ExitStack() as undone:
            listening = undone.enter_context(socket.socket(socket.AF_UNIX))
            with _reached(self._folder) as path:
                with contextlib.suppress(FileNotFoundError):  # of a runner that was killed
                    os.unlink(path)
                listening.bind(path)
                os.chmod(path, 0o600)
            listening.listen()
            self._enough, ends = os.pipe()
            self._thread = threading.Thread(target=self._serve, args=(listening, ends), daemon=True)
            with blocked(*signal.valid_signals()):  # they are for the main thread
                self._thread.start()
            undone.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread:
            os.close(self._enough)
            self._thread.join()
            self._thread = None
            with contextlib.suppress(OSError), _reached(self._folder) as path:
                os.unlink(path)

    def around(self, fork: Callable[[], None]) -> Callable[[], None]:
        """The same act, with nothing of us under way while it forks. It goes on in the fork."""

        def act() -> None:
            self.__exit__()
            fork()
            self.__enter__()

        return act

    def _serve(self, listening: socket.socket, ends: int) -> None:
        with listening:
            while ends not in select.select([listening.fileno(), ends], [], [])[0]:
                with contextlib.suppress(OSError):
                    self._answer(listening.accept()[0])
        os.close(ends)

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(_PATIENCE)
            if tree.in_a_session(linux.peer_of(connection)):
                return
            if connection.recv(_MOST).decode("ascii", "replace").strip() == self._token:
                connection.sendall(self._code.encode())


def handed_over(folder: Path, token: str) -> str | None:
    """The code, from the living runner of the task with this home. None if it has none for us."""
    deadline = time.monotonic() + _COMING
    while (code := _asked(folder, token)) is None and holder_of(folder / "lock") and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN)  # the gate is in the journal a moment before it is asked
    return code or None


def _asked(folder: Path, token: str) -> str | None:
    """Empty if the runner gives none; None if no one answers."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection, _reached(folder) as path:
        connection.settimeout(2 * _PATIENCE)
        connection.connect(path)
        connection.sendall(f"{token}\n".encode())
        return connection.recv(_MOST).decode("ascii", "replace")
    return None


@contextlib.contextmanager
def _reached(folder: Path) -> Iterator[str]:
    """A path for an address, which holds about 100 bytes; the path of a home may be longer."""
    if not os.path.isdir("/proc/self/fd"):
        yield str(folder / _NAME)
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{fd}/{_NAME}"
    finally:
        os.close(fd)
