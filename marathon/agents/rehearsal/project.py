"""What the agent can do in a project: read it, add a docstring, run the tests, use git."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

Definition = ast.FunctionDef | ast.AsyncFunctionDef


class Function(NamedTuple):
    path: str
    line: int
    name: str
    documented: bool


def read_sources(project: Path) -> dict[str, str]:
    """The Python files that git tracks, or without git those nearby. Links may lead out, so they are left out."""
    tracked = git(project, "ls-files", "-z", "--", "*.py")[1].split("\0")[:-1]
    nearby = [str(path.relative_to(project)) for path in (*project.glob("*.py"), *project.glob("[!.]*/*.py"))]
    paths = [name for name in sorted(tracked or nearby) if (project / name).resolve() == project.resolve() / name]
    files = {name: project / name for name in paths if (project / name).is_file()}
    return {name: file.read_bytes().decode(errors="surrogateescape") for name, file in files.items()}


def public_functions(project: Path) -> list[Function]:
    return [
        Function(path, node.lineno, name, bool(ast.get_docstring(node)))
        for path, source in read_sources(project).items()
        for name, node in _definitions(source).items()
        if not name.startswith("_") and not _is_test(path)
    ]


def document(source: str, name: str) -> str:
    """The source with a docstring in this function, or unchanged if there is no simple place for one."""
    node = _definitions(source).get(name)
    if node is None or ast.get_docstring(node):
        return source
    given = " and ".join(", ".join(each.arg for each in node.args.args).rsplit(", ", 1))
    docstring = name.replace("_", " ").capitalize() + (f", given {given}." if given else ".")
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", source)
    place = node.body[0].lineno - 1
    indent = lines[place][: node.body[0].col_offset]
    while lines[place - 1].lstrip().startswith("#"):
        place -= 1
    after = "".join([*lines[:place], f'{indent}"""{docstring}"""\n', *lines[place:]])
    changed = _definitions(after).get(name)
    return after if changed and ast.get_docstring(changed) == docstring else source


def run_tests(project: Path) -> tuple[bool, str]:
    """Run the tests with unittest. A project without tests cannot fail them."""
    folders = [os.path.dirname(path) or "." for path in read_sources(project) if _is_test(path)]
    if not folders:
        return True, "no tests to run"
    folder = min(folders, key=len)
    top = ["-t", "."] if (project / folder / "__init__.py").exists() else []
    # The tests import the project from the working directory, so the safe path is off.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": ""}
    command = [sys.executable, "-m", "unittest", "discover", "-s", folder, *top]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    ran = re.search(r"^Ran (\d+ tests?)", done.stderr, re.MULTILINE)
    passed = done.returncode == 0
    return passed, f"{ran[1] if ran else 'the tests'} {'passed' if passed else 'failed'}"


def git(project: Path, *arguments: str) -> tuple[bool, str]:
    """Run git without questions. A missing git is a failure like any other."""
    command = ["git", "-c", "commit.gpgsign=false", *arguments]  # Signing may ask for a passphrase.
    try:
        done = subprocess.run(command, cwd=project, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        return False, str(error)
    return done.returncode == 0, (done.stdout or done.stderr).decode(errors="surrogateescape")


def _definitions(source: str) -> dict[str, Definition]:
    """The functions at the top level; none if the source cannot be parsed."""
    try:
        return {node.name: node for node in ast.parse(source).body if isinstance(node, Definition)}
    except (SyntaxError, ValueError, RecursionError):
        return {}


def _is_test(path: str) -> bool:
    return os.path.basename(path).startswith("test_")
