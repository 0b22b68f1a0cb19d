"""One chunk of the plan, carried out: edits, the tests before and after them, and the commit."""

from typing import NamedTuple

from marathon.agents.rehearsal.acts import Act, Change, act
from marathon.agents.rehearsal.checks import Verdict, run_tests
from marathon.agents.rehearsal.files import write_text
from marathon.agents.rehearsal.git import Commit, commit, committed_text, has_repository, is_changed
from marathon.agents.rehearsal.session import Session
from marathon.agents.rehearsal.steps import Step
from marathon.agents.rehearsal.survey import survey


class Edit(NamedTuple):
    path: str
    before: str | None
    after: str
    mine: bool


class Done(NamedTuple):
    """What came of a chunk; `broke` says that its edits made the tests fail and were taken back."""

    acts: list[tuple[Step, Act]]
    edits: list[Edit]
    verdict: Verdict
    commit: Commit
    broke: bool


def carry_out(session: Session, number: int, todo: list[Step]) -> Done:
    """Do the steps in order; commit what was edited if the tests are no worse for it."""
    start = _tested(session, "before the edits")
    acts: list[tuple[Step, Act]] = []
    edits: list[Edit] = []
    for step in todo:
        decided = act(session, step) if step.kind != "tests" else Act(True, "")
        edit = _edit(session, decided.path, decided.change) if decided.change else None
        if edit and edit.before != edit.after:
            session.say(f"editing {edit.path}: {decided.words}")
            write_text(session.project / edit.path, edit.after)
        elif step.kind != "tests":
            session.say(f"step {step.number}: {decided.words or step.text}")
        edits += [edit] if edit else []
        acts.append((step, decided))
    verdict = _tested(session, "after the edits") if edits else start
    if verdict.failed - start.failed:
        _take_back(session, edits)
        return Done(acts, [], verdict, Commit("", "the edits were taken back"), broke=True)
    told = [(step, each._replace(words=verdict.words) if step.kind == "tests" else each) for step, each in acts]
    return Done(told, edits, verdict, _committed(session, number, edits), broke=False)


def _tested(session: Session, when: str) -> Verdict:
    verdict = run_tests(session.project, survey(session.project, session.task))
    session.say(f"tests {when}: {verdict.words}")
    return verdict


def _edit(session: Session, path: str, change: Change) -> Edit | None:
    """What the change does to the file as it is; None where it does nothing.

    A file changed but not committed is ours only if this very change, in a session cut short, made it so.
    """
    target = session.project / path
    before = target.read_bytes().decode("utf-8") if target.is_file() else None
    after = change(before)
    if after is None:
        return None
    if not has_repository(session.project):
        return Edit(path, before, after, mine=False) if after != before else None
    if before is None or not is_changed(session.project, path):
        return Edit(path, before, after, mine=True) if after != before else None
    committed = committed_text(session.project, path)
    mine = change(committed) == before
    return Edit(path, before, after, mine) if mine or after != before else None


def _take_back(session: Session, edits: list[Edit]) -> None:
    for edit in reversed(edits):
        session.say(f"taking back {edit.path}")
        if edit.before is None:
            (session.project / edit.path).unlink()
        else:
            write_text(session.project / edit.path, edit.before)


def _committed(session: Session, number: int, edits: list[Edit]) -> Commit:
    mine = list(dict.fromkeys(edit.path for edit in edits if edit.mine))
    if not edits:
        return Commit("", "nothing was edited")
    if not has_repository(session.project):
        return Commit("", "this is not a git repository")
    if not mine:
        return Commit("", "the edited files have uncommitted changes of yours")
    made = commit(session.project, mine, f"rehearsal: chunk {number}, {', '.join(mine)}")
    session.say(f"committed {made.id}" if made.id else f"not committed: {made.why_not}")
    return made
