"""The research phase: look at the whole project and write down what was really found."""

import re

from marathon.agents.rehearsal.files import leave_state, write_text
from marathon.agents.rehearsal.heed import answers, asks, spared
from marathon.agents.rehearsal.session import Session
from marathon.agents.rehearsal.survey import Survey, survey


def run(session: Session) -> None:
    session.say("reading instructions.md")
    found = survey(session.project, session.task, session.say)
    write_text(session.task / "research.md", _document(session, found))
    session.say(f"wrote research.md ({len(findings(found))} findings)")
    leave_state(session, "paused", "research", "Research complete - awaiting human review")


def findings(found: Survey) -> list[str]:
    """One line for each function that lacks something, with its place."""
    return [f"- `{each.path}:{each.line}` `{each.name}`: {each.gaps}" for each in found.functions if each.gaps]


def head(session: Session, name: str) -> list[str]:
    """Title with the round, what was asked for, and what an earlier round was told."""
    before = session.read(f"{name.lower()}.md")
    number = len(re.findall(r"^## Round \d+", before, re.MULTILINE)) + 2 if before else 1
    found = survey(session.project, session.task)
    new = answers(asks(session.prompt), found)
    earlier = re.findall(r"^(?:## Round \d+.*|- (?:feedback|steering|answer|mend): .*)$", before, re.MULTILINE)
    history = [*earlier, f"## Round {number}", *(new or ["- nothing new was asked for"])] if before else new
    return [
        f"# {name}: {session.title()}" + (f" (Round {number})" if before else ""),
        "",
        "## What you asked for",
        "",
        *(history or ["Nothing yet beyond the instructions."]),
        "",
    ]


def _document(session: Session, found: Survey) -> str:
    goal = re.search(r"^## Goal\s+(.+?)(?=\n\s*\n|\Z)", session.read("instructions.md"), re.MULTILINE | re.DOTALL)
    off_limits = sorted(spared([session.read("instructions.md")], found))
    lines = [
        *head(session, "Research"),
        "## What the task seems to ask",
        "",
        goal[1].strip() if goal else session.title(),
        *(["", f"Off limits: {', '.join(f'`{name}`' for name in off_limits)}"] if off_limits else []),
        "",
        "## Files",
        "",
        "| File | Lines |",
        "|---|---|",
        *(f"| `{path}` | {count} |" for path, count in found.lines.items()),
        "",
        "## Findings",
        "",
        *(findings(found) or ["Every public function is documented and tested."]),
        "",
        "## Tests and risks",
        "",
        f"- Run with `python {' '.join(found.test_command)}`." if found.tests else "- There are no tests to run.",
        "- Docstrings change no behaviour; the tests are run before and after each chunk all the same.",
    ]
    return "\n".join(lines) + "\n"
