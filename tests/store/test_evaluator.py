"""Which files of a tree measure it."""

from __future__ import annotations

from pathlib import Path

import pytest

from marathon.errors import WrongUsage
from marathon.store.evaluator import inside, programs


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("bench.py", "slow.py", "check.sh", "tools/run.py", "tests/test_a.py", "tests/deep/data.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n")
    (tmp_path / "steps.sh").write_text("# sh slow.py\npython bench.py\n./check.sh && sh steps.sh\n")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("./check.sh", ["check.sh"]),
        ("python bench.py slow.py", ["bench.py"]),
        ("python3 -X dev bench.py --file=slow.py", ["bench.py"]),
        ("python -m tools.run slow.py", ["tools/run.py"]),
        ("python -m pytest tests", []),
        ("SEED=1 ./check.sh && python bench.py | tail -1", ["check.sh", "bench.py"]),
        ("sh steps.sh", ["steps.sh"]),  # what it starts may be what is to get better
        ("make test", []),
        ("cat ../other; /bin/true", []),
        ("echo 'unclosed", []),
    ],
)
def test_programs_are_found_and_their_data_is_not(tree: Path, command: str, found: list[str]) -> None:
    assert sorted(programs(tree, [command])) == sorted(found)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "", "nothing.py", "tests/../../x"])
def test_what_lies_outside_or_is_not_there_is_refused(tree: Path, path: str) -> None:
    with pytest.raises(WrongUsage, match="--protect"):
        inside(tree, path)
