"""The loop: read what is known, decide the next step, act, record."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from marathon.agents.base import Outcome
from marathon.core.budgets import Usage
from marathon.core.completion import account
from marathon.core.courses.workflow import DONE
from marathon.core.decide import next_step
from marathon.core.events import HumanNeeded, usage_of
from marathon.core.gates import WAITS_FOR_HUMAN
from marathon.core.names import called
from marathon.core.records import AgentTakesOver, Cancelled, Finished, Gate
from marathon.core.steps import AddRow, Finish, Halt, Measure, Note, Prepare, RunSession, Verify, Wait
from marathon.core.text import counted, duration, steps_line
from marathon.git.writes import Before
from marathon.process.signals import Interrupted
from marathon.runner import definition, gates, meanwhile, verify
from marathon.runner.session import observe, run_session, update_state, warned_in
from marathon.runner.waiting import closed_for, wait
from marathon.store.agent_channel import channel_of
from marathon.store.events import follow
from marathon.surfaces.gate_text import with_option

if TYPE_CHECKING:
    from marathon.runner.marathon import Marathon

COMPLETED = 0


def run(marathon: Marathon) -> int:
    """The exit code: of a finish, of a gate that no one answers, of a stop or an interruption."""
    try:
        return _run(marathon)
    except Interrupted as end:
        marathon.tell(f"Interrupted; everything is saved. To continue: {marathon.resume}")
        return 128 + end.signum
    except EOFError:
        marathon.tell(f"No answer; it still waits for you. To continue: {marathon.resume}")
        # A closed window comes as a signal and as the end of input. The signal is what it was.
        return 128 + signal.SIGHUP if marathon.signals.pending(signal.SIGHUP) else WAITS_FOR_HUMAN


def _run(marathon: Marathon) -> int:
    _recover(marathon)
    if marathon.life.iteration == 0 or not marathon.snapshots.exists():
        marathon.snapshots.take()
    while not marathon.stops.asked():
        marathon.signals.obey()  # whatever the steps do, none of them may keep a human from ending it
        definition.recheck(marathon)
        verify.recheck(marathon)
        marathon.anew()
        match next_step(marathon.life, marathon.course, marathon.options.limits, closed_for(marathon)):
            case RunSession() as step:
                run_session(marathon, step)
                _pass_interruption_on(marathon)
            case Gate() as gate:
                code = gates.resolve(marathon, gate)
                if code is not None:
                    return code
            case Wait() as step:
                wait(marathon, step)
            case Note(record=AgentTakesOver() as record):
                marathon.tell(f"{record.after} cannot continue ({record.cause}). {record.agent} takes over.", "warning")
                marathon.record(record)
            case Note() as step:
                marathon.record(step.record)
            case Prepare() as step:
                verify.prepare(marathon, step)
            case Verify() as step:
                verify.verify(marathon, step)
            case Measure() | AddRow() as step:
                assert marathon.workbench
                marathon.workbench.act(marathon, step)
            case Finish() as step:
                return _finish(marathon, step)
            case Halt():
                return _halt(marathon)
    if marathon.stops.cancels:
        return _cancel(marathon, marathon.stops.cancels)
    marathon.tell(f"Stopped on request; everything is saved. To continue: {marathon.resume}")
    return WAITS_FOR_HUMAN


def _cancel(marathon: Marathon, message: str) -> int:
    """Someone cancelled this run from another shell."""
    life = marathon.life
    if not (life.finished or life.cancelled):
        update_state(marathon, life.phase, life.iteration, state="paused")
        marathon.record(Cancelled())
    marathon.store.remove(message)  # the journal has it
    return _halt(marathon)


def _halt(marathon: Marathon) -> int:
    marathon.tell(f"This run was cancelled. To start again: {_again(marathon)}")
    return WAITS_FOR_HUMAN


def _recover(marathon: Marathon) -> None:
    """A session whose runner was killed is observed now, so that finished work is not done again."""
    life, phase = marathon.life, marathon.where.phase
    if life.session is None or phase is None:
        return
    channel = channel_of(marathon.channel.folder, life.session.runner)
    left = channel.read() if channel else {}
    if (left.get("run"), left.get("iteration")) != (life.run, life.session.iteration):
        left = {}  # it belongs to another session; a power cut may bring it back
    seconds = marathon.task.runs.worked(life.run, life.session.iteration, life.session.at)
    log = marathon.task.runs.session_path(life.run, "events", life.session.iteration, "jsonl")
    usage = usage_of(follow(log))
    outcome = Outcome("lost", "the runner was killed", seconds, usage if usage != Usage() else None)
    writes = None
    if life.session.tree:
        before = Before(life.session.tree, life.session.commit, life.session.head)
        writes = meanwhile.compare(marathon, phase, before, lost=True)
    observe(marathon, phase, outcome, left, warned=warned_in(left), writes=writes)
    if channel is not None:
        channel.remove()


def _pass_interruption_on(marathon: Marathon) -> None:
    ended = marathon.life.ended
    if ended is not None and ended.ending == "interrupted":
        raise Interrupted(signal.Signals[ended.cause])


def _finish(marathon: Marathon, step: Finish) -> int:
    if step.recorded:
        marathon.tell(f"This task is completed. To start it again: {_again(marathon)}")
        return COMPLETED
    update_state(marathon, DONE, marathon.life.iteration, state="completed")
    marathon.record(Finished(accepted=list(step.accepted)))
    marathon.tell(f"✅ Completed: {marathon.shown} ({_account(marathon)})")
    if (marathon.task.folder / "result.md").exists():
        marathon.tell(f"The result: {marathon.shown / 'result.md'}")
    marathon.emit(HumanNeeded(f"{called(marathon.shown.parts)} is completed"))
    if late := sum(message.kind == "steer" for message in marathon.store.messages()):
        came = f"{counted(late, 'message')} of yours came after the last session began"
        marathon.tell(f"{came}. To have them read: {_again(marathon)}", "warning")
    return COMPLETED


def _account(marathon: Marathon) -> str:
    """5 sessions, 3m of work, $1.20, 2 criteria ran, 1 the agent says is met, 9/9 steps, plan was not reviewed"""
    life = marathon.life
    parts = [counted(life.iteration, "session"), f"{duration(life.run_seconds)} of work"]
    if life.usage.cost:
        parts.append(f"${life.usage.cost:.2f}")
    if marathon.workbench is None:
        parts += account(life.checked.results, life.accepted) if life.checked else ["nothing was checked"]
    unseen = [review.phase for review in marathon.where.reviews if not review.by_human]
    not_reviewed = f"not reviewed: {' and '.join(unseen)}" if unseen else ""
    return ", ".join([*parts, *filter(None, [steps_line(life.steps), not_reviewed])])


def _again(marathon: Marathon) -> str:
    return with_option(marathon.resume, '-h "what else to do"')
