"""Finds the files of a tree that a loop's commands start: they measure, so no change may touch them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from marathon.errors import WrongUsage

_SEPARATORS = {"&&", "||", ";", "|", "&"}
# In `wc -c page.js` the file is what is measured, and not what measures.
_READERS = {"cat", "wc", "du", "stat", "ls", "grep", "head", "tail", "test", "[", "gzip", "xz", "size", "tr", "cut"}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.S)


def programs(tree: Path, commands: Iterable[str]) -> list[str]:
    """What the commands start, of the files of a tree. What these start in turn may be what is to get better."""
    return list(dict.fromkeys(path for command in commands for path in _programs(tree, command)))


def inside(tree: Path, path: str) -> str:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or not parts.parts:
        raise WrongUsage(f"--protect {path}: it has to lie below the project. Write it as seen from there.")
    if not os.path.lexists(tree / parts):
        raise WrongUsage(f"--protect {path}: there is no such file.")
    return str(parts)


def _programs(tree: Path, command: str) -> Iterator[str]:
    """The files of the tree that a command starts: ./bench.sh, or bench.py in `python bench.py data`."""
    try:
        words = list(shlex.shlex(command, posix=True, punctuation_chars=True))
    except ValueError:
        words = command.split()
    start = 0
    for end in [*(place for place, word in enumerate(words) if word in _SEPARATORS), len(words)]:
        found = _program(tree, [word for word in words[start:end] if not _ASSIGNMENT.fullmatch(word)])
        if found:
            yield found
        start = end + 1


def _program(tree: Path, words: list[str]) -> str | None:
    if words and words[0] in _READERS:
        return None
    for place, word in enumerate(words):
        if word == "-m" and place + 1 < len(words):
            module = words[place + 1].replace(".", "/")
            return next((name for name in (f"{module}.py", f"{module}/__main__.py") if _is_file(tree, name)), None)
        if _is_file(tree, word):
            return str(PurePosixPath(word))
    return None


def _is_file(tree: Path, name: str) -> bool:
    parts = PurePosixPath(name)
    return not parts.is_absolute() and ".." not in parts.parts and len(name) < 1000 and (tree / parts).is_file()
