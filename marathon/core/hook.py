"""What Claude Code's Stop hook is answered. Plain data in and out; whatever cannot be read never holds a session.

A bare loop: all its criteria and the word of completion, or it goes on; the same unmet set five times in a row, or
twenty holds of one session without letting it go, is let go as stuck (Claude Code itself gives up after eight).
A marathon's session: the runner decides about the end, so it may stop as soon as STATE.json was written or is no longer
`running`; else it is told so once, and never again in that session.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from marathon.core.text import COMPLETE_MARK, one_line

STUCK_AFTER = 5
MOST_HOLDS = 20
MOST_NAMES = 20
LONGEST_ID = 200
OVER = ("paused", "completed", "cancelled", "canceled")


class Asked(NamedTuple):
    """What Claude Code says on standard input, as far as it can be read."""

    event: str = ""
    session: str = ""
    cwd: str = ""
    prompt: str = ""  # the id of the human's message that is being worked on
    again: bool | None = None  # it goes on only because a hook held it; None: not said
    said: str | None = None  # its last message, where its version hands it over
    transcript: str = ""


class Streak(NamedTuple):
    """What is remembered of a session between two stops."""

    unmet: str = ""  # a fingerprint
    same: int = 0  # evaluations in a row with this unmet set
    holds: int = 0  # since it was last let go
    prompt: str = ""

    @classmethod
    def read(cls, value: object) -> Streak:
        """From an untrusted file."""
        fields = value if isinstance(value, Mapping) else {}
        unmet, prompt = fields.get("unmet"), fields.get("prompt")
        return cls(
            unmet if isinstance(unmet, str) else "",
            _count(fields.get("same")),
            _count(fields.get("holds")),
            prompt if isinstance(prompt, str) else "",
        )


class Verdict(NamedTuple):
    ok: bool
    reason: str
    tell: str = ""  # to the human
    streak: Streak = Streak()  # what is to be remembered of it from now on

    def output(self) -> dict[str, Any]:
        """{ok, reason} for whoever reads that, beside Claude Code's own fields: it ignores those it does not know."""
        held = {} if self.ok else {"decision": "block"}
        told = {"systemMessage": self.tell} if self.tell else {}
        return {"ok": self.ok, **held, "reason": self.reason, **told}


def as_object(data: bytes) -> dict[str, Any] | None:
    """The JSON object in these bytes, whatever they are."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_asked(data: bytes) -> Asked | None:
    """The hook's input; a field of an unexpected kind is one that was not said."""
    fields = as_object(data)
    if fields is None:
        return None
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    again = fields.get("stop_hook_active")
    return Asked(
        event=texts.get("hook_event_name", ""),
        session=texts.get("session_id", "")[:LONGEST_ID],
        cwd=texts.get("cwd", ""),
        prompt=texts.get("prompt_id", "")[:LONGEST_ID],
        again=again if isinstance(again, bool) else None,
        said=texts.get("last_assistant_message"),
        transcript=texts.get("transcript_path", ""),
    )


def judge_loop(state: Mapping[str, Any], said: str, asked: Asked, streak: Streak) -> Verdict:
    """May a session stop whose project has a .loop/state.json?"""
    if is_over(state):
        return Verdict(True, f"the loop is {_status(state)}")
    unmet = unmet_criteria(state)
    if not criteria_of(state):
        reason = "next: list the criteria in .loop/state.json, with a verdict for each in criteriaStatus"
    elif unmet:
        reason = f"unmet: {listed(unmet)}. Meet them, and set each true in criteriaStatus once it is verified"
    elif COMPLETE_MARK not in said:
        reason = f"next: all criteria are met; say {COMPLETE_MARK} if you are done"
    else:
        return Verdict(True, "complete")
    return _held(reason, unmet, asked, streak)


def _held(reason: str, unmet: list[str], asked: Asked, streak: Streak) -> Verdict:
    mark = f"{zlib.crc32(json.dumps(sorted(unmet) or [reason]).encode()):08x}"
    # A new turn begins anew; but Claude Code has been seen to say so in the middle of one, too: the prompt tells.
    anew = asked.again is False and not (asked.prompt and asked.prompt == streak.prompt)
    same = streak.same + 1 if mark == streak.unmet and not anew else 1
    if same >= STUCK_AFTER or streak.holds >= MOST_HOLDS:
        why = f"nothing new {same} times in a row" if same >= STUCK_AFTER else f"held {streak.holds} times"
        left = f"unmet: {listed(unmet)}" if unmet else reason
        return Verdict(True, "stuck", f"pi-marathon: the loop is stuck ({why}), so Claude was let go; {left}.")
    return Verdict(False, reason, streak=Streak(mark, same, streak.holds + 1, asked.prompt))


def judge_marathon(state: Mapping[str, Any] | None, written: bool, asked: Asked, streak: Streak) -> Verdict:
    """May the session of a marathon stop? `written`: STATE.json is younger than the session's prompt."""
    if state is None:
        problem = "it cannot be read as a JSON object"
    elif state.get("state") not in ("running", "paused", "completed"):
        problem = "its state is none of running, paused, completed"
    elif state["state"] == "running" and not written:
        problem = "this session has not written it yet"
    else:
        return Verdict(True, "the runner decides", streak=streak)
    if asked.again or streak.holds:
        return Verdict(True, f"STATE.json: {problem}; that was said once", streak=streak)
    return Verdict(False, f"next: write STATE.json as the prompt says; {problem}", streak=Streak(holds=1))


def is_over(state: Mapping[str, Any]) -> bool:
    return _status(state) in OVER


def _status(state: Mapping[str, Any]) -> str:
    status = state.get("status", state.get("state"))
    return status.strip().lower() if isinstance(status, str) else ""


def criteria_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Every criterion with its verdict; one that is listed without a verdict has False."""
    status, names = state.get("criteriaStatus"), state.get("criteria")
    verdicts = dict(status) if isinstance(status, Mapping) else {}
    known = [name if isinstance(name, str) else json.dumps(name) for name in names] if isinstance(names, list) else []
    return {**dict.fromkeys(known, False), **verdicts}


def unmet_criteria(state: Mapping[str, Any]) -> list[str]:
    return [name for name, met in criteria_of(state).items() if met is not True]


def listed(names: list[str]) -> str:
    """Some of the names, safe to show."""
    more = f"; and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return "; ".join(one_line(name) for name in names[:MOST_NAMES]) + more


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
