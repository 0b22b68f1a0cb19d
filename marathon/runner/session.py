"""One session: gather what the agent must know, run it, and observe what it left. Judges nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from marathon.agents.base import Host, Outcome
from marathon.core import events
from marathon.core.breakers import last_contents
from marathon.core.courses.workflow import Phase
from marathon.core.decide import phase_ids
from marathon.core.events import Notice, SessionBegan
from marathon.core.life import Progress, Steer
from marathon.core.names import DONE, StateInvalid
from marathon.core.prompt import build_prompt
from marathon.core.records import Proposal, SessionEnded, SessionStarted, SteerTaken, WaitAsked
from marathon.core.state import TaskState
from marathon.core.steps import RunSession
from marathon.core.text import clean, one_line, steps_line
from marathon.errors import TaskInvalid
from marathon.git.changes import UNKNOWN, Changes, changes_since
from marathon.runner.marathon import Workshop
from marathon.runner.session_inputs import briefing, environment, mail
from marathon.store.files import write_new

SHORTEST_WAIT, LONGEST_WAIT = 60.0, 3600.0
LONGEST_TEXT = 20_000


def take_steering(shop: Workshop, progress: Progress, *, between: bool = False) -> Progress:
    """Move steering out of the inbox: into the journal first, then the file may go; some is for between sessions."""
    for message in shop.task.inbox.messages():
        if message.kind == "steer" and (between or not message.later):
            if message.id not in {steer.id for steer in progress.steer}:
                progress = shop.record(SteerTaken(id=message.id, text=message.text))
            shop.task.inbox.remove(message.id)
    return progress


def update_state(shop: Workshop, phase: str, iteration: int, *, forget: Sequence[str] = (), **changes: Any) -> None:
    """Rewrite STATE.json (no agent is alive) and keep the fields we do not know."""
    try:
        state = shop.task.read_state()
    except StateInvalid as error:
        _set_aside(shop, clean(str(error)))
        state = None
    state = state or TaskState(state="running", phase=phase)
    state = state.without(forget).written(shop.clock(), phase=phase, iteration=iteration, **changes)
    shop.task.write_state(state)


def run_session(shop: Workshop, progress: Progress, step: RunSession) -> Progress:
    """Start the agent, stream what it says, record how it ended."""
    task, phase = shop.task, step.phase
    progress = take_steering(shop, progress, between=True)
    iteration = progress.iteration + 1
    human, human_mark = task.new_from_human(progress.delivered)
    now = shop.clock()
    task.runs.make_room(progress.run, iteration, shop.keep_events)
    log = task.runs.session_path(progress.run, "events", iteration, "jsonl")
    shop.mailbox.prepare(mail(shop, phase.id, iteration, progress, now, log))
    # Verdicts are of the round they were given in; a new one judges anew.
    forget = () if progress.in_round else ("criteriaStatus", "criteriaEvidence")
    update_state(shop, phase.id, iteration, forget=forget, state="running", note=None)
    prompt = task.runs.session_path(progress.run, "prompts", iteration, "md")
    text = build_prompt(briefing(shop, progress, step, iteration, human, bool(human_mark.size)))
    write_new(prompt, text.encode("utf-8", "replace"))
    for _, warning in step.warnings:
        shop.emit(Notice(warning, "warning"))
    for guidance in step.guidance:
        shop.emit(Notice(f"The agent is told: {one_line(guidance, 300)}"))
    progress = shop.record(
        SessionStarted(
            iteration=iteration,
            phase=phase.id,
            agent=shop.agent.name,
            runner=shop.runner,
            output_mark=task.output_mark(phase.output),
            human=human_mark,
            steer=[steer.id for steer in progress.steer],
            guidance=list(step.guidance),
            reflects=step.reflect,
            warned=[budget for budget, _ in step.warnings],
        )
    )
    shop.emit(SessionBegan(progress.run, iteration, phase.id, shop.agent.name, phase.emoji, log))
    before, state_before, began = task.artifacts(), task.state_mark(), time.time()
    try:
        outcome = shop.agent.run(_host(shop, progress, phase.id, prompt))
    finally:
        if not task.exists():  # whatever else went wrong, this is why
            raise TaskInvalid(f"{shop.shown} was removed while the marathon ran. The agent was stopped.")
    mail_left = shop.mailbox.read()
    asks = _wait_asked(mail_left) or mail_left.get("feedbackQuestion")
    if outcome.ending == "ended" and not asks and task.state_mark() == state_before:
        shop.emit(Notice("The agent did not write STATE.json; that counts as: more of this phase is left.", "warning"))
    artifacts = task.artifacts()
    changes = changes_since(shop.project, began, task.folder, artifacts)
    changes = Changes(changes.moved or before != artifacts, changes.files)
    return observe(shop, progress, phase, outcome, mail_left, changes)


def observe(
    shop: Workshop,
    progress: Progress,
    phase: Phase,
    outcome: Outcome,
    mail: Mapping[str, Any],
    changes: Changes = UNKNOWN,
) -> Progress:
    """Read what the agent left and put it into the journal; also for a session whose runner was killed."""
    proposal, invalid = _read_proposal(shop, progress, phase)
    mark = shop.task.output_mark(phase.output)
    output: Literal["fresh", "stale", "missing"] = "fresh" if mark != progress.round_mark else "stale"
    ended = SessionEnded(
        ending=outcome.ending,
        cause=clean(outcome.cause),
        seconds=round(outcome.seconds, 3),
        proposal=proposal,
        invalid=invalid,
        output=output if mark else "missing",
        changed=changes.moved or not set(changes.files) <= last_contents(progress.contents),
        wait=_wait_asked(mail),
        question=_text(mail.get("feedbackQuestion")),
        usage=outcome.usage,
        stopReason=outcome.stop_reason,
        permanent=outcome.permanent,
        retry_after=outcome.retry_after,
        steered=list(outcome.steered),
        signal=outcome.signal,
        steps=shop.task.plan_steps(),
        files=list(changes.files),
    )
    progress = shop.record(ended)
    shop.emit(
        events.SessionEnded(
            progress.iteration,
            phase.id,
            ended.ending,
            ended.cause,
            ended.seconds,
            outcome.usage,
            steps_line(progress.steps),
        )
    )
    return progress


def _host(shop: Workshop, progress: Progress, phase: str, prompt: str) -> Host:
    def new_steering() -> list[Steer]:
        known = {steer.id for steer in shop.progress().steer}
        return [steer for steer in take_steering(shop, shop.progress()).steer if steer.id not in known]

    def steer(text: str, for_next_session: bool) -> Steer | None:
        message = shop.task.inbox.put("steer", text=text, later=for_next_session)
        return None if for_next_session else next((one for one in new_steering() if one.id == message), None)

    def on_tick() -> bool:
        shop.catch_up()
        return shop.stop_now()

    return Host(
        project=shop.project,
        prompt=prompt,
        env=environment(shop, progress, phase, prompt),
        lock_fd=shop.lock_fd,
        signals=shop.signals,
        emit=shop.emit,
        on_tick=on_tick,
        timeout=shop.timeout or None,
        start=shop.start,
        attended=shop.attended,
        mail=shop.mailbox.read,
        new_steering=new_steering,
        steer=steer,
    )


def _read_proposal(shop: Workshop, progress: Progress, phase: Phase) -> tuple[Proposal | None, str | None]:
    """What STATE.json proposes; an invalid one is kept aside and the last good state put in its place."""
    reason = "it was removed"
    try:
        state = shop.task.read_state()
        if state is not None:
            known = [*phase_ids(shop.definitions, progress.workflow), DONE] if state.phase != phase.id else [phase.id]
            if state.phase in known:
                return Proposal(state=state.state, phase=state.phase, note=_text(state.note)), None
            reason = f"field phase: {clean(state.phase)[:60]!r} is not one of {', '.join(known)}"
    except StateInvalid as error:
        reason = clean(str(error))
    _set_aside(shop, reason)
    good = TaskState(state="running", phase=phase.id, iteration=progress.iteration)
    shop.task.write_state(good.written(shop.clock()))
    return None, reason


def _set_aside(shop: Workshop, reason: str) -> None:
    kept = shop.task.set_state_aside(shop.clock())
    where = f" Its bytes are kept as {kept}." if kept else ""
    shop.emit(Notice(f"STATE.json was not valid: {reason}.{where} The last good state is restored.", "warning"))


def _wait_asked(mail: Mapping[str, Any]) -> WaitAsked | None:
    seconds = mail.get("waitSeconds")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        return None
    within = min(max(float(seconds), SHORTEST_WAIT), LONGEST_WAIT)
    return WaitAsked(seconds=within, reason=_text(mail.get("waitReason")) or "")


def _text(value: object) -> str | None:
    """A text out of an untrusted file, without what a terminal would act on."""
    return clean(value)[:LONGEST_TEXT] if isinstance(value, str) else None
