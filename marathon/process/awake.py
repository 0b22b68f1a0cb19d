"""Keeps the machine from falling asleep because no one types. The lid and the suspend key do what they always do."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator

_PATIENCE = 1.0
# Each ends when our side of its stdin closes, however we end.
_WAYS = {
    "systemd-inhibit": ("--what=idle", "--mode=block", "--who=pi-marathon", "--why=an agent works", "cat"),
    "caffeinate": ("-i", "cat"),
}


@contextlib.contextmanager
def awake(wanted: bool) -> Iterator[None]:
    """Where nothing here can do it, the machine sleeps as it likes."""
    path, words = next(((path, words) for name, words in _WAYS.items() if (path := shutil.which(name))), ("", ()))
    child = _start(path, words) if wanted and path else None
    try:
        yield
    finally:
        if child and child.stdin:
            child.stdin.close()
            try:
                child.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _start(path: str, words: tuple[str, ...]) -> subprocess.Popen[bytes] | None:
    quiet = subprocess.DEVNULL
    with contextlib.suppress(OSError):
        # A session of its own: no Ctrl+C reaches it, and it has no terminal to ask for a password.
        return subprocess.Popen(
            [path, *words], stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
        )
    return None
