"""The implement phase: one chunk of plan.md in each session, and result.md when no chunk is left."""

from marathon.agents.rehearsal.chunk import Done, carry_out
from marathon.agents.rehearsal.draft import step_for_test
from marathon.agents.rehearsal.files import leave_state, read_text, write_text
from marathon.agents.rehearsal.heed import Heeded, bullet, heed
from marathon.agents.rehearsal.prompt import asks
from marathon.agents.rehearsal.report import log, result
from marathon.agents.rehearsal.session import Session
from marathon.agents.rehearsal.steps import Step, append, heed_step, readme_step, spare, steps, tick
from marathon.agents.rehearsal.survey import Survey, survey


def run(session: Session) -> None:
    plan = read_text(session.artifact("plan.md")) or ""
    if not steps(plan):
        _leave(session, "paused", "plan.md has no steps (- [ ] …) to work on: it is to be planned again")
        return
    session.say("reading research.md and plan.md")
    heeded = _heed(session)
    _work(session, [bullet(each) for each in heeded])


def _heed(session: Session) -> list[Heeded]:
    """Write what is new from the human into plan.md, so that this session and the next follow it."""
    found = survey(session.project, session.task)
    heeded = [heed(ask, found) for ask in asks(session.prompt)]
    plan = read_text(session.artifact("plan.md")) or ""
    for each in heeded:
        session.say(f"heeding {each.ask.kind}: {each.ask.text}")
        plan = _amended(session, plan, each, found)
    if heeded:
        write_text(session.artifact("plan.md"), plan)
    return heeded


def _amended(session: Session, plan: str, heeded: Heeded, found: Survey) -> str:
    plan = spare(plan, heeded.leave)
    wanted = [step_for_test(session.project, found, each) for each in heeded.test if each.callable_in_a_test]
    wanted += [readme_step(heeded.readme)] if heeded.readme else []
    wanted += [heed_step(heeded)] if heeded.ask.kind != "mend" else []
    known = {step.text for step in steps(plan)}
    for text in wanted:
        plan = plan if text in known else append(plan, text)
    return plan


def _work(session: Session, told: list[str]) -> None:
    """Carry out the next chunk; one in which nothing is left to edit does not cost a session."""
    done: list[tuple[int, Done]] = []
    while True:
        number, todo = _next_chunk(session, {number for number, _ in done})
        if not todo:
            break
        session.say(f"chunk {number}: {len(todo)} steps")
        done.append((number, carry_out(session, number, todo)))
        last = done[-1][1]
        if last.broke:
            break
        _tick(session, last)
        if last.edits:
            break
        session.say(f"chunk {number}: nothing was left to edit, going on")
    log(session, told, done)
    _conclude(session, done)


def _next_chunk(session: Session, tried: set[int]) -> tuple[int, list[Step]]:
    """The first chunk with open steps this agent can do and has not just tried."""
    every = steps(read_text(session.artifact("plan.md")) or "")
    for number in sorted({step.chunk for step in every} - tried):
        todo = [step for step in every if step.chunk == number and not step.done]
        if any(step.kind for step in todo):
            return number, todo
    return 0, []


def _tick(session: Session, done: Done) -> None:
    plan = read_text(session.artifact("plan.md")) or ""
    for step, decided in done.acts:
        if decided.done:
            plan = tick(plan, step)
    write_text(session.artifact("plan.md"), plan)


def _conclude(session: Session, done: list[tuple[int, Done]]) -> None:
    if done and done[-1][1].broke:
        _leave(session, "paused", f"Chunk {done[-1][0]} made the tests fail and was taken back - see work.md")
        return
    number, todo = _next_chunk(session, {number for number, _ in done})
    if todo:
        _leave(session, "running", f"Chunk {done[-1][0]} done, chunk {number} is next")
        return
    write_text(session.artifact("result.md"), result(session))
    session.say("wrote result.md")
    _leave(session, "completed", "Every chunk of the plan is done - see result.md")


def _leave(session: Session, state: str, note: str) -> None:
    phase = "done" if state == "completed" else "implement"
    session.say(f"{state}: {note}")
    leave_state(session.task, state, phase, session.iteration, note)
