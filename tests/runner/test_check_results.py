"""What the end of a check's command says about its criterion, and which commands are run once more."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from marathon.core.criteria import Criterion
from marathon.process.signals import Signals
from marathon.process.start import Exit
from marathon.process.supervisor import Done
from marathon.runner.checks import Checks, result_of


@pytest.mark.parametrize(
    ("wanted", "ended", "printed", "met", "reason", "kind"),
    [
        (0, {"code": 0}, "connection timed out", True, "", "transient"),
        (3, {"code": 3}, "", True, "", "logic"),
        (3, {"code": 0}, "", False, "exit code 0 instead of 3", "logic"),
        (0, {"code": 1}, "E  assert", False, "exit code 1", "logic"),
        (0, {"code": 1}, "Could not resolve host: x", False, "exit code 1", "transient"),
        (0, {"code": 127}, "", False, "exit code 127 (command not found)", "blocking"),
        (0, {"code": 0, "reason": "timeout"}, "", False, "it was not done within 5s", "transient"),
        (0, {"code": None, "signal": 9}, "", False, "it was killed by signal 9", "unknown"),
        (0, None, "", False, "no such folder", "blocking"),
    ],
)
def test_a_check_is_met_by_the_exit_code_that_was_asked_for_and_by_nothing_else(
    wanted: int, ended: dict[str, Any] | None, printed: str, met: bool, reason: str, kind: str
) -> None:
    exit = Exit(**{"signal": None, "reason": "exited", "swept": 0, "seconds": 1.0, **ended}) if ended else None
    done = Done(exit, "" if exit else reason, printed, Path("log"))
    result = result_of(Criterion(name="a", command="x", exit=wanted, timeout=5), done)
    assert (result.met, result.reason, result.kind) == (met, reason, kind)
    assert result.tail == ("" if met else printed)


def test_only_trouble_that_may_pass_is_run_once_more(tmp_path: Path) -> None:
    counting = "echo x >> {}; echo '{}'; exit {}"
    commands = {
        "fails": counting.format("fails", "E  assert", 1),
        "away": counting.format("away", "Could not resolve host", 1),
        "green": counting.format("green", "Could not resolve host", 0),
    }
    criteria = [Criterion(name=name, command=command) for name, command in commands.items()]
    logs = tmp_path / "logs"
    logs.mkdir()
    with Signals() as signals:
        checks = Checks(tmp_path, logs, os.environ, signals, lambda event: None)
        results = checks.run([*criteria, Criterion(name="judged")], {})
    assert results is not None
    assert [(each.name, each.met) for each in results] == [
        ("fails", False),
        ("away", False),
        ("green", True),
        ("judged", False),
    ]
    assert [(tmp_path / name).read_text().count("x") for name in commands] == [1, 2, 1]
