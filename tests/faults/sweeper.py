"""Carries out command lines of pi-marathon in forked children, which may be told to die before their n-th change.

Reads one JSON request a line, {"start": {args, cwd, env, out, err, kill_at, of}} or {"poll": pid}; answers each by one.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import sys
import traceback
from types import FrameType
from typing import Any, NoReturn

import marathon.__main__
import marathon.cli.run  # so that a child need not import it again
from marathon.cli.main import main

# Calls that change a file but raise no audit event.
_CALLS = {os.write, os.fsync, os.fdatasync}
_EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Countdown:
    """SIGKILL for this very process, and no fork of it, before its n-th change (of one kind); 0 only counts."""

    def __init__(self, kill_at: int, of: str) -> None:
        self._kill_at, self._of = kill_at, of
        self._pid = os.getpid()
        self.changes: list[str] = []

    def watch(self) -> None:
        os.register_at_fork(after_in_child=lambda: sys.setprofile(None))
        sys.addaudithook(self._heard)
        sys.setprofile(self._called)

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        opened_to_write = event == "open" and isinstance(args[2], int) and args[2] & _WRITING
        if (opened_to_write or event in _EVENTS) and os.getpid() == self._pid:
            self._count(f"{event} {args[0]}")

    def _called(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call" and arg in _CALLS:
            self._count(f"{arg.__name__} in {frame.f_code.co_name}")

    def _count(self, change: str) -> None:
        if not re.search(self._of, change):
            return
        self.changes.append(change)
        if len(self.changes) == self._kill_at:
            os.kill(self._pid, signal.SIGKILL)


def carry_out(
    args: list[str], cwd: str, env: dict[str, str], out: str, err: str, kill_at: int | None, of: str
) -> NoReturn:
    """With `kill_at` None nothing is counted."""
    code = 70
    try:
        os.environ.clear()
        os.environ.update(env)
        os.chdir(cwd)
        sys.argv = [marathon.__main__.__file__, *args]
        sys.orig_argv = [sys.executable, "-P", "-m", "marathon", *args]
        for fd, path in ((0, os.devnull), (1, out), (2, err)):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), fd)
        countdown = Countdown(kill_at or 0, of)
        try:
            if kill_at is not None:
                countdown.watch()
            main(args)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        sys.setprofile(None)
        sys.stdout.flush()
        sys.stderr.flush()
        if kill_at is not None:
            pathlib.Path(out + ".changes").write_text("\n".join(countdown.changes))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def start(request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid == 0:
        carry_out(**request)
    return pid


def poll(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


if __name__ == "__main__":
    assert marathon.cli.run
    for line in sys.stdin:
        request = json.loads(line)
        answer = start(request["start"]) if "start" in request else poll(request["poll"])
        print(json.dumps(answer), flush=True)
