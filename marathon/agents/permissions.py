"""What an agent may do when it asks us: work inside the project and the task, and run the commands of a list."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from marathon.core.text import one_line

EVERYTHING = "*"
ALLOWED = (
    *("pi-marathon wait", "pi-marathon ask", "pi-marathon status"),
    *("git add", "git commit", "git status"),
    *("echo", "ls", "printf", "pwd", "true"),
)
_BETWEEN = frozenset(";&|\n")  # what separates two commands
_OPERATORS = _BETWEEN | frozenset("()<>")
_UNREADABLE = ("$", "`")  # what the shell would put there is not known here


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
    inside = all(_is_inside(path, roots) for path in request.paths)
    if request.kind == "execute":
        return EVERYTHING in commands or (inside and runs_only(request.command, roots, commands))
    return request.kind != "fetch" and inside and bool(request.paths)


def runs_only(line: str, roots: Sequence[str], commands: Sequence[str]) -> bool:
    """Whether every command of a shell line is one of these, and writes only below the roots."""
    if any(mark in line for mark in _UNREADABLE):
        return False
    try:
        simple = list(_simple_commands(line))
    except ValueError:  # a quote without its end
        return False
    return bool(simple) and all(_is_listed(words, roots, commands) for words in simple)


def _simple_commands(line: str) -> Iterator[list[str]]:
    """The words of each command, with the redirections among them."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="".join(_OPERATORS))
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    words: list[str] = []
    for word in lexer:
        if word and set(word) <= _BETWEEN:
            if words:
                yield words
            words = []
        else:
            words.append(word)
    if words:
        yield words


def _is_listed(words: list[str], roots: Sequence[str], commands: Sequence[str]) -> bool:
    plain: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in (">", ">>", "<"):
            if not _may_redirect(next(rest, ""), roots):
                return False
        elif word == ">&":  # 2>&1
            if not next(rest, "").isdigit():
                return False
        elif word and set(word) <= _OPERATORS:
            return False
        else:
            plain.append(word)
    if plain[:1] == ["cd"]:
        return len(plain) == 2 and not plain[1].startswith(("-", "~")) and _is_below(plain[1], roots)
    return any(plain[: len(known)] == known for known in map(str.split, commands))


def _may_redirect(path: str, roots: Sequence[str]) -> bool:
    return path == os.devnull or (bool(path) and not path.startswith("~") and _is_below(path, roots))


def _is_below(path: str, roots: Sequence[str]) -> bool:
    return _is_inside(os.path.realpath(os.path.join(roots[0], path)), roots)


def _is_inside(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)
