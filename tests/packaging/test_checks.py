"""bin/test runs its steps in order, stops at the first that fails, and leaves out what is slow unless asked for."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packaging.checkouts import quick_checkout, start

pytestmark = pytest.mark.slow

GOOD_AND_SLOW = """\
import pytest


def test_good() -> None:
    assert 1 + 1 == 2


@pytest.mark.slow
def test_slow_and_bad() -> None:
    assert 1 + 1 == 3
"""

PROCESS = ("guardian", "sweep", "resident")
FAULTS = ("interrupts", "stubborn_agents", "one_runner", "killed_anywhere")
PORTABLE = '''"""Runs both ways."""

import os


def test_this_way() -> None:
    print(f"portable: {os.environ.get('MARATHON_PORTABLE', '')}")
'''


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """This project's scripts and settings around next to nothing, so that the checks are quick."""
    checkout = quick_checkout(tmp_path / "checkout")
    shutil.rmtree(checkout / "marathon")
    for folder in ("marathon", "tests", "bench"):
        (checkout / folder).mkdir(exist_ok=True)
    for folder in ("marathon", "bench"):
        (checkout / folder / "__init__.py").write_text('"""Next to nothing."""\n')
    (checkout / "tests" / "test_small.py").write_text(GOOD_AND_SLOW)
    for name in (*(f"process/test_{name}" for name in PROCESS), *(f"faults/test_{name}" for name in FAULTS)):
        path = checkout / "tests" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(PORTABLE)
    return checkout


def steps(done: subprocess.CompletedProcess[str]) -> list[str]:
    return re.findall(r"^== (.+)$", done.stdout, re.MULTILINE)


def test_steps_arguments_and_exit_codes(small: Path, tmp_path: Path) -> None:
    everything = ["ruff check", "ruff format", "mypy", "pytest", "pytest without what only Linux has"]

    plain = start(small / "bin" / "test", cwd=tmp_path)
    assert plain.returncode == 0, plain.stdout + plain.stderr
    assert steps(plain) == everything
    assert re.match(r"bin/test: about \d+ minutes on two idle cores", plain.stdout)

    for arguments in (["--all"], ["tests/test_small.py"], ["--all", "-k", "slow"]):
        whole = start(small / "bin" / "test", *arguments, cwd=tmp_path)
        assert (whole.returncode, "test_slow_and_bad" in whole.stdout) == (1, True), arguments
    assert start(small / "bin" / "test", "-k", "good", cwd=tmp_path).returncode == 0

    nothing_collected = start(small / "bin" / "test", "-k", "no_such_name", cwd=tmp_path)
    assert nothing_collected.returncode == 5
    assert "pytest failed (exit 5)" in nothing_collected.stderr

    (small / "marathon" / "untidy.py").write_text("answer   = 42\n")
    untidy = start(small / "bin" / "test", cwd=tmp_path)
    assert untidy.returncode == 1
    assert steps(untidy) == everything[:2]
    assert "ruff format failed" in untidy.stderr


def test_bench_hands_its_arguments_on(tmp_path: Path) -> None:
    checkout = quick_checkout(tmp_path / "checkout")
    (checkout / "bench").mkdir(exist_ok=True)
    (checkout / "bench" / "bench.py").write_text("import sys; print(sys.argv[1:])\n")
    done = start(checkout / "bin" / "bench", "--quick", "a b", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "['--quick', 'a b']\n"), done.stderr
