"""A small unit test for an untested function: it is called, and what it answers today is pinned."""

import ast
import builtins
import json
import subprocess
from pathlib import Path
from typing import NamedTuple

from marathon.agents.rehearsal.checks import python
from marathon.agents.rehearsal.functions import Function, public_definitions
from marathon.agents.rehearsal.samples import Value, sample_calls
from marathon.agents.rehearsal.survey import Survey

LONGEST_CALL = 20
LONGEST_ANSWER = 200

# Runs in a process of its own: what the function answers, as text, one outcome per call.
_PROBE = """
import contextlib, importlib, json, sys
module, name, calls = json.load(sys.stdin)
found = []
with contextlib.redirect_stdout(sys.stderr):
    function = getattr(importlib.import_module(module), name)
    for call in calls:
        try:
            found.append(["returns", repr(function(*call))])
        except Exception as error:
            found.append(["raises", type(error).__name__])
json.dump(found, sys.stdout)
"""


class Case(NamedTuple):
    label: str
    call: str
    how: str
    answer: str


def free_path(project: Path, survey: Survey, function: Function) -> str:
    """A free name beside the tests that are there."""
    folders = [file.path.rpartition("/")[0] for file in survey.files if file.is_test]
    folder = max(sorted(set(folders)), key=folders.count) if folders else "tests"
    stem = f"test_{Path(function.path).stem.strip('_')}_{function.name}"
    names = [f"{stem}.py", *(f"{stem}_{number}.py" for number in range(2, 100))]
    paths = [f"{folder}/{name}" if folder else name for name in names]
    return next(path for path in paths if not (project / path).exists())


def unit_test(project: Path, path: str, name: str) -> str:
    """The source of a test for a function, empty where nothing certain can be said about it."""
    module = module_name(path)
    cases = _cases(project, path, module, name) if module else []
    if not cases:
        return ""
    lines = [f'"""What {name} answers, pinned as it is today."""', "", "import unittest", ""]
    lines += [f"from {module} import {name}", "", ""]
    lines += [f"class {''.join(part.capitalize() for part in name.split('_'))}Test(unittest.TestCase):"]
    for case in cases:
        lines += [f"    def test_{case.label}(self) -> None:", *_assertion(case), ""]
    return "\n".join([*lines, "", 'if __name__ == "__main__":', "    unittest.main()", ""])


def module_name(path: str) -> str:
    """How a file is imported from the project's root (or its src folder); empty where it cannot be."""
    parts = path.removeprefix("src/").removesuffix(".py").split("/")
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts) if parts and all(part.isidentifier() for part in parts) else ""


def _cases(project: Path, path: str, module: str, name: str) -> list[Case]:
    source = (project / path).read_text(encoding="utf-8")
    node = next((node for found, node in public_definitions(ast.parse(source)) if found == name), None)
    calls = sample_calls(node) if node else {}
    first, second = (_probe(project, module, name, list(calls.values()), seed) for seed in ("1", "2"))
    # What differs between two runs (the order of a set, say) cannot be pinned.
    return [
        Case(label, f"{name}({', '.join(map(repr, call))})", *outcome)
        for (label, call), outcome, again in zip(calls.items(), first, second, strict=False)
        if outcome == again and _can_be_pinned(*outcome)
    ]


def _probe(project: Path, module: str, name: str, calls: list[list[Value]], seed: str) -> list[tuple[str, str]]:
    try:
        question = json.dumps([module, name, calls]).encode()
        done = python(project, ["-c", _PROBE], LONGEST_CALL, question, seed)
        return [(str(how), str(answer)) for how, answer in json.loads(done.stdout)]
    except (subprocess.TimeoutExpired, ValueError):
        return []


def _can_be_pinned(how: str, answer: str) -> bool:
    if how == "raises":
        # A TypeError speaks of our guess at the arguments, not of the function.
        return answer != "TypeError" and hasattr(builtins, answer)
    try:
        return len(answer) <= LONGEST_ANSWER and repr(ast.literal_eval(answer)) == answer
    except (ValueError, SyntaxError):
        return False


def _assertion(case: Case) -> list[str]:
    if case.how == "raises":
        return [f"        with self.assertRaises({case.answer}):", f"            {case.call}"]
    check = "assertIs" if case.answer in ("True", "False", "None") else "assertEqual"
    return [f"        self.{check}({case.call}, {case.answer})"]
