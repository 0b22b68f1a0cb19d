"""A walk through the project: every file, its lines, its functions and what they lack."""

import ast
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from marathon.agents.rehearsal.functions import Function, functions
from marathon.agents.rehearsal.git import tracked
from marathon.agents.rehearsal.tidy import untidy_line

MOST_FILES = 1000
LARGEST_FILE = 1_000_000
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "venv", "build", "dist"})


class SourceFile(NamedTuple):
    path: str
    text: str
    is_test: bool
    functions: tuple[Function, ...] = ()
    trouble: str = ""

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")


class Survey(NamedTuple):
    files: tuple[SourceFile, ...]
    tested: frozenset[str]
    unread: int

    @property
    def functions(self) -> list[Function]:
        return [function for file in self.files if not file.is_test for function in file.functions]

    @property
    def has_code(self) -> bool:
        return any(file.is_python and not file.is_test for file in self.files)

    def gaps(self, function: Function) -> list[str]:
        missing = {
            "no docstring": not function.documented,
            "no type hints": not function.hinted,
            "no test": function.bare_name not in self.tested,
        }
        return [gap for gap, is_missing in missing.items() if is_missing]

    def untidy(self) -> dict[str, int]:
        """Prose files with blanks at line ends or no newline at the end, and the first such line."""
        found = {file.path: untidy_line(file.path, file.text) for file in self.files}
        return {path: line for path, line in found.items() if line}

    def file(self, path: str) -> SourceFile | None:
        return next((file for file in self.files if file.path == path), None)


def survey(project: Path, task: Path, say: Callable[[str], None] = lambda line: None) -> Survey:
    """Read the project, but not the tasks in it: they are about the work and no part of it."""
    paths = [path for path in tracked(project) or _walked(project) if _belongs(project / path, task)]
    files = []
    for path in paths[:MOST_FILES]:
        file = _read(project, path)
        if file is not None:
            say(f"reading {path} ({file.lines} line{'' if file.lines == 1 else 's'})")
            files.append(file)
    return Survey(tuple(files), _names_in_tests(files), max(0, len(paths) - MOST_FILES))


def _belongs(path: Path, task: Path) -> bool:
    """No links (a rewrite would replace them), no tasks, no name that would break a table."""
    odd = any(not char.isprintable() or char in "`|" for char in str(path))
    return path.is_file() and not path.is_symlink() and not odd and not _lies_in_a_task(path, task)


def _lies_in_a_task(path: Path, task: Path) -> bool:
    if task.parent not in path.parents:
        return False
    neighbour = task.parent / path.relative_to(task.parent).parts[0]
    return neighbour == task or (neighbour / "instructions.md").is_file()


def _walked(project: Path) -> list[str]:
    found = []
    for folder, folders, names in os.walk(project):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED_FOLDERS)
        found += [os.path.relpath(os.path.join(folder, name), project) for name in sorted(names)]
    return [path for path in found if not path.startswith(".")]


def _read(project: Path, path: str) -> SourceFile | None:
    """One text file; pictures and the like are none."""
    if (project / path).stat().st_size > LARGEST_FILE:
        return None
    try:
        text = (project / path).read_bytes().decode("utf-8")
    except ValueError:
        return None
    if "\0" in text:
        return None
    if not path.endswith(".py"):
        return SourceFile(path, text, is_test=False)
    try:
        found = functions(path, ast.parse(text))
    except (SyntaxError, ValueError, RecursionError) as trouble:
        return SourceFile(path, text, _is_test(path), trouble=f"cannot be parsed: {trouble}")
    return SourceFile(path, text, _is_test(path), tuple(found))


def _is_test(path: str) -> bool:
    *folders, name = path.split("/")
    is_named_so = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    return is_named_so or any(folder in ("test", "tests") for folder in folders)


def _names_in_tests(files: list[SourceFile]) -> frozenset[str]:
    """Every name the tests speak of; a function not among them has no test of its own."""
    names: set[str] = set()
    for file in files:
        if file.is_test and not file.trouble:
            for node in ast.walk(ast.parse(file.text)):
                names |= {getattr(node, "id", ""), getattr(node, "attr", "")}
    return frozenset(names)
