"""A phase of a custom workflow: this agent knows nothing of it, and says so where its output belongs."""

import re
from pathlib import Path

from marathon.agents.rehearsal.files import leave_state, read_text, write_text
from marathon.agents.rehearsal.prompt import asks, one_line
from marathon.agents.rehearsal.session import Session, Trouble

MOST_LINES = 3


def run(session: Session) -> None:
    for ask in asks(session.prompt):
        session.say(f"heeding {ask.kind}: {ask.text}")
    output = _output(session)
    if output:
        earlier = read_text(output)
        write_text(output, (f"{earlier.rstrip()}\n\n" if earlier else "") + _note(session))
        session.say(f"wrote {output.name}")
    note = f"The rehearsal agent does not know the phase {session.phase!r} - awaiting human review"
    leave_state(session.task, "paused", session.phase, session.iteration, note)


def _output(session: Session) -> Path | None:
    """The file the prompt names, seen from the project or the task directory, but inside the latter."""
    named = re.search(r"^Write: (.+)$", session.prompt, re.MULTILINE)
    if not named:
        return None
    path = Path(named.group(1).strip().strip("`"))
    for candidate in (session.project / path, session.task / path):
        if session.task in candidate.resolve().parents:
            return candidate
    raise Trouble(f"the prompt says to write {path}, which is not in the task directory {session.task}.")


def _note(session: Session) -> str:
    opening = [one_line(line) for line in session.prompt.splitlines() if line.strip()][:MOST_LINES]
    lines = [f"# {session.phase}: {session.title()}", ""]
    lines += ["The rehearsal agent has no model and does not know this phase: it only read the prompt."]
    lines += ["", "The prompt begins:", "", *(f"> {line}" for line in opening), ""]
    asked = [f"- {ask.kind}: “{ask.text}” → noted here, not acted on." for ask in asks(session.prompt)]
    return "\n".join([*lines, *(["## What you asked for", "", *asked, ""] if asked else [])])
