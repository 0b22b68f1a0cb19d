"""The rehearsal agent, run as the runner runs it: a child process in the project, the prompt on its stdin."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from marathon.agents.rehearsal.docstrings import document, undocumented
from marathon.agents.rehearsal.harmless import harmless_functions
from marathon.agents.rehearsal.prompt import Ask, asks
from marathon.agents.rehearsal.tidy import tidied, untidy_line
from marathon.core.journal import Answer
from marathon.core.prompt import Briefing, build_prompt
from marathon.core.workflow import Phase
from marathon.demo_project import unpack

CHECKOUT = Path(__file__).resolve().parents[2]
INSTRUCTIONS = "# Tidy up\n\n## Goal\n\nDocument the code.\n"
SHOP = '''"""A shop."""


def total(prices: list[int], discount: int = 0) -> int:
    return sum(prices) - discount


def wipe(path: str) -> None:
    open(path, "w").close()


class Basket:
    def add_item(self, name):
        # Names are kept in order.
        self.last = name

    @property
    def size(self): return 1
'''


@pytest.fixture(autouse=True)
def strange_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which git knows no author, signs every commit and refuses it by a hook."""
    home = tmp_path / "home"
    hook = home / "hooks" / "pre-commit"
    hook.parent.mkdir(parents=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    (home / ".gitconfig").write_text(f"[commit]\n\tgpgsign = true\n[core]\n\thooksPath = {hook.parent}\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    for name in ("GIT_CONFIG_GLOBAL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    return unpack(tmp_path / "demo")


def run(task: Path, phase: str, prompt: str = "", iteration: int = 1, **extra: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "PYTHONPATH": str(CHECKOUT),
        "MARATHON_TASK_DIR": str(task),
        "MARATHON_PHASE": phase,
        "MARATHON_ITERATION": str(iteration),
        "MARATHON_RUN": "1",
        "MARATHON_RUNNER_ID": "test",
    }
    return subprocess.run(
        [sys.executable, "-P", "-m", "marathon.agents.rehearsal"],
        cwd=task.parents[2],
        env=environment | extra,
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


def git(project: Path, *arguments: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "GIT_DIR"}
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgsign=false", "-c", "user.name=A"]
    command += ["-c", "user.email=a@example.invalid", *arguments]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def project_with(root: Path, files: dict[str, str], repository: bool = True) -> Path:
    """A project of our own with a task in it; returns the task's directory."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    if repository:
        git(root, "init", "-q", ".")
        git(root, "config", "core.hooksPath", "/dev/null")
        git(root, "add", ".")
        git(root, "commit", "-q", "-m", "first")
    task = root / "docs" / "tasks" / "20260101-000000-tidy"
    task.mkdir(parents=True)
    (task / "instructions.md").write_text(INSTRUCTIONS)
    return task


def state(task: Path) -> dict[str, object]:
    return dict(json.loads((task / "STATE.json").read_text()))


def quoted(heading: str, *texts: str) -> str:
    body = "\n>\n".join(f"> {text}" for text in texts)
    return f"# Marathon\n\n## {heading}\n\nWhat it is:\n\n{body}\n\n## What to do\n\n> not from anybody\n"


def unticked(task: Path) -> list[str]:
    return re.findall(r"^- \[ \] .*$", (task / "plan.md").read_text(), re.MULTILINE)


def project_tests(project: Path) -> str:
    command = [sys.executable, "-B", "-m", "unittest", "discover", "-s", "tests"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def gaps(project: Path) -> Iterator[str]:
    for path in project.rglob("*.py"):
        names = [node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
        if "tests" not in path.parts:
            yield from undocumented(path.read_text(), names)


def test_unpack_makes_a_committed_project_with_a_task(demo: Path) -> None:
    project = demo.parents[2]
    assert re.fullmatch(r"\d{8}-\d{6}-document-and-test", demo.name)
    assert git(project, "symbolic-ref", "--short", "HEAD").strip() == "main"
    assert git(project, "status", "--porcelain").split() == ["??", "docs/"]
    assert "Ran 7 tests" in project_tests(project)
    for heading in ("## Goal", "## Scope", "## Constraints", "## Success Criteria"):
        assert heading in (demo / "instructions.md").read_text()
    assert not list(project.rglob("*.txt"))
    with pytest.raises(FileExistsError):
        unpack(project)


def test_the_demo_works_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    task = unpack(tmp_path / "demo")
    for iteration, phase in enumerate(["research", "plan", "implement", "implement"], 1):
        did(task, phase, iteration=iteration)
    assert not (task.parents[2] / ".git").exists()
    assert state(task)["state"] == "completed"
    assert "none, this is not a git repository" in (task / "work.md").read_text()


def test_a_whole_marathon_over_the_demo(demo: Path) -> None:
    project = demo.parents[2]
    (demo / "STATE.json").write_text(json.dumps({"state": "running", "phase": "research", "mine": {"a": [1]}}))

    assert "reading textkit/words.py (38 lines)" in did(demo, "research").splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", str(state(demo)["updatedAt"]))
    assert state(demo) == {
        "state": "paused",
        "phase": "research",
        "mine": {"a": [1]},
        "iteration": 1,
        "updatedAt": state(demo)["updatedAt"],
        "note": "Research complete - awaiting human review",
    }
    research = (demo / "research.md").read_text()
    assert "- `textkit/words.py:36` `initials`: no docstring, no test" in research
    assert "| `textkit/words.py` | 38 | 6 | 5 | 0 | 1 |" in research

    did(demo, "plan", iteration=2)
    assert (state(demo)["state"], state(demo)["phase"], state(demo)["iteration"]) == ("paused", "plan", 2)
    assert len(unticked(demo)) == 5
    assert "1. Add docstrings in `textkit/cli.py`: `render`, `main`." in unticked(demo)[0]

    did(demo, "implement", iteration=3)
    assert (state(demo)["state"], state(demo)["phase"], state(demo)["mine"]) == (
        "running",
        "implement",
        {"a": [1]},
    )
    assert len(unticked(demo)) == 2
    assert list(gaps(project)) == []
    assert not (demo / "result.md").exists()

    did(demo, "implement", iteration=4)
    assert (state(demo)["state"], state(demo)["phase"]) == ("completed", "done")
    assert unticked(demo) == []
    assert "Ran 10 tests" in project_tests(project)
    subjects = git(project, "log", "--format=%h %an %s").splitlines()
    assert [bool(re.match(r"\w+ Rehearsal Agent rehearsal: ", line)) for line in subjects] == [
        True,
        True,
        False,
    ]
    for identifier in (line.split()[0] for line in subjects[:2]):
        assert identifier in (demo / "work.md").read_text()
        assert identifier in (demo / "result.md").read_text()
    assert re.findall(r"^## Session (\d)", (demo / "work.md").read_text(), re.MULTILINE) == ["1", "2"]
    assert git(project, "status", "--porcelain").split() == ["??", "docs/"]
    assert not [path for path in project.rglob("*.tmp")]


@pytest.mark.parametrize("repository", [True, False])
def test_another_project_without_tests_is_served_too(tmp_path: Path, repository: bool) -> None:
    files = {
        "shop/__init__.py": "",
        "shop/money.py": SHOP,
        "broken.py": "def (",
        "logo.bin": "\0\1",
        "odd.py": "X = '\\d'\n",
    }
    task = project_with(tmp_path / "shop", files, repository)
    project = task.parents[2]
    for iteration, phase in enumerate(["research", "plan", "implement", "implement"], 1):
        did(task, phase, iteration=iteration)
    assert state(task)["state"] == "completed"
    assert "`broken.py` cannot be parsed" in (task / "research.md").read_text()
    assert "a test for `wipe`: calling it may do more than compute" in (task / "plan.md").read_text()
    assert (
        undocumented((project / "shop/money.py").read_text(), ["total", "wipe", "Basket.add_item", "Basket.size"]) == []
    )
    assert "self.assertEqual(total([3, 1, 2]), 6)" in (project / "tests/test_money_total.py").read_text()
    assert "Ran 3 tests" in project_tests(project)
    assert (project / "broken.py").read_text() == "def ("
    assert not (project / "The quick brown fox").exists()
    if repository:
        assert git(project, "log", "--format=%s").count("rehearsal: ") == 2
        assert git(project, "status", "--porcelain").split() == ["??", "docs/"]


def test_what_the_instructions_put_off_limits_is_not_planned_for(tmp_path: Path) -> None:
    files = {"money.py": SHOP, "many.py": "".join(f"def part_{n}(a):\n    a.go()\n" for n in range(45))}
    task = project_with(tmp_path / "shop", files)
    (task / "instructions.md").write_text(INSTRUCTIONS + "\n## Constraints\n\n- Do not change `money.py`.\n")
    did(task, "research")
    did(task, "plan")
    plan = (task / "plan.md").read_text()
    assert "Off limits, by the instructions: `money.py`." in (task / "research.md").read_text()
    assert [step for step in unticked(task) if "money.py" in step] == []
    assert "- `total` in `money.py`: to be left alone" in plan
    assert len(re.findall(r"`part_\d+`", unticked(task)[0])) == 20
    assert re.search(r"^- and \d+ more of these\.$", plan, re.MULTILINE)


def test_a_project_of_texts_is_tidied_and_listed(tmp_path: Path) -> None:
    task = project_with(tmp_path / "texts", {"notes.txt": "one  \ntwo", "fine.md": "a  \nb\n"})
    for iteration, phase in enumerate(["research", "plan", "implement", "implement"], 1):
        did(task, phase, iteration=iteration)
    assert state(task)["state"] == "completed"
    assert (task.parents[2] / "notes.txt").read_text() == "one\ntwo\n"
    assert (task.parents[2] / "fine.md").read_text() == "a  \nb\n"
    assert "| `notes.txt` | 2 |" in (task.parents[2] / "CONTENTS.md").read_text()


def test_an_empty_project_is_finished_in_one_session(tmp_path: Path) -> None:
    task = project_with(tmp_path / "empty", {}, repository=False)
    did(task, "research")
    did(task, "plan")
    assert "nothing was left to edit, going on" in did(task, "implement")
    assert state(task)["state"] == "completed"


def test_feedback_steering_and_answers_are_heeded_in_what_is_written(demo: Path) -> None:
    project = demo.parents[2]
    did(demo, "research", quoted("New from the human", "Leave textkit/cli.py alone.", "Think of ducks."))
    research = (demo / "research.md").read_text()
    assert "- feedback: “Leave textkit/cli.py alone.” → left alone from here on: `textkit/cli.py`." in research
    assert "- feedback: “Think of ducks.” → names nothing that is in this project" in research
    assert "not from anybody" not in research

    did(
        demo,
        "plan",
        quoted("Your question, answered", "Which one?", "Mention them in the README, please."),
        2,
    )
    steps = unticked(demo)
    assert any("Heed feedback “Leave textkit/cli.py alone.”" in step for step in steps)
    assert any("Heed answer “Which one? / Mention them in the README, please.”" in step for step in steps)
    assert not any("Add docstrings in `textkit/cli.py`" in step for step in steps)

    did(demo, "implement", quoted("Steering", "do not document shorten", "test slug as well"), 3)
    work = (demo / "work.md").read_text()
    assert "- steering: “do not document shorten” → left alone from here on: `shorten`." in work
    assert "- steering: “test slug as well” → unit tests for `slug`." in work
    did(demo, "implement", iteration=4)
    assert state(demo)["state"] == "completed"
    assert sorted(gaps(project)) == ["main", "render", "shorten"]
    assert "Return the slug of text" in (project / "README.md").read_text()
    assert (project / "tests/test_words_slug.py").exists()
    assert "“test slug as well”" in (demo / "result.md").read_text()


def test_a_phase_done_again_counts_its_round_and_loses_nothing(demo: Path) -> None:
    did(demo, "research", quoted("New from the human", "Look at slug."))
    first = (demo / "research.md").read_text()
    (demo.parents[2] / "textkit" / "words.py").write_text("def shout(text): return text.upper()\n")
    did(demo, "research", quoted("New from the human", "Shout is new."), 2)
    second = (demo / "research.md").read_text()
    assert second.startswith("# Research, Round 2: Document and test textkit\n")
    assert "- Why: because of feedback: “Shout is new.”" in second
    assert "- New: `textkit/words.py:1` `shout`: no docstring, no type hints, no test" in second
    assert "- Gone: `textkit/words.py:36` `initials`: no docstring, no test" in second
    assert second.count("- feedback: “Look at slug.”") == 2
    did(demo, "research", iteration=3)
    third = (demo / "research.md").read_text()
    assert third.startswith("# Research, Round 3:")
    for line in first.splitlines():
        assert third.count(f"> {line}".rstrip()) >= 1

    did(demo, "plan", iteration=4)
    did(demo, "plan", quoted("New from the human", "Skip cli.py"), 5)
    plan = (demo / "plan.md").read_text()
    assert plan.startswith("# Plan, Round 2:")
    assert "- Gone: Add docstrings in `textkit/cli.py`: `render`, `main`." in plan
    assert "> - ☐ 3. Add docstrings in `textkit/cli.py`: `render`, `main`." in plan
    assert not any("`render`" in step for step in unticked(demo))


def test_what_the_runner_found_wrong_is_mended(demo: Path) -> None:
    for iteration, phase in enumerate(["research", "plan", "implement", "implement"], 1):
        did(demo, phase, iteration=iteration)
    (demo / "result.md").unlink()
    did(demo, "implement", quoted("Mend first", "result.md is missing"), 5)
    assert "- mend: “result.md is missing” → " in (demo / "work.md").read_text()
    assert "Ran 10" not in (demo / "result.md").read_text()
    assert "10 ran, all passed" in (demo / "result.md").read_text()
    assert state(demo)["state"] == "completed"


def test_a_plan_edited_by_the_human_is_followed(demo: Path) -> None:
    did(demo, "research")
    did(demo, "plan")
    plan = (demo / "plan.md").read_text()
    plan = plan.replace("`render`, `main`", "`main`").replace("## Chunk 2", "- [ ] 9. Make coffee.\n\n## Chunk 2")
    (demo / "plan.md").write_text(plan)
    did(demo, "implement")
    did(demo, "implement")
    assert list(gaps(demo.parents[2])) == ["render"]
    assert unticked(demo) == ["- [ ] 9. Make coffee."]
    assert "## Left open\n\n- Step 9: Make coffee." in (demo / "result.md").read_text()


@pytest.mark.parametrize("path", ["../out.py", "/tmp/out.py", ".git/config", "textkit"])
def test_a_plan_cannot_lead_out_of_the_project(demo: Path, path: str) -> None:
    (demo / "plan.md").write_text(f"- [ ] 1. List the public functions in `{path}`.\n")
    before = git(demo.parents[2], "config", "--local", "--list")
    did(demo, "implement")
    assert "is not a file of this project" in (demo / "work.md").read_text()
    assert not (demo.parents[3] / "out.py").exists()
    assert git(demo.parents[2], "config", "--local", "--list") == before


def test_without_a_plan_it_pauses(demo: Path) -> None:
    did(demo, "implement")
    assert (state(demo)["state"], state(demo)["phase"]) == ("paused", "implement")
    assert "plan.md has no steps" in str(state(demo)["note"])


def test_the_humans_own_changes_are_never_committed(demo: Path) -> None:
    project = demo.parents[2]
    did(demo, "research")
    did(demo, "plan")
    with (project / "textkit" / "cli.py").open("a") as file:
        file.write("\n# mine\n")
    (project / "staged.txt").write_text("mine\n")
    git(project, "add", "staged.txt")
    did(demo, "implement")
    assert list(gaps(project)) == []
    assert "# mine" not in git(project, "show", "HEAD:textkit/cli.py")
    assert git(project, "show", "--format=", "--name-only", "HEAD").split() == ["textkit/words.py"]
    assert "A  staged.txt" in git(project, "status", "--porcelain")


def test_a_commit_refused_by_a_hook_is_told_and_the_work_stays(demo: Path) -> None:
    project = demo.parents[2]
    git(project, "config", "--unset", "core.hooksPath")
    for phase in ("research", "plan", "implement"):
        did(demo, phase)
    assert "- Commit: none, git refused without a word" in (demo / "work.md").read_text()
    assert list(gaps(project)) == []
    assert state(demo)["state"] == "running"


def test_edits_of_a_session_cut_short_are_committed_by_the_next(demo: Path) -> None:
    project = demo.parents[2]
    did(demo, "research")
    did(demo, "plan")
    words = project / "textkit" / "words.py"
    words.write_text(document(words.read_text(), ["count_words", "longest_word", "slug", "shorten", "initials"]))
    did(demo, "implement")
    assert git(project, "status", "--porcelain").split() == ["??", "docs/"]
    assert "Return the initials of text" in git(project, "show", "HEAD:textkit/words.py")


def test_an_edit_that_breaks_the_tests_is_taken_back(tmp_path: Path) -> None:
    picky = "import unittest\nimport tool\n\n\nclass T(unittest.TestCase):\n    def test_bare(self):\n"
    picky += "        self.assertIsNone(tool.bare.__doc__)\n"
    task = project_with(tmp_path / "picky", {"tool.py": "def bare():\n    pass\n", "tests/test_tool.py": picky})
    did(task, "research")
    did(task, "plan")
    did(task, "implement")
    assert (task.parents[2] / "tool.py").read_text() == "def bare():\n    pass\n"
    assert (state(task)["state"], state(task)["phase"]) == ("paused", "implement")
    assert git(task.parents[2], "log", "--format=%s").splitlines() == ["first"]
    assert len(unticked(task)) == 3


def test_an_unknown_phase_gets_an_honest_note(demo: Path) -> None:
    prompt = f"# Marathon: phase audit\n\nWrite: {demo.relative_to(demo.parents[2])}/audit.md\n"
    did(demo, "audit", prompt)
    assert "does not know this phase" in (demo / "audit.md").read_text()
    assert (state(demo)["state"], state(demo)["phase"]) == ("paused", "audit")
    did(demo, "audit", "Write: audit.md\n")
    assert (demo / "audit.md").read_text().count("# audit:") == 2
    refused = run(demo, "audit", "Write: ../../../evil.md\n")
    assert refused.returncode == 1
    assert "not in the task directory" in refused.stderr
    assert not list(demo.parents[3].rglob("evil.md"))


@pytest.mark.parametrize("phase", ["research", "plan", "implement", "audit"])
def test_without_instructions_it_says_so_in_one_sentence(demo: Path, phase: str) -> None:
    (demo / "instructions.md").unlink()
    done = run(demo, phase)
    assert done.returncode == 1
    assert re.fullmatch(r"rehearsal agent: instructions\.md is missing .*\n", done.stderr)
    assert list(demo.iterdir()) == []


@pytest.mark.parametrize("pace", ["0.001", "fast", "-1", "nan"])
def test_any_pace_is_taken(demo: Path, pace: str) -> None:
    assert run(demo, "research", MARATHON_REHEARSAL_PACE=pace).returncode == 0


def test_files_keep_their_mode_and_the_state_survives_nonsense(demo: Path) -> None:
    (demo.parents[2] / "textkit" / "cli.py").chmod(0o755)
    (demo / "STATE.json").write_text("{ nonsense")
    for phase in ("research", "plan", "implement"):
        did(demo, phase)
    assert (demo.parents[2] / "textkit" / "cli.py").stat().st_mode & 0o777 == 0o755
    assert state(demo)["state"] == "running"


def test_asks_are_read_out_of_the_prompt_the_runner_writes() -> None:
    prompt = build_prompt(
        Briefing(
            task="docs/tasks/x",
            phase=Phase(id="plan", name="Plan", brief="Plan it.", output="plan.md"),
            next_phase="implement",
            run=1,
            iteration=2,
            time="2026-01-01T00:00:00Z",
            human_text="## Research\n\nUse less.\n\n- one\n- two\n  lines\n\n## Steering\nforged",
            steer=["left", "right"],
            answer=Answer("Which DB?", "postgres"),
            guidance=["plan.md is empty"],
        )
    )
    assert asks(prompt) == [
        Ask("mend", "plan.md is empty"),
        Ask("feedback", "Use less."),
        Ask("feedback", "one"),
        Ask("feedback", "two lines"),
        Ask("feedback", "forged"),
        Ask("steering", "left"),
        Ask("steering", "right"),
        Ask("answer", "Which DB? / postgres"),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(): return 1\n", 'def f():\n    """Return the f."""\n    return 1\n'),
        ("def f():\n\treturn 1\n", 'def f():\n\t"""Return the f."""\n\treturn 1\n'),
        ("def f():\r\n  pass\r\n", 'def f():\r\n  """Do the f."""\r\n  pass\r\n'),
        ("def f(\n    é,\n): return é", 'def f(\n    é,\n):\n    """Return the f of é."""\n    return é'),
        ("def f():\n    # why\n\n    pass\n", 'def f():\n    """Do the f."""\n    # why\n\n    pass\n'),
        (
            "def f():\n    @g\n    def h(): pass\n",
            'def f():\n    """Do the f."""\n    @g\n    def h(): pass\n',
        ),
        (
            "x = '''\f\n'''\ndef f(): pass\n",
            "x = '''\f\n'''\ndef f():\n    \"\"\"Do the f.\"\"\"\n    pass\n",
        ),
        ('def f():\n    "said"\n', 'def f():\n    "said"\n'),
        ("def f():\r    pass\r", "def f():\r    pass\r"),
    ],
)
def test_a_docstring_is_put_where_it_belongs(before: str, after: str) -> None:
    assert document(before, ["f"]) == after


def test_a_long_description_breaks_into_lines() -> None:
    names = ", ".join(f"argument_number_{number}=None" for number in range(6))
    source = document(f"class A:\n    def is_so(self, that, {names}): ...\n", ["A.is_so"])
    assert '        """Tell whether that is so.\n\n        Given argument_number_0 (None by default), ' in source
    assert undocumented(source, ["A.is_so"]) == []


@pytest.mark.parametrize(
    ("source", "harmless"),
    [
        ("def f(x):\n    return len(x.split())\n", True),
        ("import re\ndef f(x):\n    return re.sub('a', 'b', x)\n", True),
        ("def f(x):\n    return g(x)\ndef g(x):\n    return f(x)\n", True),
        ("import os\ndef f(x):\n    os.remove(x)\n", False),
        ("import os.path as re\ndef f(x):\n    return re.sub(x)\n", False),
        ("from os import remove as len\ndef f(x):\n    len(x)\n", False),
        ("def f(x):\n    return g(x)\ndef g(x):\n    open(x)\n", False),
        ("def f(x):\n    x.unlink()\n", False),
        ("def f(x):\n    import os\n    os.remove(x)\n", False),
        ("def f(x):\n    return (lambda y: y)(x)\n", False),
        ("def f(x):\n    return x\nlaunch()\n", False),
        ("def f(x):\n    return x\nif __name__ == '__main__':\n    launch()\n", True),
    ],
)
def test_only_what_merely_computes_is_called(source: str, harmless: bool) -> None:
    assert ("f" in harmless_functions(ast.parse(source))) is harmless


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("a.txt", "a\nb \n", 2),
        ("a.txt", "a", 1),
        ("a.txt", "a\n\n\n", 2),
        ("a.md", "a  \n", 0),
        ("a.md", "a \n", 1),
    ],
)
def test_untidy_lines_are_found_and_tidied_once(path: str, text: str, line: int) -> None:
    assert untidy_line(path, text) == line
    assert untidy_line(path, tidied(path, text)) == 0
