"""The rehearsal agent as the runner runs it: a child process in the project, with the prompt on its stdin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from marathon.agents.rehearsal.project import document
from marathon.core.comments import Comment, Standing
from marathon.core.courses.workflow import Phase
from marathon.core.criteria import Criterion
from marathon.core.human_note import Reply
from marathon.core.prompt import Briefing, build_prompt
from marathon.demo_project import unpack

CHECKOUT = Path(__file__).resolve().parents[2]
AFTER = {"research": "plan", "plan": "implement", "implement": "done"}
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


def prompt(phase: str, **more: Any) -> str:
    """The prompt that the runner writes."""
    asked = Phase(id=phase, name=phase.title(), brief="Do it.", output=f"{phase}.md", repeats=phase == "implement")
    given: dict[str, Any] = {"run": 1, "iteration": 1, "time": "2026-02-02T14:30:00Z", **more}
    return build_prompt(Briefing(task="task", phase=asked, next_phase=AFTER.get(phase, "done"), **given))


def run(task: Path, phase: str, text: str, iteration: int = 1) -> subprocess.CompletedProcess[str]:
    given = {"MARATHON_TASK_DIR": str(task), "MARATHON_PHASE": phase, "MARATHON_ITERATION": str(iteration)}
    return subprocess.run(
        [sys.executable, "-P", "-m", "marathon.agents.rehearsal"],
        cwd=task.parents[2],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "MARATHON_RUN": "1", **given},
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def did(task: Path, phase: str, iteration: int = 1, **more: Any) -> str:
    done = run(task, phase, prompt(phase, iteration=iteration, **more), iteration)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def state(task: Path) -> tuple[str, str]:
    value = json.loads((task / "STATE.json").read_text())
    return value["state"], value["phase"]


def git(project: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=project, check=True, capture_output=True, text=True).stdout


def shop(root: Path, *, repository: bool) -> Path:
    """Another project than the demo's; returns its task."""
    task = root / "docs" / "tasks" / "20260101-000000-tidy"
    task.mkdir(parents=True)
    (task / "instructions.md").write_text("# Tidy up\n\n## Goal\n\nDocument the code.\n")
    (root / "shop.py").write_text(SHOP)
    if repository:
        git(root, "init", "-q")
        for setting in (["user.name", "a"], ["user.email", "a@b"]):
            git(root, "config", *setting)
        git(root, "add", "shop.py")
        git(root, "commit", "-qm", "1")
    return task


def test_a_whole_marathon_over_the_demo(demo: Path) -> None:
    project = demo.parents[2]
    assert "reading textkit/words.py" in did(demo, "research")
    assert state(demo) == ("paused", "research")
    line = (
        (project / "textkit/words.py")
        .read_text()
        .splitlines()
        .index('def slug(text: str, separator: str = "-") -> str:')
    )
    assert f"- `textkit/words.py:{line + 1}` `slug` has no docstring" in (demo / "research.md").read_text()
    did(demo, "plan", 2)
    assert state(demo) == ("paused", "plan")
    assert (demo / "plan.md").read_text().count("- [ ]") == 3
    for iteration, ticked in ((3, 1), (4, 2)):
        did(demo, "implement", iteration)
        assert state(demo) == ("running", "implement")
        assert (demo / "plan.md").read_text().count("- [x]") == ticked
    did(demo, "implement", 5)
    assert state(demo) == ("completed", "done")
    assert json.loads((demo / "STATE.json").read_text())["iteration"] == 5
    tests = [sys.executable, "-m", "unittest", "discover", "-s", "tests"]
    assert subprocess.run(tests, cwd=project, capture_output=True, check=False).returncode == 0
    assert git(project, "log", "--format=%s").splitlines()[:2] == [
        "rehearsal: document textkit/words.py",
        "rehearsal: document textkit/cli.py",
    ]
    assert git(project, "status", "--porcelain", "--", "textkit", "tests") == ""
    assert '"""Shorten, given text and width."""' in (project / "textkit/words.py").read_text()
    assert "adds docstrings and nothing else. Still without one: none" in (demo / "result.md").read_text()
    assert (demo / "work.md").read_text().count("7 tests passed") == 3


@pytest.mark.parametrize("repository", [True, False], ids=["git", "no git"])
def test_another_project_is_served_too(tmp_path: Path, repository: bool) -> None:
    task = shop(tmp_path, repository=repository)
    for iteration, phase in enumerate(["research", "plan", "implement", "implement"], start=1):
        did(task, phase, iteration)
    assert state(task) == ("completed", "done")
    source = (tmp_path / "shop.py").read_text()
    assert '    """Total, given prices and discount."""\n    # Prices are in cents.' in source
    compile(source, "shop.py", "exec")
    result = (task / "result.md").read_text()
    assert "`shop.py:10`" in result, "wipe has no place for a docstring, and that is said"
    assert ("not a git repository" in result) is not repository


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "shop.py").write_text(SHOP)
    task = shop(tmp_path / "project", repository=True)
    (tmp_path / "project" / "linked.py").symlink_to(tmp_path / "outside" / "shop.py")
    git(tmp_path / "project", "add", "linked.py")
    did(task, "research")
    assert "linked.py" not in (task / "research.md").read_text()


