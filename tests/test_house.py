"""The plan of the house, read from the imports: a room imports only from itself and from rooms below it."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from marathon.core.records import Reason

ROOT = Path(__file__).resolve().parents[1]

# Top to bottom. Each row: the room, and the modules and packages that make it up.
ROOMS = (
    ("cli", ("marathon.cli", "marathon.__main__")),
    ("web", ("marathon.web",)),
    ("runner", ("marathon.runner",)),
    ("surfaces", ("marathon.surfaces",)),
    ("show", ("marathon.show",)),
    ("agents", ("marathon.agents", "marathon.demo_project")),
    ("process", ("marathon.process",)),
    ("git", ("marathon.git",)),
    ("store", ("marathon.store",)),
    ("core", ("marathon.core",)),
    ("ground", ("marathon.errors", "marathon._bundled", "marathon")),
)
NO_PLACE_IN_CORE = {
    *("os", "pathlib", "time", "subprocess", "io", "shutil", "tempfile", "glob", "fcntl", "select", "signal"),
    *("socket", "threading", "asyncio", "random", "secrets", "platform", "getpass", "sys", "importlib"),
}
CALLS_WITH_NO_PLACE_IN_CORE = {"open", "input", "print", "exec", "eval", "__import__"}
LAZY = {"questionary", "prompt_toolkit", "rich"}


def _modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted((ROOT / "marathon").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()


def _room(module: str) -> int:
    """The row of the table a module belongs to; a module without a row is a mistake in the plan."""
    rows = [
        (len(part), number)
        for number, (_, parts) in enumerate(ROOMS)
        for part in parts
        if module == part or (part != "marathon" and module.startswith(part + "."))
    ]
    assert rows, f"{module} is in no room: give it a row in ROOMS"
    return max(rows)[1]


def _names(node: ast.AST, module: str, *, package: bool = False) -> list[str]:
    """What an import statement imports, as dotted names; nothing for other statements."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    above = module.split(".")
    above = above[: len(above) - node.level + package] if node.level else []
    base = ".".join([*above, *([node.module] if node.module else [])])
    return [f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base for alias in node.names]


def _imports(module: str, source: str, *, package: bool = False) -> set[str]:
    """Everything a module imports, also inside its functions."""
    return {name for node in ast.walk(ast.parse(source)) for name in _names(node, module, package=package)}


def _upward(module: str, source: str, *, package: bool = False) -> list[str]:
    own = [name for name in _imports(module, source, package=package) if name.split(".")[0] == "marathon"]
    return [f"{module} imports {name}" for name in sorted(own) if _room(name) < _room(module)]


def _top(name: str) -> str:
    return name.split(".")[0]


