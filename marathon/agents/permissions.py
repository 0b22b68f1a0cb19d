"""What an agent may do when it asks us: work inside the project and the task, and run the commands of a list."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from marathon.core.text import one_line
from marathon.git.programs import started
from marathon.store.task import OWN

EVERYTHING = "*"
ALLOWED = (
    *("pi-marathon wait", "pi-marathon ask", "pi-marathon status"),
    *("git add", "git commit", "git status"),
    *("echo", "ls", "printf", "pwd", "true"),
)
_UNREADABLE = ("$", "`", "\\\n")  # what the shell would put there is not known here
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_GLOBS = frozenset("*?[{")
_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""", re.S)
_FORMAT = re.compile(r"([^%]|%%|%-?[0-9.]*[bqs])*", re.S)  # others write to a variable or are calculated
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
    why: str = ""  # why it needs a yes, where that does not show
    needs: str = ""  # the rule that would be the yes

    @property
    def shown(self) -> str:
        outside = [] if self.kind == "execute" else self.paths[:1]
        what = one_line(
            " ".join(({"other": "use"}.get(self.kind, self.kind), *outside)) if outside else self.command, 200
        )
        return f"{what} ({self.why})" if self.why else what

    @property
    def rule(self) -> str:
        """The words that would allow it, if it is a command."""
        if self.needs:
            return self.needs
        words = self.command.split() if self.kind == "execute" else []
        return one_line(" ".join(words[: 2 if words[1:2] and words[1].isalpha() else 1]), 100)


def allows(request: Request, roots: Sequence[str], commands: Sequence[str] = ALLOWED) -> bool:
    """Whether the runner says yes without a human. The first root is where commands run."""
    judge = _is_inside if request.kind in ("execute", "read", "search") else _may_write
    inside = all(judge(path, roots) for path in request.paths)
    if request.kind == "execute":
        return EVERYTHING in commands or (inside and runs_only(request.command, roots, commands, request.paths))
    return request.kind != "fetch" and inside and bool(request.paths)


def runs_only(line: str, roots: Sequence[str], commands: Sequence[str], places: Sequence[str] = ()) -> bool:
    """Whether every command of a shell line is one of these, and writes only below the roots.

    `places` are other folders in which it may run.
    """
    if any(mark in line for mark in _UNREADABLE) or _CONTROL.search(line):
        return False
    rules = _Rules(roots, commands, [roots[0], *places])
    try:
        simple = [each for each in _simple_commands(line) if each.words or each.files]
        return bool(simple) and all(_is_listed(command, rules) for command in simple)
    except ValueError:  # a quote without its end, a comment, or an operator that we do not read
        return False


def explained(request: Request, roots: Sequence[str]) -> Request:
    """With what git would start, for a command of git that is on our list otherwise."""
    words = request.command.split() if request.kind == "execute" else []
    for git, verb in itertools.pairwise(words):
        if git == "git" and f"git {verb}" in ALLOWED:
            for place in (roots[0], *request.paths):
                if why := started(verb, place, roots):
                    return replace(request, why=why, needs=f"git {verb}")
    return request


class _Rules(NamedTuple):
    roots: Sequence[str]
    commands: Sequence[str]
    places: list[str]  # the folders in which the shell may be by now

    def lists(self, words: Sequence[str]) -> bool:
        return any(words[: len(rule)] == rule for rule in map(str.split, self.commands))

    def names(self, words: Sequence[str]) -> bool:
        """Whether a human has added a rule for it to ours."""
        added = list(self.commands)
        for ours in ALLOWED:
            if ours in added:
                added.remove(ours)
        return _Rules(self.roots, added, self.places).lists(words)


class _Simple(NamedTuple):
    """One command, with the files that it is redirected to."""

    words: list[str]
    files: list[str]
    unquoted: list[str]  # of each word, what stands outside of quotes


def _simple_commands(line: str) -> Iterator[_Simple]:
    tokens = list(_TOKEN.finditer(line))
    if "".join(token[0] for token in tokens) != line:
        raise ValueError
    command, redirected = _Simple([], [], []), ""
    for token, after in zip(tokens, (*tokens[1:], None), strict=True):
        operator, typed = token.group("operator", "word")
        if not (operator or typed):
            continue
        if typed and after and after[0][0] in "<>" and (typed.isdigit() or typed[0] == "{"):
            if typed[0] == "{":  # the shell would set this variable to the number of the stream
                raise ValueError
        elif typed:
            word = shlex.split(typed)[0]
            # In a comment quotes mean nothing. A number after >& is another stream.
            if typed[0] == "#" or (redirected == ">&" and not word.isdigit()):
                raise ValueError
            if redirected in (">", ">>", "<"):
                command.files.append(word)
            elif not redirected:
                command.words.append(word)
                command.unquoted.append(_QUOTED.sub("", typed))
            redirected = ""
        elif redirected:
            raise ValueError
        elif operator in (">", ">>", "<", ">&"):
            redirected = operator
        elif set(operator) <= set(";&|\n"):
            yield command
            command = _Simple([], [], [])
        else:
            raise ValueError
    if redirected:
        raise ValueError
    yield command


def _is_listed(command: _Simple, rules: _Rules) -> bool:
    words, globs = command.words, [bool(_GLOBS & set(word)) for word in command.unquoted]
    if not all(file == os.devnull or _may_redirect(file, rules) for file in command.files):
        return False
    if words[:1] == ["cd"]:
        return len(words) == 2 and not globs[1] and _enter(words[1], rules)
    if not words or not rules.lists(words):
        return False
    if words[0] == "printf" and (any(globs) or not _prints_only(words[1:])):
        return False
    if words[0] == "git" and not rules.names(words):
        return "--help" not in words and not any(started(words[1], place, rules.roots) for place in rules.places)
    return True


def _enter(folder: str, rules: _Rules) -> bool:
    if folder.startswith(("-", "+", "~", "=")):  # what the shell makes of these is not known here
        return False
    # The shell takes `..` off the name, and does not follow a link before that.
    found = [os.path.join(place, folder) for place in rules.places]
    rules.places.extend(dict.fromkeys((*map(os.path.realpath, found), *map(os.path.normpath, found))))
    return all(_is_inside(os.path.realpath(place), rules.roots) for place in rules.places)


def _prints_only(words: Sequence[str]) -> bool:
    """printf can set a variable, such as PATH: with -v, and with %n."""
    words = words[1:] if words[:1] == ["--"] else words
    return bool(words) and not words[0].startswith("-") and _FORMAT.fullmatch(words[0]) is not None


def _may_redirect(file: str, rules: _Rules) -> bool:
    # A folder with HEAD is nearly a repository. In zsh ! is a part of the operator.
    plain = bool(file) and file[0] not in "~!=" and not _GLOBS & set(file)
    plain = plain and os.path.basename(file).casefold() not in ("head", "commondir")
    return plain and all(_may_write(os.path.realpath(os.path.join(each, file)), rules.roots) for each in rules.places)


def _may_write(path: str, roots: Sequence[str]) -> bool:
    below = [os.path.relpath(path, root) for root in roots if _is_inside(path, [root])]
    # A file system may pass over characters that are not seen.
    seen = "".join(each for each in min(below, key=len, default="") if unicodedata.category(each) != "Cf")
    return bool(below) and not _CLOSED & {*seen.casefold().split("/")}


def _is_inside(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)
