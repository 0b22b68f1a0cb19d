"""The rehearsal agent, run as the runner runs it: a child process in the project, the prompt on its stdin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from marathon.agents.rehearsal.edits import document
from marathon.agents.rehearsal.heed import Ask, asks
from marathon.core.courses.workflow import Phase
from marathon.core.human_note import Reply
from marathon.core.prompt import Briefing, build_prompt
from marathon.demo_project import unpack

CHECKOUT = Path(__file__).resolve().parents[2]
SHOP = '''"""A shop."""


def total(prices: list[int], discount: int = 0) -> int:
    # Prices are in cents.
    return sum(prices) - discount


def wipe(path: str) -> None: open(path, "w").close()


def _private() -> None:
    pass
'''


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    return unpack(tmp_path / "demo")


def run(task: Path, phase: str, prompt: str = "", iteration: int = 1) -> subprocess.CompletedProcess[str]:
    given = {"MARATHON_TASK_DIR": str(task), "MARATHON_PHASE": phase, "MARATHON_ITERATION": str(iteration)}
    return subprocess.run(
        [sys.executable, "-P", "-m", "marathon.agents.rehearsal"],
        cwd=task.parents[2],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "MARATHON_RUN": "1", **given},
        input=prompt,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def did(task: Path, phase: str, prompt: str = "", iteration: int = 1) -> str:
    done = run(task, phase, prompt, iteration)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def state(task: Path) -> tuple[str, str]:
    value = json.loads((task / "STATE.json").read_text())
    return value["state"], value["phase"]


def git(project: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=project, check=True, capture_output=True, text=True).stdout


def its_tests_pass(project: Path) -> bool:
    command = [sys.executable, "-m", "unittest", "discover", "-s", "tests"]
    return subprocess.run(command, cwd=project, capture_output=True, check=False).returncode == 0


def shop(root: Path, *, repository: bool) -> Path:
    """Another small project than the demo's; returns its task."""
    task = root / "docs" / "tasks" / "20260101-000000-tidy"
    task.mkdir(parents=True)
    (task / "instructions.md").write_text("# Tidy up\n\n## Goal\n\nDocument the code.\n")
    (root / "shop.py").write_text(SHOP)
    if repository:
        for words in (
            ["init", "-q"],
            ["add", "shop.py"],
            ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "1"],
        ):
            git(root, *words)
    return task


def test_a_whole_marathon_over_the_demo(demo: Path) -> None:
    project = demo.parents[2]
    assert "reading textkit/words.py" in did(demo, "research")
    assert state(demo) == ("paused", "research")
    assert "`initials`: no docstring, no test" in (demo / "research.md").read_text()
    did(demo, "plan", iteration=2)
    assert state(demo) == ("paused", "plan")
    assert (demo / "plan.md").read_text().count("- [ ]") == 5
    did(demo, "implement", iteration=3)
    assert state(demo) == ("running", "implement")
    assert "- [x] 1." in (demo / "plan.md").read_text()
    did(demo, "implement", iteration=4)
    assert state(demo) == ("completed", "done")
    assert its_tests_pass(project)
    assert git(project, "log", "--format=%s").splitlines()[0].startswith("rehearsal:")
    assert git(project, "status", "--porcelain", "--", "textkit", "tests") == ""
    assert '"""Shorten, given text and width."""' in (project / "textkit/words.py").read_text()
    assert (demo / "result.md").read_text().count("rehearsal:") == 2
    assert (demo / "work.md").read_text().count("## Session") == 2


@pytest.mark.parametrize("repository", [True, False], ids=["git", "no git"])
def test_another_project_is_served_too(tmp_path: Path, repository: bool) -> None:
    task = shop(tmp_path, repository=repository)
    for iteration, phase in enumerate(["research", "plan", "implement", "implement"], start=1):
        did(task, phase, iteration=iteration)
    assert state(task) == ("completed", "done")
    source = (tmp_path / "shop.py").read_text()
    assert '    """Total, given prices and discount."""\n    # Prices are in cents.' in source
    compile(source, "shop.py", "exec")


