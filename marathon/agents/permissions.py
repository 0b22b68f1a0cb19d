"""What an agent may do when it asks us: work inside the project and the task, and run the commands of a list."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from marathon.core.text import one_line
from marathon.store.task import OWN

EVERYTHING = "*"
ALLOWED = (
    *("pi-marathon wait", "pi-marathon ask", "pi-marathon status"),
    *("git add", "git commit", "git status"),
    *("echo", "ls", "printf", "pwd", "true"),
)
_UNREADABLE = ("$", "`", "\\\n")  # what the shell would put there is not known here
_GLOBS = frozenset("*?[{")
_CLOSED = {".git", OWN}  # what is written there makes git run programs, or is the runner's
# An operator, or a word as it was typed, with its quotes.
_TOKEN = re.compile(
    r"""[ \t]+|(?P<operator>[;&|\n()<>]+)|(?P<word>(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^ \t;&|\n()<>'"\\])+)""", re.S
)


@dataclass(frozen=True)
class Request:
    """What an agent asks for. Its paths have no links in them."""

    kind: str  # as the Agent Client Protocol names it: read, edit, execute, fetch, …
    paths: tuple[str, ...] = ()
    command: str = ""  # of another kind: what it is called

    @property
    def shown(self) -> str:
        outside = [] if self.kind == "execute" else self.paths[:1]
        return one_line(
            " ".join(({"other": "use"}.get(self.kind, self.kind), *outside)) if outside else self.command, 200
        )

    @property
    def rule(self) -> str:
        """The words that would allow it, if it is a command."""
        words = self.command.split() if self.kind == "execute" else []
        return one_line(" ".join(words[: 2 if words[1:2] and words[1].isalpha() else 1]), 100)


def allows(request: Request, roots: Sequence[str], commands: Sequence[str] = ALLOWED) -> bool:
    """Whether the runner says yes without a human. The first root is where commands run."""
    judge = _is_inside if request.kind in ("execute", "read", "search") else _may_write
    inside = all(judge(path, roots) for path in request.paths)
    if request.kind == "execute":
        return EVERYTHING in commands or (inside and runs_only(request.command, roots, commands))
    return request.kind != "fetch" and inside and bool(request.paths)


def runs_only(line: str, roots: Sequence[str], commands: Sequence[str]) -> bool:
    """Whether every command of a shell line is one of these, and writes only below the roots."""
    if any(mark in line for mark in _UNREADABLE):
        return False
    known, places = [each.split() for each in commands], [roots[0]]
    try:
        simple = [each for each in _simple_commands(line) if each.words or each.files]
        return bool(simple) and all(_is_listed(command, roots, known, places) for command in simple)
    except ValueError:  # a quote without its end, a comment, or an operator that we do not read
        return False


class _Simple(NamedTuple):
    """One command, with the files that it is redirected to."""

    words: list[str]
    files: list[str]


def _simple_commands(line: str) -> Iterator[_Simple]:
    tokens = list(_TOKEN.finditer(line))
    if "".join(token[0] for token in tokens) != line:
        raise ValueError
    command, redirected = _Simple([], []), ""
    for operator, typed in (token.group("operator", "word") for token in tokens if token[0].strip(" \t")):
        if typed:
            word = shlex.split(typed)[0]
            # In a comment quotes mean nothing. A number after >& is another stream.
            if typed[0] == "#" or (redirected == ">&" and not word.isdigit()):
                raise ValueError
            (command.files if redirected in (">", ">>", "<") else command.words).append(word)
            redirected = ""
        elif redirected:
            raise ValueError
        elif operator in (">", ">>", "<", ">&"):
            redirected = operator
        elif set(operator) <= set(";&|\n"):
            yield command
            command = _Simple([], [])
        else:
            raise ValueError
    if redirected:
        raise ValueError
    yield command


def _is_listed(command: _Simple, roots: Sequence[str], known: Sequence[list[str]], places: list[str]) -> bool:
    """`places` are the folders in which the shell may be by now."""
    words = command.words
    if not all(file == os.devnull or _may_redirect(file, roots, places) for file in command.files):
        return False
    if words[:1] != ["cd"]:
        return any(words[: len(each)] == each for each in known)
    if len(words) != 2 or words[1].startswith(("-", "~")):
        return False
    # The shell takes `..` off the name, and does not follow a link before that.
    found = [os.path.join(place, words[1]) for place in places]
    places += [*map(os.path.realpath, found), *map(os.path.normpath, found)]
    return all(_is_inside(os.path.realpath(place), roots) for place in places)


def _may_redirect(file: str, roots: Sequence[str], places: Sequence[str]) -> bool:
    plain = bool(file) and file[0] != "~" and not _GLOBS & set(file)
    return plain and all(_may_write(os.path.realpath(os.path.join(place, file)), roots) for place in places)


def _may_write(path: str, roots: Sequence[str]) -> bool:
    below = [os.path.relpath(path, root) for root in roots if _is_inside(path, [root])]
    return bool(below) and not _CLOSED & {*min(below, key=len).casefold().split("/")}


def _is_inside(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)
