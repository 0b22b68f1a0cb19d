"""The implement phase: one chunk of plan.md in each session, and result.md when no chunk is left."""

import os
import re
import subprocess
import sys
from typing import NamedTuple

from marathon.agents.rehearsal.edits import document, module_of, unit_test
from marathon.agents.rehearsal.files import leave_state, write_text
from marathon.agents.rehearsal.git import commit, git, is_changed
from marathon.agents.rehearsal.heed import answers, asks, spared
from marathon.agents.rehearsal.judge import judgements
from marathon.agents.rehearsal.session import Session
from marathon.agents.rehearsal.survey import public_functions, survey

STEP = re.compile(r"^- \[ \] (\d+)\. (.*)$", re.MULTILINE)
DOCSTRINGS = re.compile(r"Add docstrings in `([^`]+)`: (.*)")
TEST = re.compile(r"Write `([^`]+)`: a unit test for `(\w+)` of `([^`]+)`")


class Edit(NamedTuple):
    path: str
    before: str | None
    after: str
    words: str


def run(session: Session) -> None:
    plan = session.read("plan.md")
    if not re.search(r"^- \[[ xX]\] ", plan, re.MULTILINE):
        leave_state(session, "paused", "implement", "plan.md has no steps to work on: it is to be planned again")
        return
    session.say("reading research.md and plan.md")
    chunk = next((part for part in re.split(r"(?m)^(?=## Chunk )", plan) if STEP.search(part)), "")
    if chunk and not _do(session, plan, chunk):
        leave_state(session, "paused", "implement", "The edits made the tests fail and were taken back - see work.md")
        return
    if STEP.search(session.read("plan.md")):
        leave_state(session, "running", "implement", "This chunk is done, the next one follows")
        return
    log = git(session.project, "log", "--oneline", "-10", "--grep=^rehearsal:")
    done = f"# Result: {session.title()}\n\nEvery step of plan.md is done; work.md tells how.\n\n"
    write_text(session.task / "result.md", done + (f"Commits:\n\n{log.text}" if log.ok else "Nothing was committed.\n"))
    session.say("wrote result.md")
    note = "Every chunk of the plan is done - see result.md"
    leave_state(session, "completed", "done", note, judgements(session))


def _do(session: Session, plan: str, chunk: str) -> bool:
    """Carry out the open steps of a chunk; False if that broke tests, and nothing is left of it."""
    new = asks(session.prompt)
    found = survey(session.project, session.task)
    said = answers(new, found)
    for line in said:
        session.say(line.removeprefix("- "))
    spare = spared([session.read("human.md"), *(ask.text for ask in new)], found)
    before = _tests(session)
    edits = [edit for _, step in STEP.findall(chunk) if (edit := _edit(session, step, spare)) is not None]
    committable = [edit.path for edit in edits if edit.before is None or not is_changed(session.project, edit.path)]
    for edit in edits:
        session.say(f"editing {edit.path}: {edit.words}")
        write_text(session.project / edit.path, edit.after)
    after = _tests(session)
    if before[0] and not after[0]:
        _take_back(session, edits)
        _log(session, [*said, f"- tests after the edits: {after[1]}", "- the edits were taken back"])
        return False
    title = (re.match(r"## (.*)", chunk) or [chunk, "chunk"])[1]
    commits = commit(session.project, committable, f"rehearsal: {title}")
    session.say(commits)
    _log(session, [*said, *(f"- {edit.path}: {edit.words}" for edit in edits), f"- tests: {after[1]}", f"- {commits}"])
    write_text(session.task / "plan.md", plan.replace(chunk, chunk.replace("- [ ] ", "- [x] ")))
    return True


def _edit(session: Session, step: str, spare: set[str]) -> Edit | None:
    """What a step does to one file of the project; nothing for steps that edit nothing."""
    documenting, testing = DOCSTRINGS.match(step), TEST.match(step)
    path = (documenting or testing or ("", ""))[1]
    target = session.project / path
    if not path or path in spare or not target.resolve().is_relative_to(session.project.resolve()):
        return None
    if documenting and target.is_file():
        names = [name for name in re.findall(r"`(\w+)`", documenting[2]) if name not in spare]
        before = target.read_bytes().decode("utf-8")
        after = document(before, names)
        return Edit(path, before, after, f"documented {', '.join(names)}") if after != before else None
    source = session.project / testing[3] if testing else target
    if testing and not target.exists() and source.is_file():
        functions = public_functions(source.read_bytes().decode("utf-8"))
        node = next((each for each in functions if each.name == testing[2]), None)
        words = f"wrote a test for {testing[2]}"
        return Edit(path, None, unit_test(module_of(testing[3]), node), words) if node is not None else None
    return None


def _tests(session: Session) -> tuple[bool, str]:
    """Run the project's tests; none at all is no failure."""
    command = survey(session.project, session.task).test_command
    if not command:
        return True, "there are no tests to run"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONSAFEPATH", None)
    done = subprocess.run(
        [sys.executable, *command], cwd=session.project, env=environment, capture_output=True, text=True, check=False
    )
    ran = re.search(r"^Ran \d+ tests?", done.stderr, re.MULTILINE)
    words = f"{ran[0].lower() if ran else 'nothing ran'}, {'passed' if done.returncode == 0 else 'failed'}"
    session.say(f"tests: {words}")
    return done.returncode == 0, words


def _take_back(session: Session, edits: list[Edit]) -> None:
    for edit in edits:
        session.say(f"taking back {edit.path}")
        if edit.before is None:
            (session.project / edit.path).unlink(missing_ok=True)
        else:
            write_text(session.project / edit.path, edit.before)


def _log(session: Session, lines: list[str]) -> None:
    before = session.read("work.md") or "# Work\n"
    write_text(
        session.task / "work.md", "\n".join([before.rstrip(), "", f"## Session {session.iteration}", "", *lines, ""])
    )
