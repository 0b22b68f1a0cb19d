"""bin/bench measures the real program and keeps what it found in a file of a known shape; no figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.keeps import MACHINES
from bench.row import Row, summary
from bench.scratch import MARATHON, ROOT, Scratch

pytestmark = pytest.mark.slow

BARS = {
    "--help": 6,
    "status": 15,
    "between two sessions": 100,
    "the runner's share of a minute (command)": 1,
    "the runner's share of a minute (pi)": 1,
    "the runner's share of a minute (pi on a terminal)": 1,
    "the runner's share of a minute (claude)": 1,
    "the runner's share of a minute (codex)": 1,
    "the runner's share of a minute (acp)": 1,
    "a gate on screen after the agent's end": 300,
    "comments found again in a changed plan": 500,
    "memory grown after 8 sessions": 10,
    "more open files after 8 sessions": 0,
    "zombies after 8 sessions": 0,
    "loops with a false keep (independent noise)": 2.5,
    "runs for a candidate without a gain": 7,
    **{f"loops with a false keep ({name})": 2.5 for name in MACHINES},
    **{f"gain that was never there ({name})": 0.2 for name in MACHINES},
    **{f"missed gains of 3 σ ({name})": 3 if name == "gaussian" else 20 for name in MACHINES},
    "loops with a false keep (offsets)": 100,
    "loops with a false keep (offsets, --min-gain 3%)": 2.5,
    "a loop rebuilt from its rows": 1,
    "an iteration of a loop, beside verify": 150,
    "list --all with 1,000 tasks, beside ten": 3,
    "attach: first screen, log of 100 MB": 300,
    "attach: from a line to the screen": 200,
    "a background runner at a gate": 0.5,
    "the page of 1 MB with 500 comments": 1,
    "the same, opened in Chromium": 1,
    "the page of a session with 10 MB of events": 1,
}


def _bench(folder: Path, *args: str) -> tuple[int, str, dict[str, Any]]:
    """A quick run: exit code, what it showed, what it kept."""
    work, out = folder / "not there" / "work", folder / "results.json"
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "bench.py"), "--quick", "--dir", str(work), "--out", str(out), *args],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert out.exists(), done.stderr
    assert not list(work.iterdir()), "something was left behind"
    return done.returncode, done.stdout, json.loads(out.read_text())


def test_a_quick_run_keeps_its_figures_and_shows_them(tmp_path: Path) -> None:
    code, shown, report = _bench(tmp_path)
    assert code == 0, "without --strict a missed bar is no failure"
    rows = {row["name"]: row for row in report["rows"]}
    assert {name: row["at_most"] for name, row in rows.items()} == BARS
    assert all(name in shown for name in rows)
    assert report["summary"] in shown
    for measured in ("--help", "status", "between two sessions", "a gate on screen after the agent's end"):
        assert rows[measured]["value"] > 0
    assert set(report["machine"]) == {"cores", "python", "system", "filesystem", "load"}


def test_only_the_named_group_is_measured_and_strict_makes_a_missed_bar_an_exit_code(tmp_path: Path) -> None:
    code, _, report = _bench(tmp_path, "--only", "start", "--strict")
    assert [row["name"] for row in report["rows"]] == ["--help", "status"]
    assert code == int(not all(row["ok"] for row in report["rows"]))


def test_a_bar_is_held_up_to_and_including_its_limit() -> None:
    rows = [Row("at it", 6, "x", 6, ""), Row("above it", 6.1, "x", 6, "")]
    assert [row.ok for row in rows] == [True, False]
    assert summary(rows) == "1 of 2 bars held"


def test_a_command_that_fails_is_an_error_and_not_a_figure(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="exit 7"):
        Scratch(tmp_path).run([*MARATHON, "status", "nowhere"])
