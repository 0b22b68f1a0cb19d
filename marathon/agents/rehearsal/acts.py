"""What each kind of step does, as a change of one file's text: decided here, written elsewhere."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from marathon.agents.rehearsal.docstrings import document, undocumented
from marathon.agents.rehearsal.functions import public_definitions
from marathon.agents.rehearsal.session import Session
from marathon.agents.rehearsal.steps import Step
from marathon.agents.rehearsal.survey import Survey, survey
from marathon.agents.rehearsal.testwriter import unit_test
from marathon.agents.rehearsal.tidy import contents_page, tidied

README_HEADING = "## Functions"

Change = Callable[[str | None], str | None]


class Act(NamedTuple):
    """What to do about a step: a change of one file (None in and out: no such file), and words for it."""

    done: bool
    words: str
    path: str = ""
    change: Change | None = None


def act(session: Session, step: Step) -> Act:
    """Decide about a step; what this agent does not understand stays open, and says so."""
    if step.kind == "heed":
        return Act(True, "")
    decide = _TABLE.get(step.kind)
    if decide is None:
        return Act(False, "left open: it takes an agent with a model")
    if not _is_inside(session.project, step.parts[0]):
        return Act(False, f"left open: `{step.parts[0]}` is not a file of this project")
    try:
        return decide(session, step)
    except (SyntaxError, UnicodeDecodeError) as trouble:
        return Act(False, f"left open: {step.parts[0]} cannot be read as Python ({trouble})")


def _docstrings(session: Session, step: Step) -> Act:
    path, names = step.parts[0], step.names
    if not (session.project / path).is_file():
        return Act(False, f"left open: `{path}` is gone")
    source = _source(session.project / path)
    missing = undocumented(source, names)
    left = undocumented(document(source, names), missing)
    if left:
        return Act(False, f"left open: {', '.join(left)} cannot be documented safely")
    words = f"documented {', '.join(missing)}" if missing else "nothing left to do: all of them have docstrings"
    return Act(True, words, path, lambda text: None if text is None else document(text, names))


def _unittest(session: Session, step: Step) -> Act:
    path, name, source = step.parts
    harmless = [each for each in _survey(session).functions if (each.path, each.name) == (source, name)]
    if not harmless or not harmless[0].callable_in_a_test:
        return Act(False, f"left open: {name} cannot be called to see what it does")
    written = unit_test(session.project, source, name)
    if not written:
        return Act(False, f"left open: what {name} answers cannot be pinned")
    return Act(True, f"wrote {written.count('def test_')} tests for {name}", path, _new_file(written))


def _readme(session: Session, step: Step) -> Act:
    section = "\n".join([README_HEADING, "", *_function_list(session), ""])

    def change(text: str | None) -> str:
        text = text or ""
        return text if README_HEADING in text else f"{text.rstrip()}\n\n{section}".lstrip()

    return Act(True, "listed the public functions", step.parts[0], change)


def _tidy(session: Session, step: Step) -> Act:
    path = step.parts[0]
    return Act(True, "tidied its line ends", path, lambda text: None if text is None else tidied(path, text))


def _contents(session: Session, step: Step) -> Act:
    files = [(file.path, file.lines) for file in _survey(session).files if file.path != step.parts[0]]
    return Act(True, f"listed {len(files)} files", step.parts[0], _new_file(contents_page(files)))


_TABLE: dict[str, Callable[[Session, Step], Act]] = {
    "docstrings": _docstrings,
    "unittest": _unittest,
    "readme": _readme,
    "tidy": _tidy,
    "contents": _contents,
}


def _survey(session: Session) -> Survey:
    return survey(session.project, session.task)


def _source(path: Path) -> str:
    return path.read_bytes().decode("utf-8")


def _new_file(content: str) -> Change:
    """Writes a file only where there is none: what somebody else put there stays."""
    return lambda text: content if text is None else text


def _function_list(session: Session) -> list[str]:
    lines = []
    for file in _survey(session).files:
        if file.is_python and not file.is_test and not file.trouble:
            for name, node in public_definitions(ast.parse(file.text)):
                summary = (ast.get_docstring(node) or "").partition("\n")[0]
                lines.append(f"- `{name}` ({file.path}){': ' if summary else ''}{summary}")
    return lines


def _is_inside(project: Path, path: str) -> bool:
    """plan.md is only text: no absolute path, no way out, no link, nothing of git's."""
    target = project / path
    inside = project.resolve() in target.resolve().parents
    return inside and not target.is_symlink() and ".git" not in Path(path).parts and not target.is_dir()
