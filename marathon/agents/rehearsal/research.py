"""The research phase: look at the whole project and write down what was really found."""

import re
from collections.abc import Iterator

from marathon.agents.rehearsal.checks import command_line
from marathon.agents.rehearsal.files import leave_state, read_text, write_text
from marathon.agents.rehearsal.git import changed_files, has_repository
from marathon.agents.rehearsal.heed import Heeded, bullet, carried, exclusions, heed, quoted
from marathon.agents.rehearsal.prompt import asks
from marathon.agents.rehearsal.rounds import Previous, changes, earlier_rounds, previous, title
from marathon.agents.rehearsal.session import Session
from marathon.agents.rehearsal.survey import Survey, survey

FINDING = re.compile(r"^- `([^`]+):(\d+)`(?: `([^`]+)`)?: (.+)$", re.MULTILINE)


def run(session: Session) -> None:
    session.say("reading instructions.md")
    found = survey(session.project, session.task, session.say)
    before = previous(read_text(session.artifact("research.md")))
    new = asks(session.prompt)
    for ask in new:
        session.say(f"heeding {ask.kind}: {ask.text}")
    heeded = [heed(ask, found) for ask in [*carried(before.text), *new]]
    write_text(session.artifact("research.md"), "\n".join(_document(session, found, before, heeded)))
    session.say(f"wrote research.md ({len(findings(found))} findings)")
    note = "Research complete - awaiting human review"
    leave_state(session.task, "paused", "research", session.iteration, note)


def findings(found: Survey) -> list[str]:
    """One line for each thing that could be better, with its place."""
    if not found.has_code:
        return [f"- `{path}:{line}`: untidy line ends" for path, line in found.untidy().items()]
    return [
        f"- `{each.path}:{each.line}` `{each.name}`: {', '.join(found.gaps(each))}"
        for each in found.functions
        if found.gaps(each)
    ]


def _document(session: Session, found: Survey, before: Previous, heeded: list[Heeded]) -> Iterator[str]:
    yield title("Research", before, session.title())
    yield ""
    yield f"Run {session.run}, iteration {session.iteration}. Read and counted, without a model."
    yield ""
    yield from _task(session, found)
    yield from ("## What you asked for", "")
    yield from [bullet(each) for each in heeded] or ["Nothing yet beyond the instructions."]
    yield ""
    old = [match.group() for match in FINDING.finditer(before.text)]
    yield from changes(before, old, findings(found), asks(session.prompt))
    yield from _files(found)
    yield from ("## Findings", "")
    yield from findings(found) or ["Nothing is missing."]
    yield from ("", "## Tests", "", _tests(session, found), "", "## Risks", "")
    yield from [f"- {risk}" for risk in _risks(session, found)] or ["None that can be seen from here."]
    yield ""
    yield from earlier_rounds(before)


def _task(session: Session, found: Survey) -> Iterator[str]:
    """The instructions in short: their goal, and what they say is off limits."""
    text = session.instructions()
    goal = re.search(r"^##? *Goal[^\n]*\n+(.+?)(?=\n\s*\n|\n#|\Z)", text, re.MULTILINE | re.DOTALL)
    prose = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    asked = " ".join(goal.group(1).split()) if goal else (prose[0] if prose else session.title())
    criteria = re.search(r"^##? *Success Criteria[^\n]*\n(.+?)(?=\n#|\Z)", text, re.M | re.DOTALL | re.IGNORECASE)
    yield from ("## What the task seems to ask", "", asked, "")
    if criteria:
        yield from ("It is done when:", "", criteria.group(1).strip(), "")
    off_limits = exclusions(text, found)
    if off_limits:
        yield from (f"Off limits, by the instructions: {quoted(off_limits)}.", "")
    archived = sorted(path.name for path in session.task.glob("research.*.md"))
    if archived:
        yield from (f"Earlier runs left: {quoted(archived)}.", "")


def _files(found: Survey) -> Iterator[str]:
    yield from ("## Files", "")
    yield from (
        "| File | Lines | Public functions | No docstring | No type hints | No test |",
        "|---|---|---|---|---|---|",
    )
    for file in found.files:
        gaps = [gap for each in file.functions for gap in found.gaps(each)]
        counts = [gaps.count(gap) for gap in ("no docstring", "no type hints", "no test")]
        shown = [len(file.functions), *counts] if file.is_python and not file.is_test else ["", "", "", ""]
        yield f"| `{file.path}` | {file.lines} | {' | '.join(map(str, shown))} |"
    if found.unread:
        yield f"\n{found.unread} more files were not read."
    yield ""


def _tests(session: Session, found: Survey) -> str:
    tests = [file.path for file in found.files if file.is_test]
    command = command_line(session.project, found)
    if command:
        return f"{quoted(tests)}; run with `{command}`."
    return f"{quoted(tests)}, not written for unittest." if tests else "There are no tests."


def _risks(session: Session, found: Survey) -> Iterator[str]:
    for file in found.files:
        if file.trouble:
            yield f"`{file.path}` {file.trouble}: left alone."
    if not has_repository(session.project):
        yield "This is not a git repository: nothing can be committed, and nothing taken back."
    else:
        changed = [path for path in changed_files(session.project) if found.file(path)]
        if changed:
            yield f"Uncommitted changes in {quoted(changed)}: edits there will not be committed."
    if found.has_code and not command_line(session.project, found):
        yield "No tests that can be run: only that the code still compiles can be checked."
    untried = [each.name for each in found.functions if "no test" in found.gaps(each) and not each.callable_in_a_test]
    if untried:
        yield f"Calling these to test them may do more than compute: {quoted(untried)}."
