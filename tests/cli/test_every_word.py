"""Every command line that a page or the program itself prints exists, and docs/reference.md is what click says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from docs.reference import page
from marathon.cli.main import COMMANDS, REMOVED, cli
from tests.support.world import ROOT

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "skills").glob("*/*.md")),
    *sorted((ROOT / "marathon/agents").glob("**/*.md")),
]
# At the beginning of a line or of quotes, or behind a colon or an arrow; up to the end of it or to three spaces.
PRINTED = re.compile(r"(?:^[ |]*|[`'\"!]|: |&& |→ |shell: )pi-marathon ((?:(?!   )[^`\n])+)", re.M)
PROSE = ("is", "lets", "without")  # what a sentence goes on with that only begins with the name of the program
PLACEHOLDER = re.compile(r"TASK|DIR|NAME|COMMAND|X|…|\[.*|docs/.*")


def test_the_reference_is_what_the_program_says() -> None:
    stale = "The reference is stale. Type: python -m docs.reference > docs/reference.md"
    assert (ROOT / "docs/reference.md").read_text(encoding="utf-8") == page(), stale


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_line_of_a_page_exists(path: Path) -> None:
    assert list(filter(None, map(wrong_with, PRINTED.findall(path.read_text(encoding="utf-8"))))) == []


def test_every_command_line_in_a_sentence_of_the_program_exists() -> None:
    found = [(path, line) for path in sorted((ROOT / "marathon").rglob("*.py")) for line in printed_by(path)]
    assert len(found) > 100
    assert [(path.name, line, wrong) for path, line in found if (wrong := wrong_with(line))] == []


def test_no_word_of_another_time_is_left() -> None:
    old = re.compile(rf"pi-marathon ({'|'.join(REMOVED)})\b")
    files = [path for kind in ("py", "ts", "js", "md", "toml") for path in (ROOT / "marathon").rglob(f"*.{kind}")]
    texts = {path: path.read_text(encoding="utf-8") for path in (*files, *PAGES)}
    assert [(path.name, old.findall(text)) for path, text in texts.items() if old.search(text)] == []


def test_every_command_that_pi_s_extension_starts_exists() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "marathon/agents/pi/extension").rglob("*.ts")]
    started = [
        word for text in texts for word in re.findall(r"(?:done\(|words = |^ +[a-z]+: )\[\"([a-z]+)\"", text, re.M)
    ]
    lines = [line for text in texts for line in re.findall(r"\$\{PROGRAM\} ([a-z][^`$(]*)`", text)]
    assert {"tell", "status", "repeat", "approve", "stop", "rm"} <= set(started)
    assert [word for word in started if word not in COMMANDS] == []
    assert list(filter(None, map(wrong_with, lines))) == []


def printed_by(path: Path) -> Iterator[str]:
    """The command lines in the strings of a module; what is filled in stands as X."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            text = "".join(each.value if isinstance(each, ast.Constant) else "X" for each in node.values)  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        yield from PRINTED.findall(re.sub(r"^X(?= (?:loop|status|attach|--task|approve) )", "pi-marathon", text))


def wrong_with(line: str) -> str:
    """What of a command line does not exist. Empty if all of it does."""
    words = line.split(" -- ")[0].split()
    command: click.Command | None = cli
    words[0] = words[0].rstrip(":")
    if words[0] in PROSE:
        return ""
    if words[0] in COMMANDS:
        with click.Context(cli) as context:
            command = cli.get_command(context, words[0])
        if isinstance(command, click.Group) and len(words) > 1 and (below := command.commands.get(words[1])):
            command = below
    elif not words[0].startswith("-") and not PLACEHOLDER.fullmatch(words[0]):
        return f"there is no command {words[0]!r}"
    assert command
    known = {"--help", "--all", *(name for each in command.params for name in (*each.opts, *each.secondary_opts))}
    for word in words:
        name = re.sub(r"[\])}.,;:)'\"]*$", "", re.split(r"[=\[]", word.lstrip("[("))[0])
        if re.fullmatch(r"--?[a-z][a-z-]*", name) and name not in known:
            return f"{line!r}: {command.name} has no {name}"
    return ""
