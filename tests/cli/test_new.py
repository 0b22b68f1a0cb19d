"""new: a task directory from the template, by flags or by questions."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.driver import Pty
from tests.support.world import World, research


def made(world: World) -> Path:
    (folder,) = (world.project / "docs" / "tasks").iterdir()
    return folder


def section(text: str, heading: str) -> str:
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
    assert found, text
    return found[1].strip()


def test_everything_by_flags(world: World) -> None:
    ran = world.cli(
        "new",
        "Fix: the Parser!",
        "--goal",
        "No crash on \\1 `x`",
        "--scope",
        "parser.py only",
        "--success",
        "tests pass",
    )
    assert ran.returncode == 0
    folder = made(world)
    assert re.fullmatch(r"\d{8}-\d{6}-fix-the-parser", folder.name)
    text = (folder / "instructions.md").read_text()
    assert text.startswith("# Fix: the Parser!\n")
    assert section(text, "Goal") == "No crash on \\1 `x`"
    assert section(text, "Scope") == "parser.py only"
    assert section(text, "Success Criteria") == "- tests pass"
    assert f"pi-marathon --task docs/tasks/{folder.name}" in ran.stdout


def answer(terminal: Pty, *talk: tuple[bytes, str]) -> None:
    for question, text in talk:
        terminal.expect(question)
        terminal.send(text.encode() + b"\r")


def test_what_is_missing_is_asked_for_on_a_terminal(world: World, typed: Callable[..., Pty]) -> None:
    terminal = typed("new", "--scope", "`app/reports.py` only", "--constraints", "No new dependencies.")
    answer(terminal, (b"Title", "My task"), (b"Goal:", "Größer"), (b"Success Criteria:", "`pytest -q` passes"))
    terminal.expect(b"Made docs/tasks/")
    assert terminal.wait() == 0
    assert terminal.cooked()
    text = (made(world) / "instructions.md").read_text()
    assert text.startswith("# My task\n")
    assert section(text, "Goal") == "Größer"
    assert section(text, "Scope") == "`app/reports.py` only"
    assert section(text, "Constraints") == "No new dependencies."
    assert section(text, "Success Criteria") == "- `pytest -q` passes"


def test_each_section_is_asked_for_once_whatever_was_said(world: World, typed: Callable[..., Pty]) -> None:
    terminal = typed("new", "Vague", "--done", "The pull request is open.")
    questions = ((b"Goal: ", "x"), (b"Scope: ", ""), (b"Constraints: ", ""), (b"Success Criteria: ", ""))
    answer(terminal, *questions)
    terminal.expect(b"Made docs/tasks/")
    terminal.expect(b"pi-marathon --task docs/tasks/")
    assert terminal.wait() == 0
    assert terminal.cooked()
    text = (made(world) / "instructions.md").read_text()
    assert section(text, "Goal") == "x"
    assert section(text, "Scope").startswith("<!--")
    assert section(text, "Done") == "The pull request is open."


def test_a_section_may_have_several_lines_and_come_from_an_editor(world: World, typed: Callable[..., Pty]) -> None:
    editor = world.home / "editor"
    editor.write_text('#!/bin/sh\nprintf "from the\\neditor\\n" > "$1"\n')
    editor.chmod(0o700)
    terminal = typed("new", "My task", "--constraints", "None", EDITOR=str(editor))
    terminal.expect(b"Goal: ")
    terminal.send(b"one\x1b\rtwo\r")
    terminal.expect(b"Scope: ")
    terminal.send(b"\x07")
    terminal.expect(b"editor\x1b")
    terminal.send(b"\r")
    terminal.expect(b"Success Criteria: ")
    terminal.send(b"tests pass\x1b\rdocs say so\r")
    terminal.expect(b"Made docs/tasks/")
    assert terminal.wait() == 0
    text = (made(world) / "instructions.md").read_text()
    assert section(text, "Goal") == "one\ntwo"
    assert section(text, "Scope") == "from the\neditor"
    assert section(text, "Success Criteria") == "- tests pass\n- docs say so"


ISSUE = "# Crash on save\n\nSteps:\n\n1. open\n2. save\n\n## Expected\n\nNo crash.\n"


def test_a_pasted_issue_becomes_the_instructions_as_it_is(world: World, typed: Callable[..., Pty]) -> None:
    terminal = typed("new")
    terminal.expect(b"paste a whole issue")
    terminal.send(b"\x1b[200~" + ISSUE.replace("\n", "\r").encode() + b"\x1b[201~\r")
    terminal.expect(b"Made docs/tasks/")
    assert terminal.wait() == 0
    assert (made(world) / "instructions.md").read_text() == ISSUE
    assert made(world).name.endswith("-crash-on-save")


def test_a_text_on_standard_input_becomes_the_instructions_as_it_is(world: World) -> None:
    def piped(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            world.argv("new", "-", *args),
            cwd=world.project,
            env=world.env(),
            input=ISSUE,
            capture_output=True,
            text=True,
            check=False,
        )

    assert piped("--success", "x").returncode == 2
    assert piped().returncode == 0
    assert (made(world) / "instructions.md").read_text() == ISSUE


def test_every_criterion_is_kept(world: World) -> None:
    world.cli("new", "My task", "--goal", "x", "--success", "`pytest -q` passes", "--success", "Docs say so")
    text = (made(world) / "instructions.md").read_text()
    assert section(text, "Success Criteria") == "- `pytest -q` passes\n- Docs say so"


def test_the_workflow_of_a_new_task_is_kept_for_its_first_run(world: World) -> None:
    folder = world.project / ".marathon/workflows/quick"
    folder.mkdir(parents=True)
    (folder / "workflow.toml").write_text('name = "Quick"\n[[phases]]\nid = "one"\nname = "One"\nbrief = "Do it."\n')
    refused = world.cli("new", "My task", "--goal", "x", "--workflow", "nope")
    assert refused.returncode == 2
    assert "no workflow 'nope'" in refused.stderr
    assert world.cli("new", "My task", "--goal", "x", "--workflow", "quick").returncode == 0
    assert "State:     new" in world.cli("status", "my-task").stdout
    world.script({"state": {"state": "completed", "phase": "done"}})
    args = ("--task", "my-task", *world.task_args()[2:])
    other = world.cli("--workflow", "rpi", *args)
    assert other.returncode == 2
    assert "made for the workflow 'quick'" in other.stderr
    assert world.cli("--trust", *args).returncode == 0
    assert "phase one (run 1, iteration 1)" in world.prompt(1)


def test_a_one_line_goal_hears_of_the_short_way_and_the_usual_way_stays(world: World) -> None:
    one = world.cli("new", "Fix the login", "--goal", "A wrong password is refused.")
    assert f"pi-marathon --task {made(world).relative_to(world.project)} --workflow fix\n" in one.stdout
    assert "run it:\n  pi-marathon --task docs/tasks/" in one.stdout
    assert "--workflow fix" not in world.cli("new", "Fix two", "--goal", "x", "--workflow", "fix").stdout
    assert "--workflow fix" not in world.cli("new", "Fix more", "--goal", "one\n\ntwo").stdout


def test_with_title_and_goal_nothing_is_asked(world: World, typed: Callable[..., Pty]) -> None:
    terminal = typed("new", "Vague", "--goal", "Make it better")
    terminal.expect(b"Made docs/tasks/")
    assert terminal.wait() == 0
    assert section((made(world) / "instructions.md").read_text(), "Goal") == "Make it better"


@pytest.mark.parametrize("key", [b"\x03", b"\x04"], ids=["Ctrl+C", "Ctrl+D"])
def test_a_later_question_taken_back_makes_nothing(world: World, typed: Callable[..., Pty], key: bytes) -> None:
    terminal = typed("new", "My task")
    answer(terminal, (b"Goal: ", "Users read it."))
    terminal.expect(b"Scope: ")
    terminal.send(key)
    assert terminal.wait() == 130
    assert terminal.cooked()
    assert b"went wrong" not in terminal.seen
    assert b"What you typed:\r\nUsers read it." in terminal.seen
    assert not (world.project / "docs").exists()


def test_a_title_that_cannot_be_used_is_refused_before_anything_is_asked(
    world: World, typed: Callable[..., Pty]
) -> None:
    terminal = typed("new", "?!")
    assert terminal.wait() == 2
    assert b"Goal" not in terminal.seen
    given = ("--goal", "Users read it.", "--scope", "src/ only", "--constraints", "None", "--success", "`pytest -q`")
    terminal = typed("new", *given)
    terminal.expect(b"Title")
    terminal.send(b"?!\r")
    terminal.expect(b"It needs a word")
    terminal.send(b"\x7f\x7fJapan\r")
    terminal.expect(b"Made docs/tasks/")
    assert terminal.wait() == 0
    assert (made(world) / "instructions.md").read_text().startswith("# Japan\n")


def test_what_was_typed_is_shown_when_it_cannot_be_written(world: World) -> None:
    (world.project / "docs").write_text("a file\n")
    ran = world.cli("new", "My task", "--goal", "Users download\nreports", "--done", "It is merged")
    assert ran.returncode == 1
    assert "Could not create docs/tasks" in ran.stderr
    assert section(ran.stdout, "Goal") == "Users download\nreports"
    assert section(ran.stdout, "Done") == "It is merged"


def test_what_could_be_added_is_told(world: World) -> None:
    ran = world.cli("new", "My task", "--goal", "Make the export better.", "--scope", "src/ only")
    assert (ran.returncode, ran.stderr) == (0, "")
    signs = [line.split()[:2] for line in ran.stdout.splitlines()[1:7]]
    assert signs == [
        *(["✓", "goal"], ["✓", "place"], ["+", "boundary"], ["+", "criterion"], ["+", "command"], ["+", "end"]),
    ]
    assert ran.stdout.count("still a placeholder") == 2
    shown = world.cli("score", f"docs/tasks/{made(world).name}").stdout
    assert [line.split()[:2] for line in shown.splitlines()[1:7]] == [*signs[:2], ["✓", "boundary"], *signs[3:]], (
        "it judges by the form alone, and does not know under which heading of ours something was said"
    )


def test_where_everything_is_said_nothing_is_to_be_added(world: World) -> None:
    ran = world.cli(
        *("new", "CSV", "--goal", "Users download their reports as CSV from the reports page."),
        *("--scope", "`app/reports.py`; the PDF export stays out.", "--constraints", "No new dependencies."),
        *("--success", "`pytest -q` passes", "--done", "The pull request is open."),
    )
    assert ran.returncode == 0
    assert ran.stdout.count("  ✓ ") == 6
    assert "  + " not in ran.stdout


def test_a_heading_in_what_was_said_is_never_overwritten(world: World) -> None:
    goal = "Do it.\n\n## Scope\n\nMine."
    world.cli("new", "My task", "--goal", goal, "--scope", "Theirs.")
    text = (made(world) / "instructions.md").read_text()
    assert goal in text
    assert "## Scope\n\nTheirs." in text


@pytest.mark.parametrize(
    ("said", "written"),
    [("tests pass", "- tests pass"), ("- a\n- b", "- a\n- b"), ("1. a", "1. a"), ("two\nlines", "two\nlines")],
)
def test_one_plain_criterion_becomes_a_list_of_one(world: World, said: str, written: str) -> None:
    world.cli("new", "My task", "--goal", "x", "--success", said)
    assert section((made(world) / "instructions.md").read_text(), "Success Criteria") == written


def test_a_question_taken_back_makes_nothing(world: World, typed: Callable[..., Pty]) -> None:
    terminal = typed("new", "My task")
    terminal.expect(b"Goal:")
    terminal.send(b"half\x03")
    assert terminal.wait() == 130
    assert terminal.cooked()
    assert not (world.project / "docs").exists()


def test_what_new_made_runs(world: World) -> None:
    world.cli("new", "My task", "--goal", "Do it", "--into", "task/sub")
    (folder,) = (world.project / "task" / "sub").iterdir()
    folder.rename(world.project / "renamed")
    world.task.rename(world.project / "other")
    (world.project / "renamed").rename(world.task)
    world.script(research())
    assert world.run().returncode == 3
    assert world.cli("list", ".").stdout.count("waiting for you") == 1


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Überprüfung: café", "uberprufung-cafe"),
        ("Добавить тесты", "добавить-тесты"),
        ("日本 の テスト", "日本-の-テスト"),
        ("한국어", "한국어"),
        ("データベースのバグ修正", "データベースのバグ修正"),
        ("Русский йогурт", "русский-йогурт"),
        ("हिन्दी में", "हिन्दी-में"),
        ("Ａｐｉ ﬁx", "api-fix"),
        ("snake_case #7", "snake-case-7"),
        ("𐐀" * 80, "𐐨" * 45),
    ],
)
def test_a_title_may_be_in_any_language(world: World, title: str, name: str) -> None:
    assert world.cli("new", title, "--goal", "x").returncode == 0
    assert made(world).name[16:] == name


def test_two_tasks_of_one_title_in_one_second_are_two_folders(world: World) -> None:
    for _ in range(2):
        assert world.cli("new", "Same", "--goal", "x").returncode == 0
    assert len(list((world.project / "docs/tasks").iterdir())) == 2


@pytest.mark.parametrize(
    "args",
    [
        ("Title",),
        ("--goal", "x"),
        ("Title", "--goal", " "),
        ("../..", "--goal", "x"),
        ("", "--goal", "x"),
        ("?!", "--goal", "x"),
    ],
    ids=lambda args: " ".join(args) or "nothing",
)
def test_without_a_terminal_what_is_missing_is_named_and_nothing_made(world: World, args: tuple[str, ...]) -> None:
    ran = world.cli("new", *args)
    assert ran.returncode == 2
    assert ran.stderr.strip()
    assert not (world.project / "docs").exists()


@pytest.mark.parametrize("title", ["../x", "$(touch pwned)", "-rf --", "a\nb", "x" * 5000])
def test_a_title_is_only_a_title(world: World, title: str) -> None:
    assert world.cli("new", "--goal", "x", "--", title).returncode == 0
    assert re.fullmatch(r"\d{8}-\d{6}-[a-z0-9-]{1,60}", made(world).name)
    assert sorted(path.name for path in world.project.iterdir()) == ["docs", "task"]
    assert sorted(path.name for path in world.project.parent.iterdir()) == ["agent", "home", "project"]
