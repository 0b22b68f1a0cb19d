"""The text a session starts with: self-contained, imperative, the same for every agent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from marathon.core.courses.workflow import DONE, Phase
from marathon.core.criteria import Criterion
from marathon.core.human_note import Reply, without_answer
from marathon.core.text import quoted

_JSON = json.JSONEncoder(ensure_ascii=False)
REFLECTION = (
    "Read the plan and work.md as a stranger would. What was achieved, what was tried in vain, what is in the way? "
    "Is the plan still right? Write the answer as a short dated note at the end of work.md, bring the boxes of plan.md "
    "up to date, and only then do the next step."
)


@dataclass(frozen=True)
class Briefing:
    """Everything the prompt is made of."""

    task: str
    phase: Phase
    next_phase: str
    run: int
    iteration: int
    time: str
    round: int = 1
    human_text: str = ""
    human_exists: bool = False
    steer: Sequence[str] = ()
    reply: Reply | None = None
    guidance: Sequence[str] = ()
    criteria: Sequence[Criterion] = ()
    reflection: str = ""


def build_prompt(briefing: Briefing) -> str:
    parts = [
        _head(briefing),
        _found_wrong(briefing),
        _from_human(briefing),
        _steering(briefing),
        _answered(briefing),
        _reflecting(briefing),
    ]
    parts += [_work(briefing), _criteria(briefing), _ending(briefing), _rules(briefing)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(briefing: Briefing) -> str:
    phase = briefing.phase
    again = f", round {briefing.round}" if briefing.round > 1 else ""
    return (
        f"# Marathon: phase {phase.id}{again} (run {briefing.run}, iteration {briefing.iteration})\n\n"
        f"You work on one task in strict phases; this session is the {phase.id} phase and nothing else. "
        f"You have no memory of earlier sessions: everything known is in the files of `{briefing.task}`."
    )


def _found_wrong(briefing: Briefing) -> str:
    return _section("Fix first", "What the runner found after the last session:", briefing.guidance)


def _from_human(briefing: Briefing) -> str:
    new = without_answer(briefing.human_text, briefing.reply)
    if not new.strip():
        return ""
    return (
        f"## New from the human\n\nAdded to `{briefing.task}/human.md` since the last session. Heed it first:\n\n"
        + quoted(new)
    )


def _steering(briefing: Briefing) -> str:
    return _section("Steering", "Sent by the human while the marathon ran, oldest first:", briefing.steer)


def _answered(briefing: Briefing) -> str:
    if briefing.reply is None:
        return ""
    said = quoted(briefing.reply.text) if briefing.reply.text.strip() else "> (an empty answer: decide yourself)"
    asked = quoted(briefing.reply.question)
    return f"## Your question, answered\n\nYou asked:\n\n{asked}\n\nThe human answered:\n\n{said}"


def _section(title: str, lead: str, items: Sequence[str]) -> str:
    if not items:
        return ""
    return f"## {title}\n\n{lead}\n\n" + "\n>\n".join(quoted(item) for item in items)


def _work(briefing: Briefing) -> str:
    phase, task = briefing.phase, briefing.task
    lines = [f"## What to do\n\nRead: {task}/instructions.md"]
    lines += [f"Read: {task}/{name} (if it is there)" for name in phase.reads]
    if briefing.human_exists:
        lines.append(f"Read: {task}/human.md (all the human ever said; only what stands above is new)")
    if phase.output:
        lines.append(f"Write: {task}/{phase.output}")
    if briefing.round > 1 and phase.output:
        lines.append(
            f"This phase is done again: {task}/{phase.output} holds the earlier version. Rework it, say what changed."
        )
    return "\n".join(lines) + "\n\n" + phase.brief.strip()


def _reflecting(briefing: Briefing) -> str:
    return f"## Look back first\n\n{briefing.reflection.strip()}" if briefing.reflection.strip() else ""


def _criteria(briefing: Briefing) -> str:
    """Shown in the last phase: what the runner will hold the work against."""
    if briefing.next_phase != DONE or not briefing.criteria:
        return ""
    commands = [each for each in briefing.criteria if each.command]
    judged = [each.name for each in briefing.criteria if not each.command]
    parts = ["## When it is done\n\nThe task ends only when every criterion is met."]
    if commands:
        lines = "\n".join(f"> {each.name}: `{each.command}`" for each in commands)
        parts.append(f"The runner runs these itself when you call it completed:\n\n{lines}")
    if judged:
        example = {
            "criteriaStatus": {judged[0]: True},
            "criteriaEvidence": {judged[0]: "how you know: what you ran or saw"},
        }
        lines = "\n".join(f"> {name}" for name in judged)
        parts.append(
            f"These you judge yourself, honestly, each by its exact name:\n\n{lines}\n\n"
            "Record each in STATE.json beside the other fields; without evidence it counts as not met:\n\n"
            f"    {_JSON.encode(example)}"
        )
    return "\n\n".join(parts)


def _ending(briefing: Briefing) -> str:
    phase = briefing.phase
    last = briefing.next_phase == DONE
    lines = [f"## How to end\n\nAs the last thing you do, write `{briefing.task}/STATE.json`, exactly one of these:"]
    if phase.repeats:
        lines.append(_state("More of this phase is left", "running", phase.id, briefing, None))
        if last:
            written = f", and in {phase.output}" if phase.output else ""
            lines.append(_state(f"All of it is done and checked{written}", "completed", DONE, briefing, "…"))
        else:
            lines.append(_state("This phase is complete", "paused", briefing.next_phase, briefing, "…"))
        lines.append(_state("It cannot be done as planned; say why in the note", "paused", phase.id, briefing, "…"))
    else:
        lines.append(
            _state(
                "This phase is complete",
                "paused",
                phase.id,
                briefing,
                f"{phase.name} complete - awaiting human review",
            )
        )
        lines.append(_state("More of this phase is left for another session", "running", phase.id, briefing, None))
    return "\n\n".join(lines) + "\n\nKeep any other field of that file as it is. Then stop."


def _state(when: str, state: str, phase: str, briefing: Briefing, note: str | None) -> str:
    body = {
        "state": state,
        "phase": phase,
        "iteration": briefing.iteration,
        "updatedAt": briefing.time,
        "note": note,
    }
    return f"{when}:\n\n    {_JSON.encode(body)}"


def _rules(briefing: Briefing) -> str:
    return (
        "## Rules\n\n"
        "- One phase in this session. Never begin the next one, never approve a review: only the human does.\n"
        f"- Write nothing in `{briefing.task}/.marathon/`, and never change human.md.\n"
        "- Change instructions.md or checks.toml only where the runner asks for that above.\n"
        '- To wait for something outside (CI): run `pi-marathon wait MINUTES "REASON"`, then end as "more is left".\n'
        '- To ask the human: run `pi-marathon ask "QUESTION"`, then end as "more is left"; the next session is told.'
    )
