"""The plan phase: plan.md with two chunks of concrete steps, made from research.md as the human left it."""

from collections.abc import Iterator

from marathon.agents.rehearsal.draft import Draft, Wishes, draft
from marathon.agents.rehearsal.files import leave_state, read_text, write_text
from marathon.agents.rehearsal.heed import Heeded, bullet, carried, exclusions, heed
from marathon.agents.rehearsal.prompt import asks
from marathon.agents.rehearsal.research import FINDING, findings
from marathon.agents.rehearsal.rounds import Previous, changes, earlier_rounds, previous, title
from marathon.agents.rehearsal.session import Session
from marathon.agents.rehearsal.steps import steps
from marathon.agents.rehearsal.survey import Survey, survey

MOST_LEFT_OUT = 20
EDGE_CASES = """\
- A function with a docstring by then, or gone, is passed over.
- If tests fail after an edit and did not before it, the edit is taken back and the marathon pauses.
- Files with your own uncommitted changes are edited but not committed."""


def run(session: Session) -> None:
    research = read_text(session.artifact("research.md"))
    session.say("reading research.md" if research else "research.md is missing: looking for myself")
    found = survey(session.project, session.task)
    before = previous(read_text(session.artifact("plan.md")))
    new = asks(session.prompt)
    for ask in new:
        session.say(f"heeding {ask.kind}: {ask.text}")
    known = [*carried(previous(research).text), *carried(before.text)]
    heeded = [heed(ask, found) for ask in dict.fromkeys([*known, *new])]
    drafted = draft(session.project, found, _wishes(session, found, previous(research).text, heeded))
    write_text(session.artifact("plan.md"), "\n".join(_document(session, before, drafted, heeded)))
    session.say(f"wrote plan.md ({len(drafted.first) + len(drafted.second)} steps in 2 chunks)")
    leave_state(session.task, "paused", "plan", session.iteration, "Plan ready - awaiting human review")


def _wishes(session: Session, found: Survey, research: str, heeded: list[Heeded]) -> Wishes:
    """A finding the human took out of research.md is not planned for."""
    trusted = research if "## Findings" in research else "\n".join(findings(found))
    spared = {*exclusions(session.instructions(), found), *(name for each in heeded for name in each.leave)}
    return Wishes([(path, name, what) for path, _, name, what in FINDING.findall(trusted)], spared, heeded)


def _document(session: Session, before: Previous, drafted: Draft, heeded: list[Heeded]) -> Iterator[str]:
    yield title("Plan", before, session.title())
    yield ""
    yield f"Run {session.run}, iteration {session.iteration}. Made from research.md; edit it freely."
    yield from ("", "## Chunk 1: put right what is there", "")
    yield from (f"- [ ] {number}. {step}" for number, step in enumerate(drafted.first, 1))
    yield from ("", "## Chunk 2: add what is missing", "")
    yield from (f"- [ ] {number}. {step}" for number, step in enumerate(drafted.second, len(drafted.first) + 1))
    yield from ("", "## What you asked for", "")
    yield from [bullet(each) for each in heeded] or ["Nothing yet beyond the instructions."]
    yield ""
    old = [step.text for step in steps(before.text)]
    yield from changes(before, old, [*drafted.first, *drafted.second], asks(session.prompt))
    yield from ("## Edge cases", "", EDGE_CASES, "")
    if drafted.left_out:
        yield from ("## Left out, and why", "", *(f"- {each}" for each in drafted.left_out[:MOST_LEFT_OUT]))
        more = len(drafted.left_out) - MOST_LEFT_OUT
        yield f"- and {more} more of these.\n" if more > 0 else ""
    yield from earlier_rounds(before)
