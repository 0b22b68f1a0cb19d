"""demo: a whole marathon in a throw-away project, with a human at the gates and without."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.driver import Pty
from tests.support.world import ROOT, World

KEYS_SHOWN = b"[q]      Quit marathon"


def task_of(project: Path) -> Path:
    (task,) = (project / "docs" / "tasks").iterdir()
    return task


def test_without_a_terminal_it_passes_its_own_gates_and_says_so(world: World) -> None:
    ran = world.cli("demo", "--into", "demo", timeout=120, PATH="/usr/bin:/bin")
    assert ran.returncode == 0
    assert "--auto-approve" in ran.stdout
    assert f"&& {ROOT / 'bin' / 'pi-marathon'} status docs/tasks/" in ran.stdout
    assert f"Now yours, in a project of your own: {ROOT / 'bin' / 'pi-marathon'} new" in ran.stdout
    assert ran.stdout.count("no one reviewed it") == 2
    project = world.project / "demo"
    assert f"The demo's project is {project}" in ran.stdout
    for name in ("research.md", "plan.md", "work.md", "result.md"):
        assert (task_of(project) / name).read_text().strip()
    assert "○ agent says: Every public function has a docstring." in ran.stdout
    log = subprocess.run(["git", "log", "--oneline"], cwd=project, capture_output=True, text=True, check=True)
    assert len(log.stdout.splitlines()) >= 3


def test_on_the_path_it_is_called_by_its_name(world: World) -> None:
    (world.home / "pi-marathon").symlink_to(ROOT / "bin" / "pi-marathon")
    ran = world.cli("demo", "--into", "demo", PATH=f"{world.home}:{world.env()['PATH']}")
    assert "&& pi-marathon status docs/tasks/" in ran.stdout
    assert "PATH" not in ran.stdout


def test_on_a_terminal_feedback_at_a_gate_is_heeded(world: World, typed: Callable[..., Pty]) -> None:
    terminal = typed("demo", "--into", "demo", MARATHON_REHEARSAL_PACE="0")
    shown = terminal.expect(KEYS_SHOWN)
    assert b"Phase: research" in shown
    assert b"Try f, then: please skip slug" in shown
    terminal.send(b"f")
    terminal.expect(b"Feedback:")
    terminal.send(b"Leave textkit/cli.py alone. Please skip slug\r")
    assert b"Phase: plan" in terminal.expect(KEYS_SHOWN)
    project = world.project / "demo"
    plan = (task_of(project) / "plan.md").read_text()
    assert "in `textkit/words.py`" in plan
    assert "in `textkit/cli.py`" not in plan
    assert "“Leave textkit/cli.py alone. Please skip slug” → left alone: `slug`, `textkit/cli.py`" in plan
    untouched = (project / "textkit" / "cli.py").read_bytes()
    terminal.send(b"\r")
    terminal.expect(b"Completed")
    (commit,) = re.findall(rb"The changes: git diff (\w+)", terminal.expect(b"What to type next:"))
    changed = subprocess.run(["git", "diff", commit], cwd=project, capture_output=True, text=True, check=True).stdout
    assert "+++ b/textkit/words.py" in changed
    ending = terminal.expect(b" new\r\n").decode()
    assert f"  First:          cd {project}\r\n" in ending
    assert "  Look at it:     pi-marathon review document-textkit\r\n" in ending
    assert "  Have more done: pi-marathon --task docs/tasks/" in ending
    assert '-h "what else"' in ending
    assert "Now yours" in ending
    assert terminal.wait() == 0
    assert terminal.cooked()
    assert (project / "textkit" / "cli.py").read_bytes() == untouched
    assert "Leave textkit/cli.py alone. Please skip slug" in (task_of(project) / "human.md").read_text()


def test_the_demo_can_be_left_and_taken_up_again(world: World, typed: Callable[..., Pty]) -> None:
    terminal = typed("demo", "--into", "demo", MARATHON_REHEARSAL_PACE="0")
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"q")
    shown = terminal.expect(b"Look around").decode()
    assert terminal.wait() == 3
    (typed_as,) = re.findall(r"To continue: (cd .* --agent rehearsal)\b", shown)
    again = subprocess.run(
        ["sh", "-c", typed_as],
        cwd=world.home,
        env=world.env(MARATHON_REHEARSAL_PACE="0"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 3
    assert "Phase: research | Iteration: 1" in again.stdout


def test_it_needs_no_python_on_the_path_but_its_own(world: World) -> None:
    """The check of its task is run with whatever Python runs the demo."""
    bare = world.home / "bin"
    bare.mkdir()
    for name in ("sh", "git"):
        (bare / name).symlink_to(shutil.which(name) or name)
    ran = world.cli("demo", "--into", "demo", timeout=120, PATH=str(bare))
    assert ran.returncode == 0, ran.stdout
    assert "✓ ran: python3 -m unittest discover -s tests" in ran.stdout


def test_the_loop_ends_with_the_best_honest_variant_and_its_plot(world: World) -> None:
    """Of what the scripted agent tries, one does nothing, one is wrong, one is worse, one changes the bench, and one
    knows the answer."""
    ran = world.cli("demo", "--loop", "--into", "demo", timeout=180)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    project = world.project / "demo"
    (run,) = (project / ".multiloop" / "active" / "anagrams").iterdir()
    rows = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
    failed = [[check["name"] for check in row.get("checks", []) if not check["passed"]] for row in rows]
    assert [row["action"] for row in rows] == ["keep", "revert", "revert", "revert", "revert", "keep", "revert"]
    assert [failed[place] for place in (1, 2, 3, 6)] == [[], ["guard"], [], ["holdout"]]
    (changed,) = [check for check in rows[4]["checks"] if not check["passed"]]
    assert changed["name"] == "files"
    assert "bench.py" in changed["evidence"]
    assert rows[3]["metric"] > rows[0]["metric"] > rows[5]["metric"] > rows[6]["metric"]
    assert rows[1]["ratio"][0] == pytest.approx(1, abs=0.1), (
        "a change of nothing looks better or worse, and is not kept"
    )

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=project, capture_output=True, text=True, check=True).stdout

    branch = f"multiloop/anagrams/{run.name}"
    assert git("diff", "--name-only", "main", branch) == "anagrams.py\n"
    best = git("show", f"{branch}:anagrams.py")
    assert "sorted(word)" in best
    assert "KNOWN" not in best
    assert git("status", "--porcelain") == ""
    for name in ("plot.svg", "plot.html"):
        assert f"Wrote {run / name}" in ran.stdout
        assert "<svg" in (run / name).read_text()
    assert "2 kept, 5 reverted" in ran.stdout
    assert f"cd {project} && pi-marathon loop status anagrams" in ran.stdout