def test_a_project_without_python_is_left_alone_and_that_is_said(tmp_path: Path) -> None:
    task = shop(tmp_path, repository=False)
    (tmp_path / "shop.py").rename(tmp_path / "shop.js")
    for iteration, phase in enumerate(["research", "plan", "implement"], start=1):
        did(task, phase, iteration)
    assert state(task) == ("completed", "done")
    assert "no Python function" in (task / "research.md").read_text()
    assert (tmp_path / "shop.js").read_text() == SHOP


def test_feedback_steering_and_answers_are_heeded_in_what_is_written(demo: Path) -> None:
    project = demo.parents[2]
    said = did(demo, "research", human_text="## research\n\nplease skip slug but look at shorten\n", steer=["be brief"])
    heard = "New from the human: “please skip slug but look at shorten” → left alone: `slug`"
    research = (demo / "research.md").read_text()
    assert heard in said
    assert f"- {heard}\n" in research
    assert "- Steering: “be brief” → not acted on" in research
    assert "`slug` has no docstring" not in research
    did(demo, "plan", 2, reply=Reply("Which files?", "leave words.py alone"))
    plan = (demo / "plan.md").read_text()
    assert "“leave words.py alone” → left alone: `textkit/words.py`" in plan
    assert "Which files?" not in plan
    assert "in `textkit/words.py`" not in plan
    assert "in `textkit/cli.py`" in plan
    did(demo, "implement", 3, steer=["hands off `main`!"])
    assert "- Steering: “hands off `main`!” → left alone: `main`" in (demo / "work.md").read_text()
    source = (project / "textkit/cli.py").read_text()
    assert '"""Render, given command and text."""' in source
    assert '"""Main' not in source
    assert git(project, "diff", "HEAD~1", "--name-only").split() == ["textkit/cli.py"]


def test_a_file_to_leave_alone_stays_so_when_that_was_said_after_the_plan(demo: Path) -> None:
    for phase in ("research", "plan"):
        did(demo, phase)
    did(demo, "implement", steer=["leave textkit/cli.py alone"])
    assert "→ nothing changed" in (demo / "plan.md").read_text()
    did(demo, "implement")
    assert git(demo.parents[2], "diff", "HEAD~1", "--name-only").split() == ["textkit/words.py"]


def test_a_phase_done_again_names_its_round_and_keeps_what_was_said(demo: Path) -> None:
    for number, wish in enumerate(("first", "second", "third"), start=1):
        did(demo, "research", human_text=f"{wish} wish\n", round=number)
    text = (demo / "research.md").read_text()
    assert text.startswith("# Research, round 3: Document textkit\n")
    assert [wish for wish in ("first", "second", "third") if f"“{wish} wish”" in text] == ["first", "second", "third"]


def test_comments_are_answered_by_their_ids(demo: Path) -> None:
    for id, text in (("c1", "leave slug (all of it) alone"), ("c2", "why so few?")):
        comment = Comment(id, text, "must", "research.md", 7, 7)
        did(demo, "research", comments=[Standing(comment, (7, 7))])
    answers = json.loads((demo / "STATE.json").read_text())["answers"]
    assert answers["c1"] == "`slug` is left alone now: it is not among the findings"
    assert answers["c2"].startswith("nothing was changed. This agent only adds docstrings")


def test_a_comment_beside_a_line_is_about_what_stands_there(demo: Path) -> None:
    did(demo, "research")
    lines = (demo / "research.md").read_text().splitlines()
    number = next(at for at, line in enumerate(lines, start=1) if "`slug`" in line)
    about = Standing(Comment("c1", "skip this one", "must", "research.md", number, number), (number, number))
    did(demo, "research", 2, comments=[about])
    assert json.loads((demo / "STATE.json").read_text())["answers"]["c1"].startswith("`slug` is left alone now")
    assert "`slug` has no docstring" not in (demo / "research.md").read_text()
    assert "`words.py" not in (demo / "research.md").read_text().partition("Left alone")[2].partition("\n")[0]
    did(demo, "plan", 3)
    assert "`slug`" not in (demo / "plan.md").read_text().partition("## Steps")[2]


def test_what_the_runner_found_is_answered_too(demo: Path) -> None:
    did(demo, "plan", guidance=["plan.md is missing."])
    assert "“plan.md is missing.” → " in (demo / "plan.md").read_text()


def test_findings_the_human_struck_out_are_not_planned(demo: Path) -> None:
    did(demo, "research")
    kept = [line for line in (demo / "research.md").read_text().splitlines() if "`main`" not in line]
    (demo / "research.md").write_text("\n".join(kept))
    did(demo, "plan")
    assert "Document `render` in `textkit/cli.py`" in (demo / "plan.md").read_text()


def test_the_humans_own_changes_are_never_committed(demo: Path) -> None:
    project = demo.parents[2]
    for phase in ("research", "plan"):
        did(demo, phase)
    with (project / "textkit/cli.py").open("a") as file:
        file.write("# mine\n")
    did(demo, "implement")
    assert len(git(project, "log", "--format=%s").splitlines()) == 1
    assert "# mine" in (project / "textkit/cli.py").read_text()
    assert "holds other changes" in (demo / "work.md").read_text()


