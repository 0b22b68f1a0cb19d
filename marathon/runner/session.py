"""One session: gather what the agent must know, run it, and observe what it left. Judges nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from marathon.agents.base import Host, Outcome
from marathon.agents.meter import Meter
from marathon.agents.reading import failure_of
from marathon.core import events
from marathon.core.breakers import last_contents
from marathon.core.budgets import BUDGETS, Allowance, with_amounts
from marathon.core.courses.workflow import DONE, Phase
from marathon.core.events import SessionBegan
from marathon.core.life import Life, Steer
from marathon.core.prompt import build_prompt
from marathon.core.records import (
    Proposal,
    Rating,
    SessionEnded,
    SessionStarted,
    SteerTaken,
    WaitAsked,
    Writes,
)
from marathon.core.state import StateInvalid, TaskState, rating_in
from marathon.core.steps import RunSession
from marathon.core.text import clean, one_line, steps_line
from marathon.errors import AgentUnavailable, MarathonError, TaskInvalid
from marathon.git.changes import UNKNOWN, Changes, changes_since
from marathon.git.worktree import head_of
from marathon.process.awake import awake
from marathon.process.sandbox import WRAP
from marathon.process.supervisor import run
from marathon.runner import meanwhile
from marathon.runner.background import detach, may_detach
from marathon.runner.hand_edits import digests, record_edits
from marathon.runner.sandbox import for_session, put_right
from marathon.runner.session_inputs import briefing, channel_fields, environment
from marathon.store.base import Store
from marathon.store.files import write_atomic
from marathon.store.inbox import Inbox
from marathon.store.task import HUMAN

if TYPE_CHECKING:
    from marathon.runner.marathon import Marathon

SHORTEST_WAIT, LONGEST_WAIT = 60.0, 3600.0
LONGEST_TEXT = 20_000
# Why a turn ended that the agent had not finished, as programs and providers call it.
_EARLY = ("max_tokens", "max_turn_requests", "refusal", "length", "content_filter", "model_context_window_exceeded")
_OF_A_ROUND = ("criteriaStatus", "criteriaEvidence")  # verdicts belong to the round they were given in
_OF_A_SESSION = ("wait", "question", "rating", "loop")


def take_steering(marathon: Marathon, *, between: bool = False) -> Life:
    """Move what the human told out of the inbox: into the journal, then into human.md, then the file may go.

    Some is for between sessions. The heading holds the time, so words that a crash brings here twice are written once.
    """
    for message in marathon.store.messages():
        if message.kind == "steer" and (between or not message.later):
            if message.id not in {steer.id for steer in marathon.life.steer}:
                heading = f"Told · {message.sent}"
                marathon.record(SteerTaken(id=message.id, text=message.text, heading=heading))
            marathon.journal.write_owed_words()
            marathon.store.remove(message.id)
    return marathon.life


def take_back(messages: Store | Inbox) -> str:
    """The latest message that no session was given yet. It is sent no more."""
    waiting = [each for each in messages.messages() if each.kind == "steer"]
    for message in waiting[-1:]:
        messages.remove(message.id)
    return waiting[-1].text if waiting else ""


def update_state(marathon: Marathon, phase: str, iteration: int, *, forget: Sequence[str] = (), **changes: Any) -> None:
    """Rewrite STATE.json while no agent is alive, and keep the fields we do not know."""
    try:
        state = marathon.task.read_state()
    except StateInvalid as error:
        _set_aside(marathon, clean(str(error)))
        state = None
    state = state or TaskState(state="running", phase=phase)
    state = state.without(forget).written(marathon.clock(), phase=phase, iteration=iteration, **changes)
    marathon.task.write_state(state)


def _checked_out(marathon: Marathon) -> str:
    """Where a run begins that may write everywhere at once, so that its end can name its diff."""
    with contextlib.suppress(MarathonError):
        return head_of(marathon.project)
    return ""


def run_session(marathon: Marathon, step: RunSession) -> None:
    """Start the agent, stream what it says, record how it ended."""
    task, phase = marathon.task, marathon.team.as_chosen(step.phase) if marathon.team else step.phase
    step, agent = replace(step, phase=phase), marathon.agent_of(phase)
    if marathon.life.gate is not None:  # it closed by itself, for example after --max-cost +10
        record_edits(marathon, marathon.life.gate)
    life = take_steering(marathon, between=True)
    iteration = life.iteration + 1
    human, human_mark = task.new_from_human(life.delivered)
    task.runs.make_room(life.run, iteration, marathon.options.keep_events)
    log = task.runs.session_path(life.run, "events", iteration, "jsonl")
    allowance = _allowance(marathon, [budget for budget, _ in step.warnings])
    marathon.channel.write(channel_fields(marathon, phase, iteration, marathon.clock(), log, allowance))
    forget = _OF_A_SESSION if life.in_round else (*_OF_A_SESSION, *_OF_A_ROUND)
    update_state(marathon, phase.id, iteration, forget=forget, state="running", note=None)
    prompt = task.runs.session_path(life.run, "prompts", iteration, "md")
    brief = briefing(marathon, step, iteration, human, bool(human_mark.size))
    write_atomic(Path(prompt), build_prompt(brief).encode("utf-8", "replace"), durable=False)
    for _, warning in step.warnings:
        marathon.tell(warning, "warning")
    for guidance in step.guidance:
        marathon.tell(f"The agent is told: {one_line(guidance, 300)}")
    project_before, unchecked = meanwhile.look(marathon, phase)
    life = marathon.record(
        SessionStarted(
            iteration=iteration,
            phase=phase.id,
            agent=agent.name,
            runner=marathon.runner,
            output_mark=task.output_mark(phase.output),
            human=human_mark,
            steer=[steer.id for steer in life.steer],
            comments=[each.comment.id for each in brief.comments],
            guidance=list(step.guidance),
            reflects=step.reflect,
            warned=[budget for budget, _ in step.warnings],
            tree=project_before.tree if project_before else "",
            commit=project_before.commit if project_before else _checked_out(marathon) if iteration == 1 else "",
            head=project_before.head if project_before else "",
        )
    )
    marathon.emit(
        SessionBegan(
            life.run,
            marathon.where.iteration or iteration,
            phase.id,
            agent.name,
            phase.emoji,
            log,
            task=marathon.workbench.run.name if marathon.workbench else marathon.shown.name,
            max_iterations=_last_allowed(allowance.limits.max_iterations, life),
            max_cost=allowance.limits.max_cost,
            spent=life.used.cost,
        )
    )
    before, state_before, began = task.artifacts() - {HUMAN}, task.state_mark(), time.time()
    meter = Meter(marathon.emit, allowance)
    try:
        with awake(not marathon.options.allow_sleep):
            outcome = agent.run(_host(marathon, life, phase, prompt, log, meter))
    except AgentUnavailable as error:  # its program is gone since the first session
        outcome = Outcome("crashed", str(error), permanent=True)
    finally:
        put_right(marathon)
        if not task.exists():  # whatever else went wrong, this is why
            raise TaskInvalid(f"{marathon.shown} was removed while the marathon ran. The agent was stopped.")
    channel = marathon.channel.read()
    meter.warned += warned_in(channel)
    meter.quiet = False
    meter.warn()
    if outcome.ending == "stopped" and meter.stopped_for:
        outcome = replace(outcome, ending="limit", cause=f"{meter.stopped_for.flag} is used up")
    outcome = replace(outcome, usage=outcome.usage or meter.reported)
    asks = _wait_asked(channel.get("waitSeconds"), channel.get("waitReason")) or channel.get("feedbackQuestion")
    measured = marathon.workbench is not None
    # What the agent of a measured loop leaves in the tree says enough, and so do the boxes of a checklist.
    may_be_silent = measured or phase.checklist is not None
    silent = outcome.ending == "ended" and not asks and task.state_mark() == state_before
    writes = meanwhile.compare(marathon, phase, project_before) if project_before else unchecked
    artifacts = task.artifacts() - {HUMAN}
    changes = UNKNOWN if measured else changes_since(marathon.project, began, task.folder, artifacts)
    changes = Changes(changes.moved or before != artifacts, changes.files)
    if silent and not (changes.moved or changes.files):
        # Some programs end well whatever happens. What they said counts when there is no work beside it.
        outcome = replace(outcome, cause=one_line(outcome.last_words, 160))
        if failure_of(outcome.last_words).kind == "login":
            outcome = replace(outcome, ending="crashed", permanent=True)
    if outcome.ending == "ended" and outcome.stop_reason in _EARLY:
        marathon.tell(f"The agent's turn ended early: {outcome.stop_reason}.", "warning")
    if silent and not may_be_silent and outcome.ending == "ended":
        marathon.tell("The agent did not update STATE.json, so this phase continues.", "warning")
    observe(marathon, phase, outcome, channel, changes, meter.warned, writes)


def observe(
    marathon: Marathon,
    phase: Phase,
    outcome: Outcome,
    channel: Mapping[str, Any],
    changes: Changes = UNKNOWN,
    warned: Sequence[str] = (),
    writes: Writes | None = None,
) -> None:
    """Read what the agent left and put it into the journal; also for a session whose runner was killed."""
    life = marathon.life
    state, invalid = _read_state(marathon, phase)
    mark = marathon.task.output_mark(phase.output)
    output: Literal["fresh", "stale", "missing"] = "fresh" if mark != life.round_mark else "stale"
    wait, question, rating = _asked(channel, state)
    ended = SessionEnded(
        ending=outcome.ending,
        cause=clean(outcome.cause),
        seconds=round(outcome.seconds, 3),
        proposal=Proposal(state=state.state, phase=state.phase, note=_text(state.note)) if state else None,
        invalid=invalid,
        output=output if mark else "missing",
        changed=changes.moved or not set(changes.files) <= last_contents(life.contents),
        wait=wait,
        question=question,
        usage=outcome.usage,
        stopReason=outcome.stop_reason,
        permanent=outcome.permanent,
        retry_after=outcome.retry_after,
        outage=outcome.outage and marathon.options.limits.outage > 0,
        steered=list(outcome.steered),
        signal=outcome.signal,
        steps=marathon.task.steps(phase.checklist),
        files=list(changes.files),
        rating=rating,
        warned=list(warned),
        sessionId=one_line(channel.get("sessionId") or outcome.session, 100),
        denied=clean(outcome.denied),
        writes=writes,
        documents=digests(marathon),
        loop=state is not None and (state.model_extra or {}).get("loop") is True,
    )
    life = marathon.record(ended)
    marathon.emit(
        events.SessionEnded(
            life.iteration,
            phase.id,
            ended.ending,
            ended.cause,
            ended.seconds,
            outcome.usage,
            steps_line(life.steps),
        )
    )
    if ended.denied and ended.proposal and ended.proposal.state == "running":  # else a gate says it
        marathon.tell(ended.denied, "warning")


def warned_in(channel: Mapping[str, Any]) -> list[str]:
    """The budgets that our extension in pi warned of."""
    told = channel.get("warned")
    return [budget.field for budget in BUDGETS if budget.field in told] if isinstance(told, list) else []


def _allowance(marathon: Marathon, warned: Sequence[str]) -> Allowance:
    """What the next session may use."""
    life = marathon.life
    limits = with_amounts(marathon.options.limits, life.limits, life.added)
    return Allowance(limits, life.used, (*life.warned, *warned))


def _last_allowed(limit: int, life: Life) -> int:
    """The number of the last session that a limit allows. The limit counts from when a human last allowed more."""
    return life.iteration + limit - life.used.sessions if limit else 0


def _host(marathon: Marathon, life: Life, phase: Phase, prompt: str, log: str, meter: Meter) -> Host:
    def new_steering() -> list[Steer]:
        known = {steer.id for steer in marathon.life.steer}
        return [steer for steer in take_steering(marathon).steer if steer.id not in known]

    def steer(text: str, for_next_session: bool) -> Steer | None:
        message = marathon.store.put("steer", text=text, later=for_next_session)
        return None if for_next_session else next((one for one in new_steering() if one.id == message), None)

    def on_tick() -> bool:
        marathon.emit.log.turn_over()  # pi writes to it too, in its own terminal
        return marathon.stops.now()

    usage_file = marathon.task.runs.session_path(life.run, "prompts", life.iteration, "usage.jsonl")
    env = environment(marathon, life, phase.id, prompt)
    if marathon.options.sandbox:
        env[WRAP] = for_session(marathon, phase, prompt, log, usage_file)
    return Host(
        project=marathon.project,
        prompt=prompt,
        env=env,
        lock_fd=marathon.lease.fd,
        signals=marathon.signals,
        emit=meter.emit,
        on_tick=on_tick,
        timeout=marathon.options.limits.session_timeout or None,
        start=run,
        mail=marathon.channel.read,
        new_steering=new_steering,
        steer=steer,
        meter=meter,
        log=log,
        detach=partial(detach, marathon) if may_detach(marathon) else None,
        usage_file=usage_file,
        line=marathon.line if marathon.surface.interactive else None,
    )


def _read_state(marathon: Marathon, phase: Phase) -> tuple[TaskState | None, str | None]:
    """What STATE.json says, and why it cannot be used. An invalid one is kept aside, and the last good one restored."""
    reason = "it was removed"
    try:
        state = marathon.task.read_state()
        if state is not None:
            known = [*marathon.where.phases, DONE]
            if state.phase == phase.id or state.phase in known:
                return state, None
            reason = f"field phase: {clean(state.phase)[:60]!r} is not one of {', '.join(known)}"
    except StateInvalid as error:
        reason = clean(str(error))
    _set_aside(marathon, reason)
    good = TaskState(state="running", phase=phase.id, iteration=marathon.life.iteration)
    marathon.task.write_state(good.written(marathon.clock()))
    return None, reason


def _set_aside(marathon: Marathon, reason: str) -> None:
    kept = marathon.task.set_state_aside(marathon.clock())
    where = f" Its bytes are kept as {kept}." if kept else ""
    marathon.tell(f"STATE.json was not valid: {reason}.{where} The last good state is restored.", "warning")


def _asked(channel: Mapping[str, Any], state: TaskState | None) -> tuple[WaitAsked | None, str | None, Rating | None]:
    """What the agent asked for: through its tools, or, without them, through extra fields of STATE.json."""
    extra = (state.model_extra if state else None) or {}
    wait = _wait_asked(channel.get("waitSeconds"), channel.get("waitReason"))
    in_state = extra.get("wait")
    if wait is None and isinstance(in_state, Mapping) and _is_number(in_state.get("minutes")):
        wait = _wait_asked(in_state["minutes"] * 60, in_state.get("reason"))
    question = _text(channel.get("feedbackQuestion"))
    if question is None and isinstance(extra.get("question"), str) and extra["question"].strip():
        question = _text(extra["question"])
    return wait, question, rating_in(extra.get("rating"))


def _wait_asked(seconds: object, reason: object) -> WaitAsked | None:
    if not _is_number(seconds) or not isinstance(seconds, int | float) or not seconds > 0:
        return None
    within = min(max(float(seconds), SHORTEST_WAIT), LONGEST_WAIT)
    return WaitAsked(seconds=within, reason=_text(reason) or "")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str | None:
    """A text out of an untrusted file, without what a terminal would act on."""
    return clean(value)[:LONGEST_TEXT] if isinstance(value, str) else None
