"""The frozen evaluator of a measured loop: digests of the files that measure, so that no one can move the goal."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from marathon.core.lanes.model import Check
from marathon.core.text import one_line
from marathon.errors import WrongUsage
from marathon.store.files import disk_errors, read_regular

_SEPARATORS = {"&&", "||", ";", "|", "&"}
_SKIPPED = {"__pycache__", ".git"}  # made by running, or not content
# In `wc -c page.js` the file is what is measured, and not what measures.
_READERS = {"cat", "wc", "du", "stat", "ls", "grep", "head", "tail", "test", "[", "gzip", "xz", "size", "tr", "cut"}
_LONGEST_SCRIPT = 100_000
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.S)


@dataclass(frozen=True)
class Evaluator:
    """What was frozen: the paths as given, and a digest of every file below them."""

    roots: tuple[str, ...]
    digests: Mapping[str, str]

    def changed(self, tree: Path) -> list[str]:
        """The files that are not as they were: changed, gone, or new below a frozen directory."""
        now = _digests(tree, self.roots)
        return sorted(name for name in self.digests.keys() | now.keys() if self.digests.get(name) != now.get(name))

    def check(self, tree: Path) -> Check:
        """The verdict that stands beside the guard's. It names the files."""
        changed = self.changed(tree)
        named = ", ".join(one_line(name, 100) for name in changed[:5])
        evidence = f"changed: {named}" if changed else None
        return Check(name="frozen files", passed=not changed, kind="frozen", evidence=evidence)


def programs(tree: Path, commands: Iterable[str]) -> list[str]:
    """What the commands start, of the files of a tree, and what a shell script among these starts."""
    found: dict[str, None] = {}
    left = list(commands)
    while left:
        for path in _programs(tree, left.pop()):
            if path not in found:
                found[path] = None
                left += _lines_of_script(tree / path)
    return list(found)


def _lines_of_script(path: Path) -> list[str]:
    if path.is_symlink():
        return []
    with disk_errors("read", path):
        text = (read_regular(path, _LONGEST_SCRIPT) or b"").decode("utf-8", "replace")
    first = text.partition("\n")[0]
    is_shell = path.suffix == ".sh" or (first.startswith("#!") and first.rstrip().endswith("sh"))
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")] if is_shell else []


def freeze(tree: Path, commands: Iterable[str], protect: Iterable[str]) -> Evaluator:
    """Freeze the programs that the commands start, and what was named beside them."""
    roots = dict.fromkeys([*(inside(tree, path) for path in protect), *programs(tree, commands)])
    return Evaluator(tuple(roots), _digests(tree, roots))


def inside(tree: Path, path: str) -> str:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or not parts.parts:
        raise WrongUsage(f"--protect {path}: it has to lie below the project. Write it as seen from there.")
    if not os.path.lexists(tree / parts):
        raise WrongUsage(f"--protect {path}: there is no such file. Nothing was frozen.")
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


def _digests(tree: Path, roots: Iterable[str]) -> dict[str, str]:
    found = {}
    for root in roots:
        path = tree / root
        if path.is_dir() and not path.is_symlink():
            for folder, folders, names in os.walk(path):
                links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
                folders[:] = [name for name in folders if name not in _SKIPPED]
                for name in [*names, *links]:
                    each = Path(folder, name)
                    found[str(each.relative_to(tree))] = _digest(each)
        elif os.path.lexists(path):
            found[root] = _digest(path)
    return found


def _digest(path: Path) -> str:
    """Of the contents and whether the file may be run; of a link, where it leads."""
    with disk_errors("read", path):
        if path.is_symlink():
            return hashlib.sha256(b"link " + os.fsencode(os.readlink(path))).hexdigest()
        if not path.is_file():
            return "no file"
        runs = b"x" if path.stat().st_mode & 0o111 else b"-"
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.sha256(runs)).hexdigest()
