"""The rows with the real pi: measured with it, or left out with a line that says why; no figure is judged here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.pi_standin import events
from bench.scratch import ROOT
from marathon.agents.pi.reading import Run
from tests.real.install import ensure_pi

GROUPS = ("pi-share", "pi-next", "pi-flood")


def measured(folder: Path, groups: tuple[str, ...], root: Path = ROOT, **env: str) -> dict[str, Any]:
    work, out = folder / "work", folder / "results.json"
    work.mkdir()
    only = [f"--only={group}" for group in groups]
    done = subprocess.run(
        [sys.executable, str(root / "bench" / "bench.py"), "--quick", "--dir", str(work), "--out", str(out), *only],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert out.exists(), done.stderr
    assert not list(work.iterdir()), "something was left behind"
    report = json.loads(out.read_text())
    assert isinstance(report, dict)
    return report


def test_with_pi_every_row_has_a_figure_and_a_note_that_says_what_was_measured(tmp_path: Path) -> None:
    ensure_pi()
    report = measured(tmp_path, GROUPS)
    rows = {row["name"]: row for row in report["rows"]}
    judged = {name: row["target"]["at_most"] for name, row in rows.items() if row["target"]}
    assert judged == {"the runner's share, with pi": 3, "pi's next request": 0.5, "4 MB of pi's events: held": 60}
    assert 0 < rows["the runner's share, with pi"]["value"] < 100
    assert rows["pi's next request"]["value"] > 0
    assert rows["4 MB of pi's events: read"]["value"] > 0
    assert rows["4 MB of pi's events: held"]["baseline"] > 5
    assert [note.split(":")[0] for note in report["notes"]] == ["pi's share", "pi's next request", "pi's events"]


def test_without_pi_and_npm_its_rows_are_left_out_with_a_line(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for name in ("bench", "marathon"):
        shutil.copytree(ROOT / name, checkout / name)
    server = checkout / "tests" / "real" / "model_server.py"
    server.parent.mkdir(parents=True)
    server.write_bytes((ROOT / "tests" / "real" / "model_server.py").read_bytes())
    report = measured(tmp_path, ("pi-share", "pi-next"), checkout, PATH=str(tmp_path))
    assert report["rows"] == []
    assert len(report["notes"]) == 1
    assert "npm is missing" in report["notes"][0]


def test_what_stands_in_for_pi_prints_records_that_are_read() -> None:
    run, shown = Run(), set()
    for piece in events(1):
        for line in piece.splitlines():
            assert isinstance(json.loads(line), dict)
            shown |= {type(event).__name__ for event in run.read(line, True)}
    assert shown == {"Text", "ToolCalled", "ToolEnded", "Used"}
    assert run.usage.turns == run.usage.toolCalls > 0
