"""What measures is frozen: a change of it is seen and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from marathon.errors import WrongUsage
from marathon.store.evaluator import freeze


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("bench.py", "slow.py", "check.sh", "tools/run.py", "tests/test_a.py", "tests/deep/data.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("./check.sh", ["check.sh"]),
        ("python bench.py slow.py", ["bench.py"]),
        ("python3 -X dev bench.py --file=slow.py", ["bench.py"]),
        ("python -m tools.run slow.py", ["tools/run.py"]),
        ("python -m pytest tests", []),
        ("SEED=1 ./check.sh && python bench.py | tail -1", ["check.sh", "bench.py"]),
        ("make test", []),
        ("cat ../other; /bin/true", []),
        ("echo 'unclosed", []),
    ],
)
def test_programs_are_frozen_and_their_data_is_not(tree: Path, command: str, programs: list[str]) -> None:
    assert sorted(freeze(tree, [command], []).digests) == sorted(programs)


def test_every_kind_of_change_is_named(tree: Path) -> None:
    frozen = freeze(tree, ["python bench.py"], ["tests", "slow.py"])
    assert frozen.changed(tree) == []
    (tree / "check.sh").write_text("not frozen")
    (tree / "tests" / "__pycache__").mkdir()
    (tree / "tests" / "__pycache__" / "x.pyc").write_text("made by running")
    assert frozen.changed(tree) == []
    (tree / "tests" / "new.py").write_text("")
    (tree / "tests" / "deep" / "data.txt").write_text("# other")
    (tree / "slow.py").unlink()
    (tree / "bench.py").chmod(0o755)
    (tree / "tests" / "test_a.py").unlink()
    (tree / "tests" / "test_a.py").symlink_to("deep/data.txt")
    assert frozen.changed(tree) == ["bench.py", "slow.py", "tests/deep/data.txt", "tests/new.py", "tests/test_a.py"]


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "", "nothing.py", "tests/../../x"])
def test_what_lies_outside_or_is_not_there_is_refused(tree: Path, path: str) -> None:
    with pytest.raises(WrongUsage, match="--protect"):
        freeze(tree, [], [path])
