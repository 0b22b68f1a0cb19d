"""What a change may touch."""

from __future__ import annotations

import pytest

from marathon.core.lanes.reach import outside

MODULES = {"json", "random", "time"}
MEASURES = ["bench.py", "tools/guard"]


@pytest.mark.parametrize(
    ("path", "new", "only", "may"),
    [
        ("src/parse.py", False, [], True),
        ("src/new.py", True, [], True),
        ("bench.py", False, [], False),
        ("tools/guard/a.sh", False, [], False),
        ("tests/data.json", False, [], False),
        ("src/test_parse.py", False, [], False),
        ("app/parse.spec.ts", True, [], False),
        ("Makefile", False, [], False),
        ("package.json", False, [], False),
        (".github/workflows/ci.yml", False, [], False),
        ("src/latest.py", True, [], True),
        ("deep/conftest.py", True, [], False),
        ("lib/x.pth", True, [], False),
        ("json.py", True, [], False),
        ("src/random/__init__.py", True, [], False),
        ("json.py", False, [], True),  # it was there before
        ("src/tools/json.py", True, [], True),  # not at an import root
        ("json", True, [], True),
        ("data/time.txt", True, [], True),
        ("src/parse.py", False, ["src"], True),
        ("src/parse.py", False, ["src/"], True),
        ("src/parse.py", False, ["src/*.py"], True),
        ("other.py", False, ["src"], False),
        ("srcs/parse.py", False, ["src"], False),
        ("src/conftest.py", True, ["src"], False),
        ("src/conftest.py", True, ["src", "src/conftest.py"], True),
        ("bench.py", False, ["."], False),
        ("bench.py", False, ["bench.py"], True),
        ("tests/test_a.py", False, ["tests"], True),
    ],
)
def test_what_may_be_changed(path: str, new: bool, only: list[str], may: bool) -> None:
    assert outside([(path, new)], only, MEASURES, MODULES) == ([] if may else [path])
