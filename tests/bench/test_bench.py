"""bin/bench measures the real program and keeps what it found in a file of a known shape; no figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.row import Row, Target, exit_code, summary
from bench.scratch import DIRECT, ROOT, Scratch

# Of the groups that need nothing but this checkout; those with the real pi are not among them.
FIGURES = {
    "--help": "ratio",
    "status": "ratio",
    "hook stop": "ratio",
    "hook session-start": "ratio",
    "of that the runner's own": "ratio",
    "memory grown after 8 sessions": "value",
    "open files after 8 sessions": "value",
    "zombies after 8 sessions": "value",
    "list of 20 tasks": "ratio",
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
    groups = [word for name in ("start", "hook", "gap", "memory", "list") for word in ("--only", name)]
    code, shown, report = _bench(tmp_path, *groups)
    assert code == 0, "without --strict a missed target is no failure"
    rows = {row["name"]: row for row in report["rows"]}
    assert {name: row["target"]["of"] for name, row in rows.items() if row["target"]} == FIGURES
    for row in rows.values():
        assert set(row) == {"name", "value", "unit", "baseline", "against", "ratio", "target", "ok"}
        assert (row["ok"] is None) == (row["target"] is None)
        assert (row["ratio"] is None) == (row["baseline"] == 0)
    assert set(report["machine"]) == {"cores", "python", "kernel", "load", "load_after", "filesystem"}
    assert report["quick"] is True
    met = sum(row["ok"] is True for row in rows.values())
    assert report["summary"] == f"{met} of {len(FIGURES)} targets met"
    assert report["summary"] in shown
    assert rows["open files after 8 sessions"]["value"] > 3
    assert rows["status"]["value"] > rows["status"]["baseline"] > 0


def test_only_the_named_group_is_measured(tmp_path: Path) -> None:
    code, _, report = _bench(tmp_path, "--only", "list", "--strict")
    assert [row["name"] for row in report["rows"]] == ["list of 20 tasks"]
    assert code == int(report["rows"][0]["ok"] is False)


def test_a_missed_target_is_an_exit_code_only_when_that_was_asked_for() -> None:
    met, missed = (Row("x", value, "", 1, "y", Target("value", 1)) for value in (1, 2))
    assert [exit_code([met, missed], strict=strict) for strict in (False, True)] == [0, 1]
    assert exit_code([met, Row("only shown", 9, "ms", 1, "x")], strict=True) == 0


def test_a_target_is_met_up_to_and_including_its_limit() -> None:
    rows = [
        Row("at the limit", 12, "ms", 2, "x", Target("ratio", 6)),
        Row("above it", 12.1, "ms", 2, "x", Target("ratio", 6)),
        Row("by value", 9, "MiB", 1, "x", Target("value", 10)),
        Row("nothing to compare with", 9, "ms", 0, "x", Target("ratio", 10)),
        Row("only shown", 9, "ms", 1, "x"),
    ]
    assert [row.ok for row in rows] == [True, False, True, False, None]
    assert summary(rows) == "2 of 4 targets met"


def test_a_command_that_fails_is_an_error_and_not_a_figure(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="exit 7"):
        Scratch(tmp_path).run([*DIRECT, "status", "nowhere"])