def _impure(source: str) -> list[str]:
    """What in a module reaches for files, a clock or the environment."""
    found = []
    for node in ast.walk(ast.parse(source)):
        found += [f"import {name}" for name in _names(node, "marathon.core") if _top(name) in NO_PLACE_IN_CORE]
        if isinstance(node, ast.Attribute) and node.attr in ("now", "today", "utcnow"):
            of = {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
            found += [f".{node.attr}"] if of & {"datetime", "date"} else []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found += [f"{node.func.id}()"] if node.func.id in CALLS_WITH_NO_PLACE_IN_CORE else []
    return found


def _run_on_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported: not those in functions or for the type checker."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        blocks = ["orelse"] if _for_type_checker(statement) else ["body", "orelse", "finalbody"]
        for block in blocks:
            yield from _run_on_import(getattr(statement, block, []))
        for part in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
            yield from _run_on_import(part.body)


def _for_type_checker(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _eager(source: str) -> list[str]:
    """Heavy libraries imported as soon as the module is."""
    names = [name for node in _run_on_import(ast.parse(source).body) for name in _names(node, "marathon")]
    return [name for name in names if _top(name) in LAZY]


def test_no_room_imports_from_a_room_above_it() -> None:
    upward = [
        wrong
        for module, path in MODULES.items()
        for wrong in _upward(module, path.read_text(), package=path.name == "__init__.py")
    ]
    assert upward == []


def test_core_has_no_files_no_clock_and_no_environment() -> None:
    inside = {module: path for module, path in MODULES.items() if ROOMS[_room(module)][0] == "core"}
    assert {module: impure for module, path in inside.items() if (impure := _impure(path.read_text()))} == {}
    assert "marathon.core.decide" in inside


def test_only_the_cli_knows_click() -> None:
    users = {module for module, path in MODULES.items() if "click" in map(_top, _imports(module, path.read_text()))}
    assert {ROOMS[_room(module)][0] for module in users} == {"cli"}


def test_heavy_libraries_are_imported_only_where_they_are_used() -> None:
    assert {module: eager for module, path in MODULES.items() if (eager := _eager(path.read_text()))} == {}


@pytest.mark.parametrize("start", ["import marathon.cli.main", "import marathon.cli.main as m; m.main(['--help'])"])
def test_the_command_line_starts_without_heavy_libraries(start: str) -> None:
    heavy = sorted(LAZY | {"pydantic", "psutil", "markdown_it", "tenacity", "starlette", "uvicorn"})
    report = f"import atexit, sys; atexit.register(lambda: print('loaded:', [x for x in {heavy} if x in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"{report}; {start}"],
        env={"PYTHONPATH": str(ROOT), "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines()[-1] == "loaded: []"


def test_every_module_says_what_it_is_for() -> None:
    assert [module for module, path in MODULES.items() if not ast.get_docstring(ast.parse(path.read_text()))] == []


def _conditions_on_a_reason(source: str) -> list[str]:
    """Where code asks which reason a gate has, instead of what its policy says."""
    reasons = set(get_args(Reason))

    def names_one(node: ast.AST) -> bool:
        return any(isinstance(each, ast.Constant) and each.value in reasons for each in ast.walk(node))

    def about_a_gate(node: ast.AST) -> bool:
        return any(isinstance(each, ast.Attribute) and each.attr == "reason" for each in ast.walk(node))

    tree = ast.walk(ast.parse(source))
    return [
        ast.unparse(node) for node in tree if isinstance(node, ast.Compare) and about_a_gate(node) and names_one(node)
    ]


def test_what_is_special_about_a_gate_stands_in_its_policy() -> None:
    found = {
        module: conditions
        for module, path in MODULES.items()
        if module != "marathon.core.gates" and (conditions := _conditions_on_a_reason(path.read_text()))
    }
    assert sum(map(len, found.values())) <= 8, found
    assert _conditions_on_a_reason('if gate.reason in ("review", "stuck"): pass')


def test_only_the_cli_knows_where_the_human_is() -> None:
    """The rehearsal agent is a program of its own, which is started in the project."""
    asks = {
        module for module, path in MODULES.items() if ".getcwd(" in path.read_text() or "Path.cwd(" in path.read_text()
    }
    assert {module for module in asks if not module.startswith(("marathon.cli", "marathon.agents.rehearsal"))} == set()


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("marathon.core.x", "from marathon.store.files import read_regular"),
        ("marathon.core.x", "def f():\n    import marathon.cli.main"),
        ("marathon.store.x", "from marathon import process"),
        ("marathon.show.x", "from ..surfaces import terminal"),
        ("marathon.errors", "from marathon.core import text"),
        ("marathon.agents.x", "if True:\n    from marathon.runner.loop import Runner"),
    ],
)
def test_a_wrong_import_would_be_seen(module: str, source: str) -> None:
    assert len(_upward(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("marathon.core.x", "import re\nfrom marathon.errors import MarathonError\nfrom .text import clean"),
        ("marathon.cli.x", "from marathon.core import text\nfrom marathon import __version__"),
        ("marathon.agents.x", "from marathon.demo_project import files\nfrom marathon.process import tree"),
    ],
)
def test_a_right_import_is_no_mistake(module: str, source: str) -> None:
    assert _upward(module, source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import os.path",
        "from time import monotonic",
        "def f():\n    from pathlib import Path",
        "from datetime import datetime\nx = datetime.now()",
        "import datetime\nx = datetime.datetime.now()",
        "x = open('file')",
    ],
)
def test_an_impure_core_would_be_seen(source: str) -> None:
    assert _impure(source)


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("import rich", ["rich"]),
        ("try:\n    from rich.console import Console\nexcept ImportError:\n    pass", ["rich.console"]),
        ("class A:\n    import questionary", ["questionary"]),
        ("def f():\n    import rich", []),
        ("if TYPE_CHECKING:\n    import rich\nelse:\n    import questionary", ["questionary"]),
    ],
)
def test_an_import_at_the_top_is_told_from_a_lazy_one(source: str, seen: list[str]) -> None:
    assert _eager(source) == seen


def test_one_module_runs_git() -> None:
    """It is the one that obeys no repository. `writes` shows what to type; the rehearsal agent is an agent."""
    starts = re.compile(r"""[\[(]\s*"git",\s*(["*]|f")""")
    found = {module for module, path in MODULES.items() if starts.search(path.read_text())}
    assert found - {"marathon.agents.rehearsal.project", "marathon.git.writes"} == {"marathon.git.run"}
