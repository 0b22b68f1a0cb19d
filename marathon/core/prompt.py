"""The text that a session starts with. It needs no other context, and it is the same for every agent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from marathon.core.comments import Standing
from marathon.core.courses.workflow import DONE, Phase, filled_in
from marathon.core.criteria import Criterion
from marathon.core.human_note import Reply, without_answer
from marathon.core.records import Gate, HandEdit
from marathon.core.text import quoted
from marathon.core.writes import rule

REFLECTION = (
    "Read {read} as a stranger would. What was achieved? What was tried without success? What blocks the work? Is the "
    "plan still right? Write the answers as a short dated note at the end of {notes}. Update the boxes of {boxes}. "
    "Only then do the next step."
)
LONGEST_MEMORY = 64 * 1024  # characters


@dataclass(frozen=True)
class Briefing:
    """Everything the prompt is made of."""

    task: str
    phase: Phase
    next_phase: str
    run: int
    iteration: int
    time: str
    steps: Sequence[str] = ()  # of the whole workflow,
    at: int = 0  # and which of them this session is
    round: int = 1
    human_text: str = ""
    human_exists: bool = False
    comments: Sequence[Standing] = ()  # those without an answer
    steer: Sequence[str] = ()
    reply: Reply | None = None
    edits: Sequence[HandEdit] = ()
    guidance: Sequence[str] = ()
    stopped_by: Gate | None = None  # its note is the reason that an earlier session gave
    archived: Sequence[str] = ()  # files of the run before
    criteria: Sequence[Criterion] = ()
    memory: str = ""  # the text of the phase's checklist
    reflection: str = ""
    held: bool = False  # the sandbox keeps the project read-only
    rules: str = ""  # the project's file of rules for agents, where the agent does not read it by itself
    tools: bool = False  # the agent has marathon_wait and human_feedback


def build_prompt(briefing: Briefing) -> str:
    parts = [
        _head(briefing),
        _quotes("Fix first", "After the last session the runner found:", briefing.guidance),
        _reason(briefing.stopped_by),
        _from_human(briefing),
        _comments(briefing),
        *(_edited(briefing.task, edit) for edit in briefing.edits),
        _quotes("Steering", "The human sent this while the marathon ran, oldest first:", briefing.steer),
        _answered(briefing.reply),
        f"## Look back first\n\n{briefing.reflection.strip()}" if briefing.reflection.strip() else "",
        _work(briefing),
        _memory(briefing),
        _criteria(briefing),
        _ending(briefing),
        _rules(briefing.task)
        + rule(briefing.phase, briefing.task, held=briefing.held)
        + _tools(briefing.phase)
        + (_BY_TOOL if briefing.tools else _BY_SHELL),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(briefing: Briefing) -> str:
    phase = briefing.phase.id
    again = f", round {briefing.round}" if briefing.round > 1 else ""
    return (
        f"# Marathon: phase {phase}{again} (run {briefing.run}, iteration {briefing.iteration})\n\n"
        f"You work on one task in strict phases. This session is the {phase} phase and nothing else. "
        f"You do not remember earlier sessions. Everything that is known stands in the files of `{briefing.task}`."
        f"{_steps(briefing)}"
    )


def _steps(briefing: Briefing) -> str:
    """By its place, because the same phase may come more than once."""
    marked = (f"**{name} (now)**" if at == briefing.at else name for at, name in enumerate(briefing.steps))
    return f"\n\nAll steps: {' → '.join(marked)}" if len(briefing.steps) > 1 else ""


def _quotes(title: str, lead: str, items: Sequence[str]) -> str:
    return f"## {title}\n\n{lead}\n\n" + "\n>\n".join(map(quoted, items)) if items else ""


def _reason(gate: Gate | None) -> str:
    if gate is None or not gate.note:
        return ""
    lead = f"The last session, in the {gate.phase} phase, stopped with this note. These are the agent's words:"
    return _quotes("Why the last session stopped", lead, [gate.note])


def _from_human(briefing: Briefing) -> str:
    new = without_answer(briefing.human_text, briefing.reply)
    lead = f"The human added this to `{briefing.task}/human.md` since the last session. Follow it first:"
    return _quotes("New from the human", lead, [new] if new.strip() else [])


def _comments(briefing: Briefing) -> str:
    """Each in full, because anyone can change what human.md shows of it."""
    if not briefing.comments:
        return ""
    output = briefing.phase.output
    example = {"answers": {briefing.comments[0].comment.id: "what you did, or why not"}}
    in_output = f"in a section `## Answers` of {output}, one line each, such as `- c1: what you did, or why not`, or "
    how = f"{in_output if output else ''}in STATE.json beside the other fields: `{_json(example)}`"
    lines = []
    for each in briefing.comments:
        about = f", {each.comment.where(each.lines)}" if each.comment.file else ""
        gone = " (that text is gone)" if each.gone else ""
        must = "must be answered" if each.comment.kind == "must" else "a note"
        quote = f"\n\n{quoted(each.comment.quote)}" if each.comment.quote else ""
        lines.append(f"{each.comment.id} ({must}{about}{gone}): {each.comment.text}{quote}")
    lead = f"The human commented. Follow these comments, and answer each by its id, {how}. Keep earlier answers."
    return _quotes("Comments to answer", lead, lines)


def _edited(task: str, edit: HandEdit) -> str:
    lead = f"While the marathon waited, the human edited {edit.name}. These edits are the human's will. Keep to them."
    where = f"As the human left it, all of it stands in `{task}/{edit.kept}`."
    return f"## The human edited {edit.name}\n\n{lead} {where}\n\n{quoted(edit.diff)}"


def _answered(reply: Reply | None) -> str:
    if reply is None:
        return ""
    said = quoted(reply.text) if reply.text.strip() else "> (an empty answer: decide yourself)"
    return f"## Your question, answered\n\nYou asked:\n\n{quoted(reply.question)}\n\nThe human answered:\n\n{said}"


def _work(briefing: Briefing) -> str:
    phase, task = briefing.phase, briefing.task
    lines = [f"## What to do\n\nRead: {task}/instructions.md"]
    if briefing.rules:
        lines.append(f"Read: {briefing.rules} (what this project asks of every agent)")
    lines += [f"Read: {task}/{name} (if it is there)" for name in phase.reads]
    if briefing.human_exists:
        lines.append(f"Read: {task}/human.md (everything the human ever said; only the text above is new)")
    if briefing.archived:
        kept = ", ".join(f"{task}/{name}" for name in briefing.archived)
        lines.append(f"If you need it, the run before this one is kept in: {kept}")
    if phase.output:
        lines.append(f"Write: {task}/{phase.output}")
        if briefing.round > 1:
            lines.append(f"{task}/{phase.output} holds the earlier version. Revise it, and say in it what changed.")
    values = {
        "task": task,
        "run": str(briefing.run),
        "phase": phase.id,
        "previous": briefing.steps[briefing.at - 1] if briefing.at else "",
        "next": briefing.next_phase,
        "output": f"{task}/{phase.output}" if phase.output else "",
        "reads": ", ".join(f"{task}/{name}" for name in phase.reads),
    }
    return "\n".join(lines) + "\n\n" + filled_in(phase.brief, values).strip()


def _memory(briefing: Briefing) -> str:
    """The checklist of the phase as it is now, and what ends the phase."""
    name, whole = briefing.phase.checklist, briefing.memory.strip()
    if name is None:
        return ""
    path, text = f"{briefing.task}/{name}", whole[:LONGEST_MEMORY]
    lead = f"This is `{path}` as it is now:" if whole else f"`{path}` is missing or empty. Write it first."
    if len(text) < len(whole):
        lead = f"This is the beginning of `{path}` as it is now. The file has {len(whole)} characters. Shorten it:"
    return _quotes(f"{name}, your memory", lead, [text]) if whole else f"## {name}, your memory\n\n{lead}"


def reflection_on(phase: Phase) -> str:
    """What a session is asked when it looks back, unless the human wrote a reflect.md."""
    name = phase.checklist
    files = (name, name, name) if name else ("the plan and work.md", "work.md", "plan.md")
    return REFLECTION.format(read=files[0], notes=files[1], boxes=files[2])


def _criteria(briefing: Briefing) -> str:
    """The last phase is told how the runner will judge the work."""
    if briefing.next_phase != DONE or not briefing.criteria:
        return ""
    commands = [f"> {each.name}: `{each.command}`" for each in briefing.criteria if each.command]
    judged = [each.name for each in briefing.criteria if not each.command]
    parts = ["## When it is done\n\nThe task ends only when every criterion is met."]
    if commands:
        parts += ["The runner runs these commands itself when you call the task completed:", "\n".join(commands)]
    if judged:
        example = {
            "criteriaStatus": {judged[0]: True},
            "criteriaEvidence": {judged[0]: "how you know: what you ran or saw"},
        }
        parts += [
            "Judge these yourself and honestly, each by its exact name:",
            "\n".join(f"> {name}" for name in judged),
            "Record each one in STATE.json beside the other fields. Without evidence it counts as not met:",
            f"    {_json(example)}",
        ]
    return "\n\n".join(parts)


def _ending(briefing: Briefing) -> str:
    phase, following = briefing.phase, briefing.next_phase
    # When, and then the state, the phase and the note to write.
    more = ("More of this phase is left for another session", "running", phase.id, None)
    if not phase.repeats:
        complete = f"{phase.name} complete" + (" - awaiting human review" if phase.gate else "")
        ends = [("This phase is complete", "paused", phase.id, complete), more]
    else:
        written = f", and written to {phase.output}" if phase.output else ""
        written += f", and every box of {phase.checklist} is ticked" if phase.checklist else ""
        done = (f"All of it is done and checked{written}", "completed", DONE, "…")
        wrong = ("It cannot be done as planned. Say why in the note", "paused", phase.id, "…")
        ends = [more, done if following == DONE else ("This phase is complete", "paused", following, "…"), wrong]
    parts = [f"## How to end\n\nAs the last thing you do, write exactly one of these to `{briefing.task}/STATE.json`:"]
    for when, state, name, note in ends:
        fields = {"state": state, "phase": name, "iteration": briefing.iteration, "updatedAt": briefing.time}
        parts.append(f"{when}:\n\n    {_json({**fields, 'note': note})}")
    if phase.may_loop and not phase.gate:
        again = {"state": "paused", "phase": phase.id, "iteration": briefing.iteration, "updatedAt": briefing.time}
        fields = {**again, "loop": True, "note": "why"}
        often = f"at most {phase.may_loop} times, then the human decides"
        parts.append(f"The workflow has to be gone through again ({often}):\n\n    {_json(fields)}")
    return "\n\n".join(parts) + "\n\nKeep every other field of that file as it is. Then stop."


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _rules(task: str) -> str:
    return (
        "## Rules\n\n"
        "- Do one phase in this session. Never begin the next one. Never approve a review: only the human does.\n"
        f"- Write nothing in `{task}/.marathon/`, and never change human.md.\n"
        "- Change instructions.md or checks.toml only if the runner asks for that above.\n"
    )


def _tools(phase: Phase) -> str:
    if not phase.tools:
        return ""
    names = ", ".join(name.lstrip("!") for name in phase.tools)
    return (
        f"- In this phase use {'none of these tools' if phase.tools[0][0] == '!' else 'only these tools'}: {names}.\n"
    )


_BY_SHELL = (
    '- To wait for something outside, such as CI, run `pi-marathon wait MINUTES "REASON"`. Then end with "more of this '
    'phase is left".\n'
    '- To ask the human, run `pi-marathon ask "QUESTION"`. Then end with "more of this phase is left". The next '
    "session gets the answer.\n"
    '- If you cannot run these commands, add `"wait": {"minutes": 10, "reason": "CI"}` or `"question": "…"` to the '
    "STATE.json that you end with."
)
_BY_TOOL = (
    "- To wait for something outside, such as CI, call your tool `marathon_wait`. To ask the human, call your tool "
    "`human_feedback`. The next session gets the answer. Both tools end this session at once, so first write down what "
    'the next session must know, and write STATE.json as "more of this phase is left".'
)
