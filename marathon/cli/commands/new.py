"""pi-marathon new: make a task directory."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import click

from marathon._bundled import bundled
from marathon.cli.arguments import message_text
from marathon.disk.task import create_task, template_files
from marathon.errors import WrongUsage
from marathon.process.terminal import interactive

SECTIONS = {"goal": "Goal", "scope": "Scope", "constraints": "Constraints", "success": "Success Criteria"}
HINTS = {
    "goal": "What should be different when it is done?",
    "scope": "What is in, what is out? Which files or parts?",
    "constraints": "What must stay as it is? (may be empty)",
    "success": "How will you check it?",
}


@click.command("new")
@click.argument("title", required=False)
@click.option("--goal", help="What should be different when it is done. - reads standard input.")
@click.option("--scope", default="", help="What is in, what is out.")
@click.option("--constraints", default="", help="What must stay as it is.")
@click.option("--success", default="", help="How it is checked.")
@click.option("--into", default="docs/tasks", show_default=True, metavar="DIR", help="Where tasks live.")
def command(title: str | None, goal: str | None, scope: str, constraints: str, success: str, into: str) -> None:
    """Make a task directory from the template. Asks for what is missing, on a terminal."""
    texts = {"goal": goal, "scope": scope, "constraints": constraints, "success": success}
    if title is None or goal is None:
        if not interactive():
            raise WrongUsage('Without a terminal give both: pi-marathon new "TITLE" --goal "TEXT"')
        title, texts = _ask(title, texts)
    name = kebab(title)
    filled = {key: (message_text(text) if key == "goal" else (text or "").strip()) for key, text in texts.items()}
    folder = _free_folder(Path(into), name)
    files = [
        (file, fill(data, title, filled) if file == "instructions.md" else data)
        for file, data in template_files(bundled("task-template"))
    ]
    create_task(folder, files)
    shown = shlex.quote(str(folder))
    click.echo(f"Made {folder}/instructions.md. Read it over, then run it:\n  pi-marathon --task {shown}")


def kebab(title: str) -> str:
    """A folder name out of a title: small letters, digits and hyphens, nothing else."""
    words = re.findall(r"[a-z0-9]+", title.lower())
    name = "-".join(words)[:60].strip("-")
    if not name:
        raise WrongUsage(f"The title {title[:60]!r} has no letter or digit to make a folder name of.")
    return name


def fill(template: bytes, title: str, texts: Mapping[str, str]) -> bytes:
    """The template with its title, and each section's text below its heading in place of the hint."""
    text = re.sub(r"^# .*$", lambda _: f"# {' '.join(title.split())}", template.decode(), count=1, flags=re.M)
    for key, heading in SECTIONS.items():
        body = texts.get(key)
        section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
        if body and section:
            text = f"{text[: section.start(1)]}\n{body}\n\n{text[section.end(1) :]}"
    return (text.rstrip() + "\n").encode("utf-8", "replace")


def _free_folder(into: Path, name: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    number = 1
    while (folder := into / (f"{stamp}-{name}" + (f"-{number}" if number > 1 else ""))).exists():
        number += 1
    return folder


def _ask(title: str | None, texts: dict[str, str | None]) -> tuple[str, dict[str, str | None]]:
    import questionary

    title = title or questionary.text("Title:", validate=lambda text: bool(text.strip())).unsafe_ask()
    for key, hint in HINTS.items():
        if not texts[key]:
            required = (lambda text: bool(text.strip())) if key == "goal" else None
            texts[key] = questionary.text(f"{SECTIONS[key]}: {hint}", validate=required).unsafe_ask()
    return str(title), texts
