"""The loop: read what is known, decide the next step, act, record. Everything it needs is handed in."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from marathon.agents.base import Outcome
from marathon.core.budgets import Limits
from marathon.core.courses.workflow import WorkflowInvalid, current
from marathon.core.decide import next_step
from marathon.core.events import Notice
from marathon.core.life import Progress
from marathon.core.names import DONE
from marathon.core.records import Finished, Moved
from marathon.core.steps import Finish, Gate, Halt, Move, RunSession, Verify, Wait
from marathon.core.text import duration, steps_line
from marathon.process.signals import Interrupted
from marathon.runner.gates import WAITS_FOR_HUMAN, Gatekeeper
from marathon.runner.journal import Ledger
from marathon.runner.marathon import Workshop
from marathon.runner.session import observe, run_session, update_state
from marathon.runner.stops import Stops
from marathon.runner.verify import Verifier
from marathon.runner.waiting import wait
from marathon.store.agent_channel import channel_of
from marathon.surfaces.gate_text import with_option

COMPLETED = 0


@dataclass
class Runner:
    """One marathon, from where the journal left it to a finish, a gate nobody answers, or a stop."""

    shop: Workshop
    ledger: Ledger
    gatekeeper: Gatekeeper
    verifier: Verifier
    limits: Limits
    stops: Stops

    @property
    def progress(self) -> Progress:
        return self.ledger.progress

    def run(self) -> int:
        """The exit code. Interrupted is raised through: the state is saved at every step."""
        self._recover()
        self.gatekeeper.take_waiting_verdict()
        while True:
            if self.stops.asked():
                self._tell(f"Stopped on request; everything is saved. To go on: {self.shop.resume}")
                return WAITS_FOR_HUMAN
            self.verifier.look()
            step = next_step(self.progress, self.shop.definitions, self.limits)
            match step:
                case RunSession():
                    run_session(self.shop, self.progress, step)
                    self._pass_interruption_on()
                case Gate():
                    code = self.gatekeeper.attend(step)
                    if code is not None:
                        return code
                case Wait():
                    wait(self.shop, self.ledger, step, self.stops, keys=self.gatekeeper.desk.interactive)
                case Move():
                    path = [(segment.workflow, segment.place) for segment in step.position.path]
                    self.ledger.record(Moved(path=path, steps=step.position.steps, phase=step.phase))
                case Verify():
                    self.verifier.verify(step)
                case Finish():
                    return self._finish(step)
                case Halt():
                    self._tell(f"This run was cancelled. To start again: {self._again()}")
                    return WAITS_FOR_HUMAN

    def _recover(self) -> None:
        """A session that was under way when its runner died is observed now: finished work is not done again."""
        session = self.progress.session
        if session is None:
            return
        try:
            phase = current(self.shop.definitions, self.progress.position)
        except WorkflowInvalid:
            return
        mailbox = channel_of(self.shop.mailbox.folder, session.runner)
        mail = mailbox.read() if mailbox else {}
        if (mail.get("run"), mail.get("iteration")) != (self.progress.run, session.iteration):
            mail = {}  # of another session: a power cut may bring it back
        seconds = self.shop.task.runs.worked(self.progress.run, session.iteration, session.at)
        outcome = Outcome("lost", "the runner was killed", seconds)
        observe(self.shop, self.progress, phase, outcome, mail)
        if mailbox is not None:
            mailbox.remove()

    def _pass_interruption_on(self) -> None:
        ended = self.progress.ended
        if ended is not None and ended.ending == "interrupted":
            raise Interrupted(signal.Signals[ended.cause])

    def _finish(self, step: Finish) -> int:
        if step.recorded:
            self._tell(f"This task is completed. To start it again: {self._again()}")
            return COMPLETED
        update_state(self.shop, DONE, self.progress.iteration, state="completed")
        self.ledger.record(Finished())
        self._tell(f"✅ Completed: {self.shop.shown} ({self._account()})")
        if (self.shop.task.folder / "result.md").exists():
            self._tell(f"The result: {self.shop.shown / 'result.md'}")
        return COMPLETED

    def _account(self) -> str:
        """5 sessions, 3m of work, $1.20, 3 criteria met, 9/9 steps"""
        progress = self.progress
        parts = [f"{progress.iteration} sessions", f"{duration(progress.run_seconds)} of work"]
        if progress.usage.cost:
            parts.append(f"${progress.usage.cost:.2f}")
        parts.append(f"{len(progress.checked.results)} criteria met" if progress.checked else "nothing was checked")
        return ", ".join([*parts, *filter(None, [steps_line(progress.steps)])])

    def _tell(self, text: str) -> None:
        self.shop.emit(Notice(text))

    def _again(self) -> str:
        return with_option(self.shop.resume, '-h "what else to do"')
