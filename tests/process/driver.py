"""What the tests of this room share: polling, run() in this process, and programs on a pty."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from marathon.process import tree
from marathon.process.signals import Signals
from marathon.process.start import Command, Exit
from marathon.process.supervisor import run

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30.0


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)
    return result


def alive(pid: int) -> bool:
    process = tree.look(pid)
    return process is not None and tree.is_alive(process)


def children() -> set[psutil.Process]:
    return set(psutil.Process().children())


def marked(mark: str) -> list[psutil.Process]:
    return tree.find_by_environ("MARATHON_TEST_MARK", mark)


@dataclass
class Ran:
    exit: Exit
    lines: list[tuple[str, bytes, bool]]

    def text(self, stream: str = "out") -> bytes:
        return b"\n".join(line for name, line, _ in self.lines if name == stream)


@dataclass
class Session:
    """run() in this process, with callbacks that collect; `mark` is in the environment of the whole tree."""

    cwd: Path
    mark: str = field(default_factory=lambda: f"{os.getpid()}-{time.monotonic_ns()}")
    on_line: Callable[[bytes], None] = lambda line: None
    on_tick: Callable[[], bool] = lambda: False
    keep: bool = True
    env: dict[str, str] = field(default_factory=dict)

    def sh(self, script: str, **options: Any) -> Ran:
        return self.run("sh", "-c", script, **options)

    def py(self, script: str, **options: Any) -> Ran:
        return self.run(sys.executable, "-c", script, **options)

    def run(self, *argv: str, stdin: int | None = None, inherit: tuple[int, ...] = (), **options: Any) -> Ran:
        lines: list[tuple[str, bytes, bool]] = []

        def collect(stream: str, line: bytes, complete: bool) -> None:
            if self.keep:
                lines.append((stream, line, complete))
            self.on_line(line)

        env = {"PATH": os.environ["PATH"], "MARATHON_TEST_MARK": self.mark, **self.env}
        command = Command(argv, self.cwd, env, stdin=stdin, inherit=inherit)
        with Signals() as signals:
            ended = run(
                command,
                signals=signals,
                on_output=collect,
                on_tick=self.on_tick,
                on_interrupt=lambda: None,
                on_resume=lambda: None,
                **{"timeout": PATIENCE, "grace": 2.0, "tick": 0.05, **options},
            )
        return Ran(ended, lines)


def harness(log: Path, *argv: str, **options: Any) -> list[str]:
    """The command line of a small runner around `argv`; what happens to it is written to `log`."""
    spec = json.dumps({"argv": argv, "log": str(log), **options})
    return [sys.executable, str(ROOT / "tests" / "process" / "harness.py"), spec]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "PS1": "$ ", "HISTFILE": "", **more}


class Log:
    def __init__(self, path: Path) -> None:
        self.path = path

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def wait(self, name: str, count: int = 1) -> dict[str, Any]:
        until(lambda: len(self.events(name)) >= count, f"{name} in the log: {self._all()}")
        return self.events(name)[count - 1]

    def _all(self) -> str:
        return self.path.read_text() if self.path.exists() else "(nothing)"


class Pty:
    """A program as the session leader of a terminal of its own."""

    def __init__(self, argv: list[str], env: dict[str, str] | None = None) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                # As from an interactive shell: one that starts us in the background leaves these ignored.
                for number in (signal.SIGINT, signal.SIGQUIT):
                    signal.signal(number, signal.SIG_DFL)
                os.execvpe(argv[0], argv, env or environment())
            finally:
                os._exit(127)
        self.seen = b""
        self._reaped: int | None = None

    def send(self, data: bytes) -> None:
        os.write(self.master, data)

    def expect(self, text: bytes, seconds: float = PATIENCE) -> bytes:
        """Everything up to and including `text`, which is then forgotten."""
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < deadline, f"no {text!r} in {self.seen!r}"
            assert self._read(0.1), f"terminal closed before {text!r}; {self.seen!r}"
        before, found, self.seen = self.seen.partition(text)
        return before + found

    def wait(self) -> int:
        """Its exit code, while its output is read so that it never blocks on us."""

        def ended() -> bool:
            self._read(0.02)
            return self.poll() is not None

        until(ended, "the program on the terminal ends")
        assert self._reaped is not None
        return self._reaped

    def poll(self) -> int | None:
        if self._reaped is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._reaped = os.waitstatus_to_exitcode(status)
        return self._reaped

    def local_modes(self) -> int:
        return int(termios.tcgetattr(self.master)[3])

    def cooked(self) -> bool:
        wanted = termios.ICANON | termios.ECHO | termios.ISIG
        return self.local_modes() & wanted == wanted

    def foreground(self) -> int:
        return os.tcgetpgrp(self.master)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        if self.poll() is None:
            below = tree.descendants(self.pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            tree.end(below, 0.2)
        if self.master >= 0:
            os.close(self.master)
            self.master = -1

    def hang_up(self) -> None:
        """The window is closed."""
        os.close(self.master)
        self.master = -1

    def _read(self, seconds: float) -> bool:
        """False when nobody has the terminal open any more."""
        if self.master < 0 or not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.seen += data
        return bool(data)


@contextlib.contextmanager
def on_pty(argv: list[str], **env: str) -> Iterator[Pty]:
    terminal = Pty(argv, environment(**env))
    try:
        yield terminal
    finally:
        terminal.close()


@contextlib.contextmanager
def shell(**env: str) -> Iterator[Pty]:
    """An interactive shell with job control."""
    with on_pty(["bash", "--norc", "--noprofile", "-i"], **env) as terminal:
        terminal.expect(b"$ ")
        yield terminal
