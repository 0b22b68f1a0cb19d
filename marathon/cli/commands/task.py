"""pi-marathon new: makes a task, by questions, from a text, or from a goal in one line."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from marathon._bundled import bundled
from marathon.agents.table import DEFAULT, installed_instead
from marathon.cli.arguments import RunnerCommandForAgent, message_text
from marathon.cli.find import TASKS, project_root
from marathon.cli.human import refuse_in_a_session
from marathon.cli.main import cli, run_line
from marathon.cli.settings import load_settings
from marathon.cli.success import agree_to_typed, offer_commands, terminal_after_input
from marathon.core.courses.phases import Phases
from marathon.core.names import slug
from marathon.core.score import Advice, advise
from marathon.core.state import WORKFLOW, TaskState
from marathon.core.text import wrapped
from marathon.errors import DiskFailed, WrongUsage
from marathon.process.signals import Interrupted, Signals
from marathon.process.terminal import interactive
from marathon.runner.opening import check_workflow
from marathon.show.listing import window
from marathon.show.program import program
from marathon.store.definitions import load_workflows
from marathon.store.files import read_regular
from marathon.store.home import INSTRUCTIONS, STATE
from marathon.store.places import index_folder
from marathon.store.task import create_task, template_files
from marathon.store.task_index import remember_task
from marathon.surfaces.text_prompt import ask_text

NEEDS_A_WORD = "It needs a word or a number, because the folder is named after it."
NEEDS_A_GOAL = "Say in a sentence what to do."
NOT_ASKED = 'Without a terminal say what to do: pi-marathon new "GOAL"   Or give a whole text: pi-marathon new - < FILE'
_OF_A_TASK_THAT_IS_THERE = ("task", "human", "yes", "here", "adopt", "version")
# Each section of the instructions: its heading, and what is asked for on a terminal.
SECTIONS = {
    "goal": ("Goal", "What should be different when it is done?"),
    "scope": ("Scope", "What is in, what is out? Which files or parts?"),
    "constraints": ("Constraints", "What must stay as it is? (may be empty)"),
    "success": ("Success Criteria", "How will you check it?"),
    "done": ("Done", ""),
}
LONGEST_NAME = 180  # bytes: there is a time before it, and a file system takes 255


@click.command(
    "new",
    cls=RunnerCommandForAgent,
    context_settings=cli.context_settings,
    params=[option for option in cli.params if option.name not in _OF_A_TASK_THAT_IS_THERE],
)
@click.argument("title", metavar="[GOAL|-]", required=False)
@click.option("--run", "runs", is_flag=True, help="Run it at once; takes the options of run, and -- ARGS.")
@click.option("--goal", help="The goal, where the first word is only a title. - reads standard input.")
@click.option("--scope", default="", help="What is in, what is out.")
@click.option("--constraints", default="", help="What must stay as it is.")
@click.option("--success", multiple=True, help="How it is checked; a command stands in `backticks`. May be repeated.")
@click.option("--done", default="", help="What must exist at the end.")
@click.option("--issue", metavar="NUMBER|URL", help="Take over an issue with its comments, through your own gh.")
@click.option("--into", metavar="DIR", help="Where tasks live, instead of the project's docs/tasks.")
@click.pass_context
def new(
    ctx: click.Context,
    /,
    title: str | None,
    runs: bool,
    issue: str | None,
    success: tuple[str, ...],
    into: str | None,
    **options: Any,
) -> None:
    """Make a task for GOAL, such as "Fix the login". Without GOAL it asks.

    With - the text on standard input, such as an issue, becomes the instructions as it is.
    """
    if runs:
        refuse_in_a_session("new --run")
    texts = {key: options.pop(key, None) or "" for key in SECTIONS} | {"success": "\n".join(map(as_item, success))}
    typed_too = {name for name in options if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    if not runs and (early := typed_too - {"workflow"}):
        raise WrongUsage(f"--{min(early).replace('_', '-')} is for its run. Add --run, or give it to the run.")
    start = Path.cwd()
    project = project_root(start)
    state = {STATE: first_state(options["workflow"], project)} if "workflow" in typed_too else {}
    files = dict(template_files(bundled("task-template")))
    sections, asked, typed = None, Asked(), True
    if issue is not None:
        if title or any(texts.values()):
            raise WrongUsage("--issue brings the title and the text. Leave out the others.")
        title, files[INSTRUCTIONS] = _from_issue(issue, project)
        typed = False
    elif title == "-":
        if any(texts.values()):
            raise WrongUsage("The text on standard input becomes the instructions as it is. Leave out the options.")
        title, files[INSTRUCTIONS] = _as_it_is(message_text("-"))
        typed = False
        terminal_after_input()
    else:
        if title:
            kebab(title)  # refused before anything is asked
            texts["goal"] = texts["goal"] or ("" if "\n" in title else title)
        else:
            if not interactive():
                raise WrongUsage(NOT_ASKED)
            title, texts = _ask(texts, asked)
            typed = not asked.pasted
        if "\n" in title and not texts["goal"]:
            title, files[INSTRUCTIONS] = _as_it_is(title)
            typed = False
        else:
            sections = texts
            texts = {key: message_text(text) if key == "goal" else text.strip() for key, text in texts.items()}
            if title.strip() == texts["goal"]:  # in one line there is nothing to fill in later
                files[INSTRUCTIONS] = b"# Title\n" + b"".join(_heading(key) for key in SECTIONS if texts[key])
            files[INSTRUCTIONS] = fill(files[INSTRUCTIONS], title, texts)
    text, wanted = offer_commands(files[INSTRUCTIONS].decode(), project, typed=typed)
    files[INSTRUCTIONS] = text.encode()
    if into is None:
        os.chdir(project)
    folder = free_folder(Path(into or TASKS), kebab(title))
    try:
        create_task(folder, {**files, **state}.items())
    except DiskFailed:
        click.echo(files[INSTRUCTIONS].decode())  # what was typed is not lost with the folder
        raise
    remember_task(index_folder(), folder.resolve(), project)
    agree_to_typed(folder, project, None if typed else wanted)
    where = "" if Path.cwd() == start else f" (in {project})"
    if runs:
        click.echo(f"Made {folder}/{INSTRUCTIONS}{where}.", err=True)
        run_line(ctx, {**options, "task": folder})
    click.echo(f"Made {folder}/{INSTRUCTIONS}{where}:")
    show_advice(advise(text, sections))
    click.echo(f"Read it over, then run it:\n  {program()} --task {shlex.quote(str(folder))}")
    if "workflow" not in typed_too and sections and "\n" not in sections["goal"].strip():
        short = f"{program()} --task {shlex.quote(str(folder))} --workflow fix"
        click.echo(f"If it is a small change, one session and one review of the code may do:\n  {short}")
    if others := installed_instead(agent := _usual_agent(project)):
        click.echo(f"{agent} was not found. {others}")


def _usual_agent(project: Path) -> str:
    """The agent of a new task, if its start does not name one."""
    chosen = os.environ.get("PI_MARATHON_AGENT") or load_settings(str(project)).settings.get("agent") or DEFAULT
    return str(chosen).split(",")[0].strip()


def show_advice(advice: Advice) -> None:
    columns = window()
    click.echo("\n".join(wrapped(line, columns, " " * 15) if len(line) > columns else line for line in advice.lines()))


def first_state(workflow: str, project: Path) -> bytes:
    """A STATE.json that names the workflow, so that the first run follows it."""
    course = Phases(load_workflows(project).workflows, workflow)
    check_workflow(course)
    state = TaskState.model_validate({"state": "running", "phase": course.begin().phase, WORKFLOW: workflow})
    return state.written(datetime.now(UTC)).to_bytes()


def _heading(key: str) -> bytes:
    return f"\n## {SECTIONS[key][0]}\n".encode()


def _from_issue(typed: str, project: Path) -> tuple[str, bytes]:
    """What strangers wrote, as instructions. The commands in it need a yes like any other's."""
    from marathon.core.forge import as_instructions, issue_meant
    from marathon.git.forge import issue_in, remote_of

    meant = issue_meant(typed)
    if meant is None:
        raise WrongUsage(f"--issue {typed!r}: give its number, such as 7, or its address.")
    repo, number = meant
    found, comments = issue_in(repo or remote_of(project).repo, number)
    return f"{found.title} {number}", as_instructions(found, comments).encode("utf-8", "replace")


