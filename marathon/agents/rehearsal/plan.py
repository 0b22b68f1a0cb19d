"""The plan phase: plan.md with two chunks of concrete steps; it is the only memory between the sessions after it."""

import re
from pathlib import Path

from marathon.agents.rehearsal.files import leave_state, write_text
from marathon.agents.rehearsal.heed import asks, spared
from marathon.agents.rehearsal.research import head
from marathon.agents.rehearsal.session import Session
from marathon.agents.rehearsal.survey import Survey, survey

FINDING = re.compile(r"^- `([^`]+):\d+` `(\w+)`: (.+)$", re.MULTILINE)


def run(session: Session) -> None:
    session.say("reading research.md")
    found = survey(session.project, session.task)
    chunks = _chunks(session, found)
    write_text(session.task / "plan.md", _document(session, chunks))
    session.say(f"wrote plan.md ({sum(map(len, chunks))} steps in 2 chunks)")
    leave_state(session, "paused", "plan", "Plan ready - awaiting human review")


def _chunks(session: Session, found: Survey) -> tuple[list[str], list[str]]:
    """Docstrings first, then a test; from research.md as the human left it, without what is to be left alone."""
    research = session.read("research.md")
    said = [ask.text for ask in asks(session.prompt)]
    spare = spared([session.read("instructions.md"), session.read("human.md"), *said], found)
    wanted = [(path, name, gap) for path, name, gap in FINDING.findall(research) if not spare & {path, name}]
    files = dict.fromkeys(path for path, _, gap in wanted if "no docstring" in gap)
    first = [
        f"Add docstrings in `{path}`: "
        + ", ".join(f"`{name}`" for where, name, gap in wanted if where == path and "no docstring" in gap)
        for path in files
    ]
    untested = [(path, name) for path, name, gap in wanted if "no test" in gap and path.endswith(".py")]
    second = [f"Write `{_test_path(found, name)}`: a unit test for `{name}` of `{path}`" for path, name in untested[:1]]
    heed = [f"Heed {ask.kind}: {ask.text}" for ask in asks(session.prompt) if ask.kind != "mend"]
    return [*heed, *first, "Run the tests"], [*second, "Run the tests"]


def _test_path(found: Survey, name: str) -> str:
    folder = Path(found.tests[0]).parent.as_posix() if found.tests else "tests"
    return f"{folder}/test_{name}.py" if folder != "." else f"test_{name}.py"


def _document(session: Session, chunks: tuple[list[str], list[str]]) -> str:
    lines = head(session, "Plan")
    number = 0
    for index, (title, steps) in enumerate(zip(("what is there", "what is missing"), chunks, strict=True), start=1):
        lines += [f"## Chunk {index}: {title}", ""]
        for step in steps:
            number += 1
            lines.append(f"- [ ] {number}. {step}")
        lines.append("")
    lines += ["## Edge cases", "", "- If tests fail after an edit and did not before, the edit is taken back."]
    return "\n".join(lines) + "\n"
