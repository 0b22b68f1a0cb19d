"""pi-marathon hook EVENT: what Claude Code's hooks call. JSON in, JSON out, exit 0: it must never keep a session."""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from marathon.core.hook import Asked, Streak, Verdict, judge_loop, judge_marathon, read_asked
from marathon.core.news import of_loop, of_marathon
from marathon.core.text import one_line
from marathon.core.transcript import last_said
from marathon.store.loopstate import Place, find_place, recall, remember, tail_of

MOST_INPUT = 8 * 1024 * 1024
PATIENCE = 5.0


@click.command("hook")
@click.argument("event", metavar="stop|session-start")
def command(event: str) -> None:
    """For Claude Code's hooks, which `pi-marathon install --claude` sets up: JSON in on standard input, JSON out.

    stop: holds Claude while the loop in .loop/state.json has unmet criteria, or until a marathon's session has written
    STATE.json. session-start: tells a new session about the loop or the marathon. The exit code is always 0.
    """
    answer([event])


def answer(args: Sequence[str]) -> int:
    """The command by hand, past the options: to Claude Code an exit code 2 would mean that it must not stop."""
    event = args[0] if args else ""
    try:
        output = _answer_to(event)
    except Exception as error:
        output = Verdict(True, f"the hook failed ({type(error).__name__})").output() if event == "stop" else {}
    with contextlib.suppress(OSError):
        click.echo(json.dumps(output))
    return 0


def _answer_to(event: str) -> dict[str, Any]:
    asked = read_asked(_standard_input())
    if event == "stop":
        return _stop(asked).output() if asked else Verdict(True, "the hook's input could not be read").output()
    return _session_start(asked) if event == "session-start" and asked else {}


def _stop(asked: Asked) -> Verdict:
    if asked.event not in ("", "Stop"):
        return Verdict(True, "not the end of a session's turn")
    place = find_place(asked.cwd or os.getcwd(), os.environ)
    if place is None:
        return Verdict(True, "no active loop")
    streak = Streak.read(recall(place.memory, asked.session))
    verdict = _judged(place, asked, streak)
    facts = verdict.streak._asdict() if verdict.streak != Streak() else None
    kept = verdict.streak == streak or remember(place.memory, asked.session, facts)
    if verdict.ok or kept or asked.again is False:
        return verdict
    # Without memory it would be held again and again: only what is surely the first time may hold it.
    return Verdict(True, "let go: no memory of what was answered before", _about(place.memory, "cannot be written"))


def _judged(place: Place, asked: Asked, streak: Streak) -> Verdict:
    state = place.state()
    if place.marathon:
        return judge_marathon(state, place.written(), asked, streak)
    if state is None:
        return Verdict(True, "the state cannot be read", _about(place.state_file, "is no JSON object; no loop is kept"))
    said = last_said(tail_of(asked.transcript)) if asked.said is None else asked.said
    return judge_loop(state, said, asked, streak)


def _about(path: Path, problem: str) -> str:
    return f"pi-marathon: {one_line(str(path), 500)} {problem}."


def _session_start(asked: Asked) -> dict[str, Any]:
    place = find_place(asked.cwd or os.getcwd(), os.environ)
    if place is None or asked.event not in ("", "SessionStart"):
        return {}
    state = place.state()
    task, phase = str(place.state_file.parent), os.environ.get("MARATHON_PHASE", "")
    news = of_marathon(state, task, phase) if place.marathon else of_loop(state)
    return {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": news}} if news else {}


def _standard_input() -> bytes:
    """All of it, as far as it comes in time and is not absurdly much; nothing from a terminal."""
    data, deadline = bytearray(), time.monotonic() + PATIENCE
    try:
        while not os.isatty(0) and len(data) <= MOST_INPUT:
            if not select.select([0], [], [], max(0.0, deadline - time.monotonic()))[0]:
                break
            block = os.read(0, 1024 * 1024)
            if not block:
                break
            data += block
    except OSError:
        pass
    return bytes(data)