def test_an_edit_that_breaks_the_tests_is_taken_back_and_a_word_from_the_human_helps(demo: Path) -> None:
    project = demo.parents[2]
    (project / "tests/test_no_docs.py").write_text(
        "import unittest\nfrom textkit.cli import main\nclass T(unittest.TestCase):\n"
        "    def test_it(self):\n        self.assertIsNone(main.__doc__)\n"
    )
    for phase in ("research", "plan", "implement"):
        did(demo, phase)
    assert state(demo) == ("paused", "implement")
    assert "taken back" in json.loads((demo / "STATE.json").read_text())["note"]
    assert git(project, "diff", "--stat", "--", "textkit") == ""
    did(demo, "implement", human_text="leave main alone\n")
    assert state(demo) == ("running", "implement")
    assert git(project, "diff", "HEAD~1", "--name-only").split() == ["textkit/cli.py"]


@pytest.mark.parametrize("step", ["1. Document `total` in `../outside.py`", "1. Rename everything"])
def test_a_step_it_cannot_do_is_said_and_not_ticked(demo: Path, tmp_path: Path, step: str) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text(SHOP)
    (demo / "plan.md").write_text(f"# Plan\n\n- [ ] {step}\n")
    did(demo, "implement")
    assert state(demo) == ("paused", "implement")
    assert "- [ ]" in (demo / "plan.md").read_text()
    assert outside.read_text() == SHOP


def test_without_steps_it_pauses_and_an_unknown_phase_gets_an_honest_note(demo: Path) -> None:
    did(demo, "implement")
    assert state(demo) == ("paused", "implement")
    assert not (demo / "result.md").exists()
    did(demo, "review")
    assert state(demo) == ("paused", "review")
    assert "did no work" in (demo / "review.md").read_text()


def test_without_instructions_it_says_so_in_one_sentence(demo: Path) -> None:
    (demo / "instructions.md").unlink()
    done = run(demo, "research", prompt("research"))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "instructions.md" in done.stderr


def test_unknown_fields_of_the_state_are_kept(demo: Path) -> None:
    (demo / "STATE.json").write_text('{"state": "running", "phase": "research", "mine": [1]}')
    did(demo, "research")
    assert json.loads((demo / "STATE.json").read_text())["mine"] == [1]


def test_criteria_are_judged_honestly_with_evidence(demo: Path) -> None:
    (demo / "plan.md").write_text("# Plan\n\n- [ ] 1. Document `render` in `textkit/cli.py`\n")
    names = ("Every public function has a docstring.", "It is beautiful.")
    criteria = [*(Criterion(name=name) for name in names), Criterion(name="tests", command="make test")]
    did(demo, "implement", criteria=criteria)
    left = json.loads((demo / "STATE.json").read_text())
    assert left["criteriaStatus"] == dict.fromkeys(names, False)
    assert "`initials`" in left["criteriaEvidence"][names[0]]
    assert "cannot judge" in left["criteriaEvidence"][names[1]]
    did(demo, "implement", criteria=criteria, steer=["leave words.py alone", "skip main"])
    left = json.loads((demo / "STATE.json").read_text())
    assert left["criteriaStatus"] == {names[0]: True, names[1]: False}
    assert "left alone: `main`, `textkit/words.py`" in left["criteriaEvidence"][names[0]]


@pytest.mark.parametrize(
    ("text", "points", "missing"),
    [
        (None, 10, []),
        ("# Do\n\n## Goal\n\nTidy.\n\n## Scope\n", 2, ["Scope", "Constraints", "Success Criteria", "a command"]),
    ],
)
def test_the_instructions_are_rated_only_when_the_prompt_asks(
    demo: Path, text: str | None, points: int, missing: list[str]
) -> None:
    if text:
        (demo / "instructions.md").write_text(text)
    did(demo, "research")
    assert "rating" not in json.loads((demo / "STATE.json").read_text())
    assert run(demo, "research", prompt("research") + '\nAdd "rating": {"points": 0, "missing": []}\n').returncode == 0
    rating = json.loads((demo / "STATE.json").read_text())["rating"]
    assert rating["points"] == points
    assert [said[: len(name)] for said, name in zip(rating["missing"], missing, strict=True)] == missing


@pytest.mark.parametrize(
    "source",
    [
        "def f(): return 1\n",
        "def f(:\n",
        "def f():\n    @decorated\n    def g(): pass\n    return g\n",
        "def f(): \\\n    return 1\n",
        "x = 1\rdef f():\r    return 1\r",
        "x = 1\r\n\x0c\r\ndef f():\r\n    return 1\r\n",
        "def f():\n    return " + " + ".join("1" * 5000) + "\n",
    ],
)
def test_a_docstring_without_a_simple_place_is_not_written(source: str) -> None:
    after = document(source, "f")
    assert after == source or compile(after, "f.py", "exec")


def test_the_demo_needs_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(FileExistsError):
        unpack(tmp_path)
