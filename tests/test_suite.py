"""The suite itself: what it inherits reaches no child, and a test that hangs fails."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.deadline import at_most

ROOT = Path(__file__).resolve().parents[1]
# As a child of a test sees it: bits that are set are signals that are ignored or blocked.
TEST = """
import signal, subprocess
def test_it():
    known = sum(1 << number - 1 for number in signal.valid_signals())  # the C library keeps two for itself
    told = subprocess.run(["grep", "-E", "Sig(Ign|Blk):", "/proc/self/status"], capture_output=True, text=True).stdout
    assert {int(line.split()[1], 16) & known for line in told.splitlines()} == {0}, told
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_a_child_has_default_signals_whatever_the_suite_was_started_with(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir"]
    ignoring = "trap '' HUP INT QUIT TERM PIPE; exec \"$@\""
    ran = subprocess.run(
        ["sh", "-c", ignoring, "sh", *argv, str(tmp_path), str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_test_that_waits_without_end_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"not over after 0\.05 s"), at_most(0.05):
        threading.Event().wait(30)
