"""A runner in a process of its own: runs one command as told in its argument and writes down what happens."""

from __future__ import annotations

import json
import os
import sys
import termios
import time
from pathlib import Path
from typing import Any

from marathon.process.signals import Signals
from marathon.process.start import Command, StartFailed
from marathon.process.supervisor import run


def main() -> None:
    spec: dict[str, Any] = json.loads(sys.argv[1])
    log = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def note(event: str, **details: Any) -> None:
        os.write(
            log,
            json.dumps({"event": event, "at": time.clock_gettime(time.CLOCK_BOOTTIME), **details}).encode() + b"\n",
        )

    def say(event: str) -> None:
        note(event)
        print(f"<{event}>", flush=True)

    note("runner", pid=os.getpid())
    command = Command(tuple(spec["argv"]), Path.cwd(), dict(os.environ), terminal=spec.get("terminal", False))
    with Signals() as signals:
        ended = run(
            command,
            signals=signals,
            on_output=lambda stream, line, complete: note("output", line=line.decode(), stream=stream),
            on_tick=lambda: False,
            on_interrupt=lambda: say("interrupt"),
            on_resume=lambda: say("resume"),
            timeout=spec.get("timeout"),
            grace=spec.get("grace", 2.0),
            tick=0.05,
        )
    if sys.stdin.isatty():
        modes = termios.tcgetattr(0)[3]
        cooked = all(modes & flag for flag in (termios.ICANON, termios.ECHO, termios.ISIG))
        note("terminal", cooked=cooked, foreground=os.tcgetpgrp(0) == os.getpgrp())
    note(
        "exit",
        code=ended.code,
        signal=ended.signal,
        reason=ended.reason,
        swept=ended.swept,
        seconds=ended.seconds,
    )
    print("<end>", flush=True)


if __name__ == "__main__":
    try:
        main()
    except StartFailed as error:  # plain: since 3.13 a traceback on a terminal is coloured
        sys.exit(f"StartFailed: {error}")
