"""The answers to Claude Code's hooks. A hook that cannot read something never holds a session.

A loop continues until every criterion is met and Claude says the word of completion. It counts as stuck when the same
criteria are unmet five times in a row, or after twenty holds (Claude Code itself gives up after eight). It is paused
when the state's own `maxIterations` or `budget` is reached.
In a marathon the runner decides about the end. A session may stop once it has written STATE.json. If it has not, it is
told so once.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from marathon.agents.claude.state import (
    BEGIN,
    Place,
    State,
    as_object,
    criteria_of,
    find_place,
    is_over,
    is_paid_up,
    iteration_of,
    joined,
    max_iterations,
    unmet_criteria,
)
from marathon.core.text import COMPLETE_MARK, one_line, says_complete
from marathon.errors import MarathonError
from marathon.store.places import states_folder

STUCK_AFTER = 5
MOST_HOLDS = 20


class Asked(NamedTuple):
    """What Claude Code says on standard input."""

    hook_event_name: str = ""
    session_id: str = ""
    cwd: str = ""
    prompt_id: str = ""  # the human's message that Claude works on
    stop_hook_active: bool | None = None  # Claude continues only because a hook held it
    last_assistant_message: str = ""

    @classmethod
    def read(cls, data: bytes) -> Asked | None:
        """A field of an unexpected type counts as not said."""
        fields = as_object(data)
        if fields is None:
            return None
        types = {name: bool if name == "stop_hook_active" else str for name in cls._fields}
        return cls(**{name: fields[name] for name in types if isinstance(fields.get(name), types[name])})


class Streak(NamedTuple):
    """What is remembered of a session between two stops."""

    unmet: str = ""  # a fingerprint of the unmet criteria
    same: int = 0  # evaluations in a row with these criteria unmet
    holds: int = 0  # since the session was last let go
    prompt: str = ""

    @classmethod
    def read(cls, value: object) -> Streak:
        """Anyone can write the file that this comes from."""
        fields = value if isinstance(value, Mapping) else {}
        usual = cls._field_defaults
        streak = cls(**{name: fields[name] for name in usual if type(fields.get(name)) is type(usual[name])})
        return streak if min(streak.same, streak.holds) >= 0 else cls()


class Verdict(NamedTuple):
    ok: bool
    reason: str
    tell: str = ""  # to the human
    streak: Streak = Streak()  # to be remembered of the session from now on
    status: str = ""  # what the state of the loop says from now on

    def output(self) -> dict[str, Any]:
        """{ok, reason} for other readers, beside Claude Code's own fields. It ignores fields that it does not know."""
        held = {} if self.ok else {"decision": "block"}
        told = {"systemMessage": one_line(self.tell, 6000)} if self.tell else {}
        return {"ok": self.ok, **held, "reason": self.reason, **told}