def _as_it_is(text: str) -> tuple[str, bytes]:
    """A whole text as instructions, with a title for the folder's name: its first line that has a word."""
    title = next((line for line in text.splitlines() if slug(line)), "task")
    return title, f"{text.strip()}\n".encode("utf-8", "replace")


def kebab(title: str) -> str:
    """A folder name made of a title."""
    name = slug(title)[:60].encode()[:LONGEST_NAME].decode(errors="ignore").strip("-")
    if not name:
        raise WrongUsage(f"The title {title[:60]!r} has no letter or digit for the name of a folder.")
    return name


def fill(template: bytes, title: str, texts: Mapping[str, str]) -> bytes:
    """The template with its title, and each section's text below its heading in place of the hint."""
    text = re.sub(r"^# .*$", lambda _: f"# {' '.join(title.split())}", template.decode(), count=1, flags=re.M)
    # From the last section to the first, so that a heading in a text is never taken for the template's.
    for key, (heading, _) in reversed(SECTIONS.items()):
        body = texts.get(key)
        section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
        if body and section:
            text = f"{text[: section.start(1)]}\n{body}\n\n{text[section.end(1) :]}"
        elif body:
            text = f"{text.rstrip()}\n\n## {heading}\n\n{body}\n"
    return (text.rstrip() + "\n").encode("utf-8", "replace")


