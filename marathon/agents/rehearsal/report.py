"""What implementing leaves for the human to read: work.md, session by session, and result.md at the end."""

import re
from collections.abc import Iterator

from marathon.agents.rehearsal.checks import command_line, run_tests
from marathon.agents.rehearsal.chunk import Done
from marathon.agents.rehearsal.files import read_text, write_text
from marathon.agents.rehearsal.heed import quoted
from marathon.agents.rehearsal.session import Session
from marathon.agents.rehearsal.steps import Step, steps
from marathon.agents.rehearsal.survey import survey

_SESSION = re.compile(r"^## Session \d+", re.MULTILINE)


def log(session: Session, told: list[str], done: list[tuple[int, Done]]) -> None:
    """Append this session to work.md, whose history is never touched."""
    history = read_text(session.artifact("work.md")) or "# Work\n"
    number = len(_SESSION.findall(history)) + 1
    entry = "\n".join(_entry(session, number, told, done))
    write_text(session.artifact("work.md"), f"{history.rstrip()}\n\n{entry}")
    session.say(f"wrote work.md, session {number}")


def _entry(session: Session, number: int, told: list[str], done: list[tuple[int, Done]]) -> Iterator[str]:
    yield f"## Session {number} (run {session.run}, iteration {session.iteration})"
    yield ""
    if told:
        yield from ("What you asked for:", "", *told, "")
    if not done:
        yield from ("No step was left to do.", "")
    for chunk, each in done:
        yield from (f"### Chunk {chunk}", "")
        for step, decided in each.acts:
            yield f"- Step {step.number}: {step.text}{f' → {decided.words}' if decided.words else ''}"
        yield f"- Files: {quoted(edit.path for edit in each.edits) or 'none'}"
        yield f"- Tests: {each.verdict.words}"
        yield f"- Commit: {each.commit.id or f'none, {each.commit.why_not}'}"
        yield ""


def result(session: Session) -> str:
    """The outcome of this run, from what plan.md and work.md say and a last run of the tests."""
    every = steps(read_text(session.artifact("plan.md")) or "")
    work = _this_run(session)
    commits = re.findall(r"^- Commit: ([0-9a-f]{4,})$", work, re.MULTILINE)
    files = re.findall(r"`([^`]+)`", " ".join(re.findall(r"^- Files: (.*)$", work, re.MULTILINE)))
    found = survey(session.project, session.task)
    command = command_line(session.project, found)
    verdict = run_tests(session.project, found).words
    asked = [step for step in every if step.kind == "heed"]
    done = [step for step in every if step.done and step.kind not in ("heed", "tests")]
    parts = {
        "What was done": [step.text for step in done] or ["Nothing was left to do."],
        "What you asked for": [step.text.removeprefix("Heed ") for step in asked],
        "Files": [f"`{path}`" for path in dict.fromkeys(files)] or ["none were changed"],
        "Commits": commits or ["none: see work.md for the reason"],
        "How it was verified": [f"`{command}`: {verdict}" if command else verdict],
        "Left open": _left_open(every),
    }
    lines = [f"# Result: {session.title()}", ""]
    for heading, entries in parts.items():
        if entries:
            lines += [f"## {heading}", "", *(f"- {entry}" for entry in entries), ""]
    return "\n".join(lines)


def _left_open(every: list[Step]) -> list[str]:
    return [f"Step {step.number}: {step.text}" for step in every if not step.done]


def _this_run(session: Session) -> str:
    work = read_text(session.artifact("work.md")) or ""
    entries = re.split(r"(?m)^(?=## Session )", work)
    return "".join(entry for entry in entries if f"(run {session.run}, " in entry.partition("\n")[0])
