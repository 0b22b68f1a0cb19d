"""Commands for a task's instructions: new, score."""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click

from marathon._bundled import bundled
from marathon.cli.arguments import DIRECTORY, message_text
from marathon.cli.program import program
from marathon.core.criteria import said_in_full
from marathon.core.score import advise
from marathon.core.text import clean
from marathon.errors import DiskFailed, TaskInvalid, WrongUsage
from marathon.process.terminal import interactive
from marathon.store.task import INSTRUCTIONS, Task, create_task, template_files

# Each section of the instructions: its heading, and what is asked for on a terminal.
SECTIONS = {
    "goal": ("Goal", "What should be different when it is done?"),
    "scope": ("Scope", "What is in, what is out? Which files or parts?"),
    "constraints": ("Constraints", "What must stay as it is? (may be empty)"),
    "success": ("Success Criteria", "How will you check it?"),
    "done": ("Done", ""),
}
LONGEST_NAME = 180  # bytes: there is a time before it, and a file system takes 255


@click.command("new")
@click.argument("title", required=False)
@click.option("--goal", help="What should be different when it is done. - reads standard input.")
@click.option("--scope", default="", help="What is in, what is out.")
@click.option("--constraints", default="", help="What must stay as it is.")
@click.option("--success", default="", help="How it is checked; a command stands in `backticks`.")
@click.option("--done", default="", help="What must exist at the end.")
@click.option("--into", default="docs/tasks", show_default=True, metavar="DIR", help="Where tasks live.")
def new(title: str | None, into: str, **given: str | None) -> None:
    """Make a task directory from the template, and say what its instructions may still need.

    On a terminal it asks for what is missing.
    """
    name = kebab(title) if title else ""
    texts = {key: given[key] or "" for key in SECTIONS}
    if not title or given["goal"] is None:
        if not interactive():
            raise WrongUsage('Without a terminal give both: pi-marathon new "TITLE" --goal "TEXT"')
        title, texts = _ask(title, texts)
    name = name or kebab(title)
    texts = {key: message_text(text) if key == "goal" else text.strip() for key, text in texts.items()}
    texts["success"] = _as_item(texts["success"])
    files = dict(template_files(bundled("task-template")))
    files[INSTRUCTIONS] = fill(files[INSTRUCTIONS], title, texts)
    folder = _free_folder(Path(into), name)
    try:
        create_task(folder, files.items())
    except DiskFailed:
        click.echo(files[INSTRUCTIONS].decode())  # what was typed is not lost with the folder
        raise
    click.echo(f"Made {folder}/{INSTRUCTIONS}:")
    click.echo("\n".join(advise(files[INSTRUCTIONS].decode()).lines()))
    click.echo(f"Read it over, then run it:\n  {program()} --task {shlex.quote(str(folder))}")


def kebab(title: str) -> str:
    """A folder name made of a title: only small letters of any script without accents, digits and hyphens."""
    name = "-".join(_words(title))[:60].encode()[:LONGEST_NAME].decode(errors="ignore").strip("-")
    if not name:
        raise WrongUsage(f"The title {title[:60]!r} has no letter or digit for the name of a folder.")
    return name


def _words(title: str) -> list[str]:
    letters = (_plain(each) for each in unicodedata.normalize("NFKC", title))
    return "".join(letters).lower().split()


def _plain(letter: str) -> str:
    """A Latin letter without its accents, any other letter as it is, a space for everything else."""
    base = unicodedata.normalize("NFD", letter)[0]
    if base.isascii() and base.isalnum():
        return base
    return letter if letter.isalnum() or unicodedata.category(letter)[0] == "M" else " "


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


def _as_item(text: str) -> str:
    """A plain line becomes an item, because criteria are a list. Other Markdown stays as it is."""
    plain = text and "\n" not in text and not re.match(r"[-*+>#|]\s|\d+[.)]\s", text)
    return f"- {text}" if plain else text


def _free_folder(into: Path, name: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    number = 1
    while (folder := into / (f"{stamp}-{name}" + (f"-{number}" if number > 1 else ""))).exists():
        number += 1
    return folder


def _ask(title: str | None, texts: dict[str, str]) -> tuple[str, dict[str, str]]:
    asked = dict(texts)
    needs_a_word = "It needs a word or a number, because the folder is named after it."
    needs_a_goal = "Say in a sentence what to do."
    try:
        title = title or _answer("Title:", lambda text: bool(_words(text)) or needs_a_word)
        for key, (heading, hint) in SECTIONS.items():
            if hint and not texts[key]:
                needed = (lambda text: bool(text.strip()) or needs_a_goal) if key == "goal" else None
                asked[key] = _answer(f"{heading}: {hint}", needed)
    except KeyboardInterrupt:
        click.echo("No task was made.")
        raise
    return title, asked


def _answer(question: str, accept: Callable[[str], bool | str] | None) -> str:
    """`accept` returns True, or a sentence that says what is missing."""
    import questionary

    return str(questionary.text(question, validate=accept).unsafe_ask())


@click.command("score")
@DIRECTORY
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def score(shown: Path, as_json: bool) -> None:
    """Say what the instructions in DIR have and what could be added, judging by their form alone.

    It is advice and stops nothing. The agent rates what they mean when it does its research.
    """
    task = Task.look(shown)
    instructions = task.folder / INSTRUCTIONS
    if not instructions.is_file() or not instructions.resolve().is_relative_to(task.folder):
        raise TaskInvalid(f"{shown} has no {INSTRUCTIONS} of its own. Write what is to be done into it.")
    advice = advise(said_in_full(*task.criteria_texts()))
    if as_json:
        click.echo(json.dumps({"task": str(shown), **asdict(advice)}, indent=2))
        return
    click.echo(clean(f"{shown / INSTRUCTIONS}:"))
    click.echo("\n".join(advice.lines()))
    click.echo("The runner checks what is listed below `## Success Criteria` and in checks.toml.")