def as_item(text: str) -> str:
    """A plain line becomes an item, because criteria are a list. Other Markdown stays as it is."""
    plain = text and "\n" not in text and not re.match(r"[-*+>#|]\s|\d+[.)]\s", text)
    return f"- {text}" if plain else text


def free_folder(into: Path, name: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    number = 1
    while (folder := into / (f"{stamp}-{name}" + (f"-{number}" if number > 1 else ""))).exists():
        number += 1
    return folder


@dataclass
class Asked:
    """What a human was asked for on a terminal."""

    texts: dict[str, str] = field(default_factory=dict)
    pasted: bool = False  # something came, or may have come, from elsewhere


def _ask(texts: dict[str, str], given: Asked) -> tuple[str, dict[str, str]]:
    """The title and the sections that are missing. A title of several lines is a whole text that was pasted."""
    asked = given.texts
    with tempfile.TemporaryDirectory() as folder, Signals() as signals:
        draft = Path(folder) / "draft.md"

        def note_paste() -> None:
            given.pasted = True

        def answer(question: str, is_enough: Callable[[str], object], lack: str = "") -> str:
            while (text := ask_text(question, draft, signals, on_paste=note_paste)) is not None:
                if is_enough(text):
                    return text.strip()
                click.echo(lack)
            raise KeyboardInterrupt

        try:
            title = asked["title"] = answer("Title (or paste a whole issue):", slug, NEEDS_A_WORD)
            for key, (heading, hint) in SECTIONS.items():
                if hint and not texts[key] and "\n" not in title:
                    enough = str.strip if key == "goal" else lambda _: True
                    asked[key] = answer(f"{heading}: {hint}", enough, NEEDS_A_GOAL)
        except Interrupted as end:
            raise click.exceptions.Exit(128 + end.signum) from end
        except KeyboardInterrupt:
            unfinished = (read_regular(draft) or b"").decode("utf-8", "replace")
            typed = [text for text in (*asked.values(), unfinished) if text]
            click.echo("\n".join(["No task was made.", *(["What you typed:"] if typed else []), *typed]))
            raise
    if "success" in asked:
        asked["success"] = "\n".join(map(as_item, asked["success"].splitlines()))
    return title, texts | asked