def reply(event: str, data: bytes, environ: Mapping[str, str]) -> dict[str, Any]:
    """The answer to the hook of this event, whatever its input is."""
    if event == "turn-ended":
        place = find_place(".", environ)
        if place and place.marathon and is_codex_turn(as_object(data) or {}, place.prompt):
            mark_end(place, environ)
        return {}
    asked = Asked.read(data)
    if event == "stop":
        return (stop(asked, environ) if asked else Verdict(True, "the hook's input could not be read")).output()
    news = session_start(asked, environ) if event == "session-start" and asked else ""
    return {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": news}} if news else {}


# The Stop hook


def stop(asked: Asked, environ: Mapping[str, str]) -> Verdict:
    """May this session stop?"""
    place = find_place(asked.cwd or ".", environ)
    if asked.hook_event_name not in ("", "Stop"):
        return Verdict(True, "not the end of a session's turn")
    if place is None:
        return Verdict(True, "no active loop")
    streak, state = Streak.read(place.recall(asked.session_id)), place.state()
    if place.marathon:
        verdict = judge_marathon(state, place.written(), asked, streak)
    elif state is None:
        told = f"pi-marathon: {place.state_file} is not a JSON object, so Claude was not held."
        verdict = Verdict(True, "the state cannot be read", told)
    else:
        verdict = judge_loop(state, asked.last_assistant_message, asked, streak)
    if verdict.status and state is not None:
        with contextlib.suppress(MarathonError):  # a new session is not told of a loop that is over
            place.write({**state, "status": verdict.status})
    if place.marathon and verdict.ok:
        mark_end(place, environ)
    facts = verdict.streak._asdict() if verdict.streak != Streak() else None
    remembered = verdict.streak == streak or place.remember(asked.session_id, facts)
    if verdict.ok or remembered or asked.stop_hook_active is False:
        return verdict
    # Without memory the session could be held for ever, so only its first stop is held.
    told = f"pi-marathon: {place.memory} cannot be written, so Claude was not held."
    return Verdict(True, "let go: no memory of what was answered before", told)


def is_codex_turn(told: Mapping[str, Any], prompt: str) -> bool:
    """Whether Codex tells of a turn of the session, and not of the one in which it gives the session a title."""
    messages = _strings(told.get("input-messages"))
    return not any(prompt in message and not message.startswith(BEGIN.format(prompt)) for message in messages)


def mark_end(place: Place, environ: Mapping[str, str]) -> None:
    """Tell the runner that a turn has ended after STATE.json was written, so that it may take the terminal back."""
    if not place.written():
        return
    from marathon.store.agent_channel import channel_of

    channel = channel_of(states_folder(environ), environ.get("MARATHON_RUNNER_ID", ""))
    if channel is not None and channel.read():
        with contextlib.suppress(MarathonError):
            channel.update(sessionEnded=True)


def judge_loop(state: State, said: str, asked: Asked, streak: Streak) -> Verdict:
    """May a session stop in a project with .loop/state.json?"""
    if is_over(state):
        return Verdict(True, "the loop is over")
    unmet = unmet_criteria(state)
    if not criteria_of(state):
        reason = "next: list the criteria in .loop/state.json, with a verdict for each in criteriaStatus"
    elif unmet:
        reason = f"unmet: {joined(unmet)}. Meet them, and set each true in criteriaStatus once it is verified"
    elif not says_complete(said):
        reason = f"next: all criteria are met; say {COMPLETE_MARK} on a line of its own if you are done"
    else:
        return Verdict(True, "complete", status="completed")
    if used_up := _used_up(state, streak):
        left = f"unmet: {joined(unmet)}" if unmet else reason
        flag = "--budget AMOUNT" if is_paid_up(state) else "--max-iterations N"
        how = f"To allow more: pi-marathon claude-loop resume {flag}"
        told = f"pi-marathon: the loop is paused, because {used_up}. Left: {left}. {how}"
        return Verdict(True, f"paused: {used_up}", told, status="paused")
    mark = f"{zlib.crc32(json.dumps(sorted(unmet) or [reason]).encode()):08x}"
    # A new turn starts the count again. Claude Code sometimes claims one in the middle of a turn; the prompt tells.
    new_turn = asked.stop_hook_active is False and not (asked.prompt_id and asked.prompt_id == streak.prompt)
    same = streak.same + 1 if mark == streak.unmet and not new_turn else 1
    if same < STUCK_AFTER and streak.holds < (max_iterations(state) or MOST_HOLDS):
        return Verdict(False, reason, streak=Streak(mark, same, streak.holds + 1, asked.prompt_id))
    why = f"nothing new {same} times in a row" if same >= STUCK_AFTER else f"held {streak.holds} times"
    left = f"unmet: {joined(unmet)}" if unmet else reason
    return Verdict(True, "stuck", f"pi-marathon: the loop is stuck ({why}), so Claude may stop. Left: {left}.")


def _used_up(state: State, streak: Streak) -> str:
    """Which limit of the loop is reached. Claude counts its iterations, and we count how often it was held."""
    most, done = max_iterations(state), max(iteration_of(state), streak.holds)
    if is_paid_up(state):
        return "its budget is used up"
    return f"it has used its {most} iterations" if most and done >= most else ""


def judge_marathon(state: State | None, written: bool, asked: Asked, streak: Streak) -> Verdict:
    """May the session of a marathon stop? `written` says whether STATE.json is newer than the session's prompt."""
    if state is None:
        problem = "it cannot be read as a JSON object"
    elif state.get("state") not in ("running", "paused", "completed"):
        problem = "its state is none of running, paused, completed"
    elif state["state"] == "running" and not written:
        problem = "this session has not written it yet"
    else:
        return Verdict(True, "the runner decides", streak=streak)
    if asked.stop_hook_active or streak.holds:
        return Verdict(True, f"STATE.json: {problem}; that was said once", streak=streak)
    return Verdict(False, f"next: write STATE.json as the prompt says; {problem}", streak=Streak(holds=1))


# The SessionStart hook


def session_start(asked: Asked, environ: Mapping[str, str]) -> str:
    """What a new session is told. Nothing if it is part of no loop and no marathon."""
    place = find_place(asked.cwd or ".", environ)
    if place is None or asked.hook_event_name not in ("", "SessionStart"):
        return ""
    if place.marathon:
        return about_marathon(place.state(), str(place.state_file.parent), environ.get("MARATHON_PHASE", ""))
    return about_loop(place.state())


def about_loop(state: State | None) -> str:
    if state is None or is_over(state):
        return ""
    lines = [f"A loop is in progress here (.loop/state.json){_iteration(state)}."]
    if isinstance(spec := state.get("spec"), str) and spec.strip():
        lines.append(f"Spec: {one_line(spec, 600)}")
    if steps := remaining_steps(state):
        lines.append(f"Remaining steps: {joined(steps)}")
    last = f"say {COMPLETE_MARK} only when every criterion is true in criteriaStatus."
    return "\n".join([*lines, *_unmet(state), f"Do the next step, keep .loop/state.json up to date, and {last}"])


def about_marathon(state: State | None, task: str, phase: str) -> str:
    """`phase` comes from the runner and is used if STATE.json names none."""
    state = state or {}
    said = state.get("phase")
    named = one_line(said if isinstance(said, str) and said.strip() else phase, 100) or "not known"
    where = f"phase {named}{_iteration(state)}. Task directory: {one_line(task, 1000)}"
    last = "Work on this phase only. Write STATE.json there last, as the prompt says, then stop."
    return "\n".join([f"This is a session of a marathon: {where}", *_unmet(state), last])


def remaining_steps(state: State) -> list[str]:
    if isinstance(state.get("remainingSteps"), list):
        return _strings(state["remainingSteps"])
    done = _strings(state.get("completedSteps"))
    return [step for step in _strings(state.get("steps")) if step not in done]


def _unmet(state: State) -> list[str]:
    unmet = unmet_criteria(state)
    return [f"Unmet criteria ({len(unmet)} of {len(criteria_of(state))}): {joined(unmet)}"] if unmet else []


def _iteration(state: State) -> str:
    iteration = state.get("iteration")
    return f", iteration {iteration}" if type(iteration) is int else ""


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