def test_feedback_steering_and_answers_are_heeded_in_what_is_written(demo: Path) -> None:
    feedback = "## New from the human\n\n> please skip slug and look at shorten\n\n## Steering\n\n> be brief\n"
    did(demo, "research", feedback)
    research = (demo / "research.md").read_text()
    assert "feedback: “please skip slug and look at shorten” → left alone from here on" in research
    assert "steering: “be brief”" in research
    did(demo, "plan", feedback)
    plan = (demo / "plan.md").read_text()
    assert "Heed steering: be brief" in plan
    assert "`slug`" not in plan.partition("## Chunk 1")[2]
    did(demo, "implement", "## Steering\n\n> leave textkit/cli.py alone\n")
    assert "steering" in (demo / "work.md").read_text()
    assert git(demo.parents[2], "diff", "HEAD~1", "--name-only").split() == ["textkit/words.py"]


def test_a_phase_done_again_counts_its_round_and_keeps_what_was_said(demo: Path) -> None:
    did(demo, "research", "## New from the human\n\n> first wish\n")
    did(demo, "research", "## New from the human\n\n> second wish\n")
    did(demo, "research", "## New from the human\n\n> third wish\n")
    text = (demo / "research.md").read_text()
    assert text.startswith("# Research: Document and test textkit (Round 3)")
    assert [wish for wish in ("first", "second", "third") if f"{wish} wish" in text] == ["first", "second", "third"]


def test_the_humans_own_changes_are_never_committed(demo: Path) -> None:
    project = demo.parents[2]
    for phase in ("research", "plan"):
        did(demo, phase)
    with (project / "textkit/cli.py").open("a") as file:
        file.write("# mine\n")
    did(demo, "implement")
    assert "# mine" not in git(project, "show", "HEAD:textkit/cli.py")
    assert "# mine" in (project / "textkit/cli.py").read_text()


def test_an_edit_that_breaks_the_tests_is_taken_back(demo: Path) -> None:
    project = demo.parents[2]
    (project / "tests/test_no_docs.py").write_text(
        "import unittest\nfrom textkit.words import slug\nclass T(unittest.TestCase):\n"
        "    def test_it(self):\n        self.assertIsNone(slug.__doc__)\n"
    )
    for phase in ("research", "plan", "implement"):
        did(demo, phase)
    assert state(demo) == ("paused", "implement")
    assert git(project, "diff", "--stat", "--", "textkit") == ""


def test_a_plan_cannot_lead_out_of_the_project(demo: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text(SHOP)
    (demo / "plan.md").write_text("## Chunk 1: x\n\n- [ ] 1. Add docstrings in `../outside.py`: `total`\n")
    did(demo, "implement")
    assert outside.read_text() == SHOP


def test_without_steps_it_pauses_and_an_unknown_phase_gets_an_honest_note(demo: Path) -> None:
    did(demo, "implement")
    assert state(demo) == ("paused", "implement")
    did(demo, "review", f"Write: {demo}/review.md\n")
    assert state(demo) == ("paused", "review")
    assert "knows no such phase" in (demo / "review.md").read_text()


def test_without_instructions_it_says_so_in_one_sentence(demo: Path) -> None:
    (demo / "instructions.md").unlink()
    done = run(demo, "research")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "instructions.md" in done.stderr


def test_unknown_fields_of_the_state_are_kept(demo: Path) -> None:
    (demo / "STATE.json").write_text('{"state": "running", "phase": "research", "mine": [1]}')
    did(demo, "research")
    assert json.loads((demo / "STATE.json").read_text())["mine"] == [1]


def test_asks_are_read_out_of_the_prompt_the_runner_writes() -> None:
    phase = Phase(id="plan", name="Plan", brief="Plan it.")
    prompt = build_prompt(
        Briefing(
            task="task",
            phase=phase,
            next_phase="implement",
            run=1,
            iteration=2,
            time="2026-02-02T14:30:00Z",
            human_text="## research phase\n\nmind auth\n",
            steer=["be quick"],
            reply=Reply("Which DB?", "postgres"),
            guidance=["plan.md is missing."],
        )
    )
    kinds = {(ask.kind, ask.text) for ask in asks(prompt)}
    assert {("feedback", "mind auth"), ("steering", "be quick"), ("answer", "postgres")} <= kinds
    assert Ask("mend", "plan.md is missing.") in asks(prompt)


def test_a_docstring_that_would_change_the_program_is_not_written() -> None:
    assert document(SHOP, ["wipe"]) == SHOP
    assert document("def broken(:\n", ["broken"]) == "def broken(:\n"


def test_the_demo_needs_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(FileExistsError):
        unpack(tmp_path)
