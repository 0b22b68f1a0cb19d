"""pi-marathon new: make a task directory."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import click

from marathon._bundled import bundled
from marathon.cli.arguments import message_text
from marathon.cli.commands.score import missing, summary
from marathon.core.score import BEST, score
from marathon.errors import DiskFailed, WrongUsage
from marathon.process.terminal import interactive
from marathon.store.task import INSTRUCTIONS, create_task, template_files

SECTIONS = {
    "goal": "Goal",
    "scope": "Scope",
    "constraints": "Constraints",
    "success": "Success Criteria",
    "done": "Done",
}
HINTS = {
    "goal": "What should be different when it is done?",
    "scope": "What is in, what is out? Which files or parts?",
    "constraints": "What must stay as it is? (may be empty)",
    "success": "How will you check it?",
}
_LONGEST_NAME = 180  # bytes: there is a time before it, and a file system takes 255
# Where the answer to a question of the score belongs.
ANSWERS = {"Outcome": "goal", "Scope": "scope", "Constraints": "constraints", "Success": "success", "Done": "done"}


@click.command("new")
@click.argument("title", required=False)
@click.option("--goal", help="What should be different when it is done. - reads standard input.")
@click.option("--scope", default="", help="What is in, what is out.")
@click.option("--constraints", default="", help="What must stay as it is.")
@click.option("--success", default="", help="How it is checked; a command stands in `backticks`.")
@click.option("--done", default="", help="What must exist at the end.")
@click.option("--into", default="docs/tasks", show_default=True, metavar="DIR", help="Where tasks live.")
def command(title: str | None, into: str, **given: str | None) -> None:
    """Make a task directory from the template, and say how clear its instructions are.

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
    template = files[INSTRUCTIONS]
    if interactive():
        texts = _clarified(template, title, texts)
    files[INSTRUCTIONS] = fill(template, title, texts)
    folder = _free_folder(Path(into), name)
    try:
        create_task(folder, files.items())
    except DiskFailed:
        click.echo(files[INSTRUCTIONS].decode())  # what was typed is not lost with the folder
        raise
    shown = shlex.quote(str(folder))
    click.echo(f"Made {folder}/{INSTRUCTIONS}. Read it over, then run it:\n  pi-marathon --task {shown}")
    _tell_score(files[INSTRUCTIONS], shown)


def kebab(title: str) -> str:
    """A folder name out of a title: small letters of any script, without accents, digits and hyphens, nothing else."""
    name = "-".join(_words(title))[:60].encode()[:_LONGEST_NAME].decode(errors="ignore").strip("-")
    if not name:
        raise WrongUsage(f"The title {title[:60]!r} has no letter or digit to make a folder name of.")
    return name


def _words(title: str) -> list[str]:
    letters = (_plain(each) for each in unicodedata.normalize("NFKC", title))
    return "".join(letters).lower().split()


def _plain(letter: str) -> str:
    """A Latin letter without its accents, any other as it is, a space for what is no part of a word."""
    base = unicodedata.normalize("NFD", letter)[0]
    if base.isascii() and base.isalnum():
        return base
    return letter if letter.isalnum() or unicodedata.category(letter)[0] == "M" else " "


def fill(template: bytes, title: str, texts: Mapping[str, str]) -> bytes:
    """The template with its title, and each section's text below its heading in place of the hint."""
    text = re.sub(r"^# .*$", lambda _: f"# {' '.join(title.split())}", template.decode(), count=1, flags=re.M)
    # From the end on, so that a heading in somebody's text is never taken for the template's.
    for key, heading in reversed(SECTIONS.items()):
        body = texts.get(key)
        section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
        if body and section:
            text = f"{text[: section.start(1)]}\n{body}\n\n{text[section.end(1) :]}"
        elif body:
            text = f"{text.rstrip()}\n\n## {heading}\n\n{body}\n"
    return (text.rstrip() + "\n").encode("utf-8", "replace")


def _as_item(text: str) -> str:
    """Criteria are a list: a plain line becomes an item of it, what has a form of its own keeps it."""
    plain = text and "\n" not in text and not re.match(r"[-*+>#|]\s|\d+[.)]\s", text)
    return f"- {text}" if plain else text


def _free_folder(into: Path, name: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    number = 1
    while (folder := into / (f"{stamp}-{name}" + (f"-{number}" if number > 1 else ""))).exists():
        number += 1
    return folder


def _ask(title: str | None, texts: dict[str, str]) -> tuple[str, dict[str, str]]:
    title = title or _answer("Title:", _names_it)
    asked = dict(texts)
    for key, hint in HINTS.items():
        if not texts[key]:
            asked[key] = _answer(f"{SECTIONS[key]}: {hint}", _goal if key == "goal" else None)
    return title, asked


def _clarified(template: bytes, title: str, texts: dict[str, str]) -> dict[str, str]:
    """The texts with what more the human says, asked question by question until it is enough to begin with."""
    rating = score(fill(template, title, texts).decode())
    if rating.shape == "clarify":
        click.echo(f"So far that is {rating.total} of {BEST} points. Each question may be left empty.")
    for point in rating.worst_first:
        if score(fill(template, title, texts).decode()).shape != "clarify":
            break
        if point.missing:
            key = ANSWERS[point.question]
            more = _answer(f"{SECTIONS[key]}: {point.missing}").strip()
            more = _as_item(more) if key == "success" else more
            texts = {**texts, key: f"{texts[key]}\n\n{more}".strip()}
    return texts


def _names_it(text: str) -> bool | str:
    return bool(_words(text)) or "It needs a word or a number: the folder is named after it."


def _goal(text: str) -> bool | str:
    return bool(text.strip()) or "Without a goal there is nothing to do: say it in a sentence."


def _answer(question: str, wanted: Callable[[str], bool | str] | None = None) -> str:
    """`wanted` says True, or what is wrong with it."""
    import questionary

    try:
        return str(questionary.text(question, validate=wanted).unsafe_ask())
    except KeyboardInterrupt:
        click.echo("No task was made.")
        raise


def _tell_score(instructions: bytes, shown: str) -> None:
    rating = score(instructions.decode())
    click.echo("\n".join(summary(rating)))
    if rating.shape == "clarify":
        click.echo("\n".join(["What to add:", *missing(rating)]))
    if rating.missing:
        click.echo(f"More about that: pi-marathon score {shown}")
