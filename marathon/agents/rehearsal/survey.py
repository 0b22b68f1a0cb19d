"""A walk through the project: its files, its public functions, and what they lack."""

import ast
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from marathon.agents.rehearsal.git import tracked

MOST_FILES = 500
LARGEST_FILE = 1_000_000
Definition = ast.FunctionDef | ast.AsyncFunctionDef


class Function(NamedTuple):
    path: str
    name: str
    line: int
    documented: bool
    tested: bool

    @property
    def gaps(self) -> str:
        missing = {"no docstring": not self.documented, "no test": not self.tested}
        return ", ".join(gap for gap, is_missing in missing.items() if is_missing)


class Survey(NamedTuple):
    lines: dict[str, int]
    functions: list[Function]
    tests: list[str]

    @property
    def test_command(self) -> list[str]:
        """What to hand to `python` to run the tests, nothing where there are none."""
        if not self.tests:
            return []
        folder = min((os.path.dirname(path) or "." for path in self.tests), key=len)
        top = ["-t", "."] if f"{folder}/__init__.py" in self.lines else []
        return ["-m", "unittest", "discover", "-s", folder, *top]


def survey(project: Path, task: Path, say: Callable[[str], None] = lambda line: None) -> Survey:
    """Read the project, but not the tasks in it: they are about the work and no part of it."""
    texts = {}
    for path in [name for name in tracked(project) or _walked(project) if not _is_task(project / name, task)][
        :MOST_FILES
    ]:
        text = _text(project / path)
        if text is not None:
            texts[path] = text
            say(f"reading {path} ({len(text.splitlines())} lines)")
    tests = [path for path in texts if re.search(r"(^|/)test_[^/]*\.py$", path)]
    spoken_of = set(re.findall(r"\w+", "\n".join(texts[path] for path in tests)))
    code = [path for path in texts if path.endswith(".py") and path not in tests]
    functions = [
        Function(path, node.name, node.lineno, ast.get_docstring(node) is not None, node.name in spoken_of)
        for path in code
        for node in public_functions(texts[path])
    ]
    return Survey({path: len(text.splitlines()) for path, text in texts.items()}, functions, tests)


def public_functions(source: str) -> Iterator[Definition]:
    """The functions of a module that have a name of their own; none where it cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in tree.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node


def _is_task(path: Path, task: Path) -> bool:
    return path.is_relative_to(task.parent) and path.parent != task.parent


def _walked(project: Path) -> list[str]:
    found: list[str] = []
    for folder, folders, names in os.walk(project):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and name != "node_modules")
        found += [os.path.relpath(os.path.join(folder, name), project) for name in sorted(names)]
    return found


def _text(path: Path) -> str | None:
    """The text of a file; pictures, links and the like have none."""
    try:
        if path.is_symlink() or path.stat().st_size > LARGEST_FILE:
            return None
        text = path.read_bytes().decode("utf-8")
    except (OSError, ValueError):
        return None
    return None if "\0" in text else text
