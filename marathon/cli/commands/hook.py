"""pi-marathon hook EVENT, which Claude Code's hooks call: JSON in, JSON out, and always exit code 0."""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from collections.abc import Sequence

import click

from marathon.agents.claude.hook import Verdict, reply

MOST_INPUT = 8 * 1024 * 1024
PATIENCE = 5.0


@click.command("hook")
@click.argument("event", metavar="stop|session-start|turn-ended")
@click.argument("told", nargs=-1)
def command(event: str, told: tuple[str, ...]) -> None:
    """For Claude Code's hooks, which `pi-marathon install --claude` sets up: JSON in on standard input, JSON out.

    stop: holds Claude while the loop in .loop/state.json has unmet criteria, or until a marathon's session has written
    STATE.json. session-start: tells a new session about the loop or the marathon. turn-ended: for Codex in its own
    terminal. The exit code is always 0.
    """
    answer([event, *told])


def answer(args: Sequence[str]) -> int:
    """Print the answer. main() calls this before any option is parsed, because exit code 2 would hold Claude."""
    event = args[0] if args else ""
    try:
        # Codex tells it in an argument, and Claude Code on standard input.
        told = "".join(args[1:2]).encode() if event == "turn-ended" else _standard_input()
        output = reply(event, told, os.environ)
    except Exception as error:
        output = Verdict(True, f"the hook failed ({type(error).__name__})").output() if event == "stop" else {}
    with contextlib.suppress(OSError):
        click.echo(json.dumps(output))
    return 0


def _standard_input() -> bytes:
    """What arrives in time, up to a limit. Nothing is read from a terminal."""
    data, deadline = bytearray(), time.monotonic() + PATIENCE
    with contextlib.suppress(OSError):
        while not os.isatty(0) and len(data) <= MOST_INPUT:
            ready = select.select([0], [], [], max(0.0, deadline - time.monotonic()))[0]
            block = os.read(0, 1024 * 1024) if ready else b""
            if not block:
                break
            data += block
    return bytes(data)
