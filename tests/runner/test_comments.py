"""Comments at a gate and from a shell: written at once, sent to the next session, and shown with their answers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prompt_toolkit.utils import get_cwidth

from marathon.runner.review import document_text
from marathon.store.task import Task
from tests.process.driver import Pty
from tests.support.world import Entry, World, chunk, plan, research

KEYS_SHOWN = b"[q]      Quit marathon"
HINT = b"? shows the options"
NEW_LINE = b"Enter ends"
PLAN = "# Found\n\n## Storage\n\nUse sqlite {n}.\n\n- [ ] one\n- [x] two\n"


def found(*answers: str, **more: Any) -> Entry:
    said = "\n## Answers\n\n" + "\n".join(answers) if answers else ""
    return research(write={"research.md": PLAN + said}, **more)


def comment(terminal: Pty, lines: bytes, text: bytes) -> bytes:
    """What was shown since the text was sent."""
    terminal.send(b"c")
    terminal.expect(b"Which lines?")
    terminal.expect(NEW_LINE)
    terminal.send(lines + b"\r")
    terminal.expect(b"Comment (")
    terminal.expect(NEW_LINE)
    terminal.send(text + b"\r")
    return terminal.expect(b"Saved: c") + terminal.expect(HINT)


def test_a_comment_cannot_name_a_document_that_lies_elsewhere(tmp_path: Path) -> None:
    """human.md can be written by anyone, and what a comment is about is shown at the gate and on the page."""
    folder = tmp_path / "task"
    (folder / "notes").mkdir(parents=True)
    for name in ("task/plan.md", "task/notes/plan.md", "secret.md"):
        (tmp_path / name).write_text("words\n")
    seen: Any = SimpleNamespace(task=Task(folder))
    names = ("plan.md", "notes/plan.md", "../secret.md", f"{tmp_path}/secret.md", "notes/../../secret.md", "")
    assert [document_text(seen, name) for name in names] == ["words\n", "words\n", "", "", "", ""]


def test_words_that_cannot_be_written_are_shown_and_the_gate_stays(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(found())
    terminal = on_terminal(EDITOR=f"{world.project.parent}/editor")
    editor = world.project.parent / "editor"
    editor.write_text("#!/bin/sh\necho 'words of an editor' > \"$1\"\n")
    editor.chmod(0o755)
    terminal.expect(KEYS_SHOWN)
    (world.kept / "inbox").symlink_to("nowhere")
    terminal.send(b"c")
    terminal.expect(b"Which lines?")
    terminal.expect(NEW_LINE)
    terminal.send(b"\r")
    terminal.expect(b"Comment (")
    terminal.expect(NEW_LINE)
    terminal.send(b"\r")
    terminal.expect(b"What you typed:")
    terminal.expect(b"words of an editor")
    terminal.expect(HINT)
    (world.kept / "inbox").unlink()
    (world.task / "human.md").mkdir()
    shown = comment(terminal, b"5", b"why?")
    assert b"it is not a regular file" in shown
    assert b"on record all the same" in shown
    assert [each["comments"][0]["text"] for each in world.records("commented")] == ["why?"]


def test_comments_are_sent_back_and_the_next_gate_shows_each_with_its_answer(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(found(), found("- c1: postgres cannot be installed here\x1b[2J"), plan())
    terminal = on_terminal(PAGER="cat")
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"c")
    listed = terminal.expect(b"Which lines?")
    assert b"3  ## Storage" in listed
    assert b"7  - [ ] one" in listed
    terminal.expect(NEW_LINE)
    terminal.send(b"99\r")
    terminal.expect(b"no such lines: 99")
    terminal.expect(NEW_LINE)
    terminal.send(b"4-6\r")
    terminal.expect(b"Comment (")
    terminal.expect(NEW_LINE)
    terminal.send(b"why not\x1b\rpostgres?\r")
    terminal.expect(b"Saved: c1 on research.md 5 (must be answered).")
    terminal.expect(HINT)
    assert "## Comment c1 (must) · research.md line 5 · " in world.read("human.md"), "the moment it is made"
    assert "> Use sqlite 1.\n\nwhy not\npostgres?\n" in world.read("human.md")
    comment(terminal, b"", b"good work")
    terminal.send(b"\r")
    terminal.expect(b"Not sent: c1, c2")
    terminal.send(b"z")
    terminal.expect(HINT)
    assert not world.records("gate_answered"), "any other key keeps reviewing"
    terminal.send(b"\r")
    terminal.expect(b"keep reviewing")
    terminal.send(b"r")
    shown = terminal.expect(KEYS_SHOWN).decode()
    assert world.records("gate_answered")[0]["text"] == "See c1, c2."
    assert "round 2 · " in shown
    assert shown[shown.index("╔") :].count("\n") < 23, "it fits a window of 24 rows"
    assert " since round 1 · 1 of 2 comments answered" in shown.replace("\r\n", " ")
    assert "c2: good work → not answered" in " ".join(shown.split())
    asked = (
        "> c1 (must be answered, research.md line 5 (that text is gone)): why not\n> postgres?\n>\n> > Use sqlite 1.\n"
    )
    assert asked.replace(" (that text is gone)", "") in world.prompt(2)
    assert world.prompt(2).count("postgres?") == 1
    assert "New from the human" in world.prompt(2), "the words of the verdict"
    assert "in a section `## Answers` of research.md" in world.prompt(2)
    terminal.send(b"o")
    listed_now = terminal.expect(HINT).decode()
    assert "c2 (note) · research.md · NOT ANSWERED" in listed_now
    assert "c1 (must) · research.md line 5 · text gone · answered" in listed_now
    assert "↳ postgres cannot be installed here\r" in listed_now
    terminal.send(b"d")
    diff = terminal.expect(HINT).decode()
    assert "\x1b[32m+Use sqlite 2.\x1b[0m" in diff
    assert "┃   ↳ postgres cannot be installed here" in diff.partition("+Use sqlite 2.")[2], "beside the changed lines"
    terminal.send(b"\r")
    terminal.expect(b"Phase: plan")
    assert "c1" not in world.prompt(3).replace("`- c1:", ""), "it is answered"
    assert "> c2 (a note, research.md): good work" in world.prompt(3), "asked until it is answered"


def test_comments_go_along_with_an_approval_and_are_the_reason_for_a_redo(
    world: World, on_terminal: Callable[..., Pty], tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "from my\\neditor" >"$1"\n')
    editor.chmod(0o755)
    world.script(found(), plan(), plan())
    terminal = on_terminal(EDITOR=str(editor), PAGER="cat")
    terminal.expect(KEYS_SHOWN)
    comment(terminal, b"5", b"! name the version")
    terminal.send(b"\r")
    terminal.expect(b"[a] Approve")
    terminal.send(b"a")
    shown = terminal.expect(KEYS_SHOWN).decode()
    assert "Phase: plan" in shown
    assert "round 1 · " in shown
    assert " · 1 step" in shown
    assert "c1 (must): name the version → not answered" in shown
    assert "> c1 (must be answered, research.md line 5): name the version\n" in world.prompt(2)
    terminal.send(b"s")
    assert b"- [ ] 1. step (2)" in terminal.expect(HINT)
    comment(terminal, b"1", b"")
    assert world.read("human.md").endswith("> - [ ] 1. step (2)\n\nfrom my\neditor\n")
    terminal.send(b"c")
    terminal.expect(NEW_LINE)
    terminal.send(b"\x1b")
    terminal.expect(b"Nothing was saved.")
    terminal.expect(HINT)
    terminal.send(b"r")
    terminal.expect(NEW_LINE)
    terminal.send(b"\r")
    terminal.expect(b"Iteration: 3")
    assert "See c2." in world.prompt(3), "a redo needs no other words"


def test_an_answer_that_comes_during_a_look_an_edit_or_a_comment_is_told(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(found(), found(), found(), found())
    stays = "sh -c 'echo out''side; read line </dev/tty'"
    terminal = on_terminal(PAGER=stays, EDITOR=stays)
    for key in (b"v", b"e"):
        terminal.expect(KEYS_SHOWN)
        terminal.send(key)
        terminal.expect(b"outside")
        assert world.cli("redo", "task", "-m", "more").returncode == 0
        terminal.send(b"\r")
        terminal.expect(b"Answered from another shell.")
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"c")
    terminal.expect(NEW_LINE)
    terminal.send(b"5\r")
    terminal.expect(b"Comment (")
    terminal.expect(NEW_LINE)
    assert world.cli("redo", "task", "-m", "more").returncode == 0
    terminal.send(b"whose words are kept\r")
    terminal.expect(b"Saved: c1 on research.md 5.")
    terminal.expect(b"Answered from another shell.")
    terminal.expect(KEYS_SHOWN)
    assert "whose words are kept" in world.prompt(4)


def test_w_and_links(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(found())
    terminal = on_terminal(FORCE_HYPERLINK="")
    shown = terminal.expect(KEYS_SHOWN)
    target = str(world.task / "research.md").encode()
    assert target + b"\x1b\\task/research.md\x1b]8;;\x1b\\" in shown
    terminal.send(b"w")
    terminal.expect(b"/in?token=")
    terminal.send(b"\x03")
    terminal.expect(HINT)
    terminal.send(b"w")
    terminal.expect(b"/in?token=")
    assert world.cli("redo", "task", "-m", "more").returncode == 0
    terminal.expect(b"Answered from another shell.")


def test_auto_approve_passes_no_comment_that_must_be_answered(world: World) -> None:
    done: Entry = {"state": "paused", "phase": "research", "answers": {"c1": "yes"}}
    world.script(found("- c1: written before it was asked"), found(), {**found(), "state": done}, chunk())
    assert world.run().returncode == 3
    made = world.cli("comment", "task", "--on", "storage", "why sqlite?")
    assert "Written: c1 (must, research.md line 3)." in made.stdout
    world.cli("comment", "task", "--lines", "5", "well")
    ran = world.run("--auto-approve")
    assert (ran.returncode, "c1 must be answered first" in ran.stdout) == (3, True), "made at this gate"
    world.cli("redo", "task", "-m", "see c1")
    ran = world.run("--auto-approve")
    assert (ran.returncode, "c1 (must): why sqlite? → not answered" in ran.stdout) == (3, True)
    assert world.records("gate_opened")[-1]["unanswered"] == ["c1"]
    world.cli("redo", "task", "-m", "see c1")
    ran = world.run("--auto-approve", "--max-iterations", "3")
    assert ran.returncode == 4, "it was answered, so the review passed"
    assert world.records("gate_opened")[-2]["answered"] == {"c1": "yes"}
    (world.task / "research.md").write_text("without answers\n")
    told = json.loads(world.cli("comments", "task", "--json").stdout)
    assert [(each["id"], each["answer"], each["open"]) for each in told] == [("c1", "yes", False), ("c2", None, True)]
    world.cli("comments", "task", "--withdraw", "c2")
    assert "c2 (note) · research.md line 5 · text gone · withdrawn" in world.cli("comments", "task").stdout


def test_what_was_withdrawn_does_not_count_anywhere(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(found(), found("- c1: because", "- c3: also"), chunk())
    world.run()
    for words in ("why sqlite?", "taken back?", "and this?"):
        world.cli("comment", "task", "--on", "storage", words)
    world.cli("comments", "task", "--withdraw", "c2")
    world.cli("redo", "task", "-m", "see there")
    ran = world.run().stdout
    assert "2 of 2 comments answered" in ran
    assert "taken back?" not in world.prompt(2)
    world.cli("comments", "task", "--withdraw", "c3")
    assert "taken back?" not in world.cli("rounds", "task").stdout
    assert "why sqlite?" in world.cli("rounds", "task").stdout
    terminal = on_terminal()
    shown = terminal.expect(KEYS_SHOWN).decode()
    assert "1 of 1 comment answered" in " ".join(shown.split())
    terminal.send(b"?")
    assert "[o] 1 comment, none open" in terminal.expect(KEYS_SHOWN).decode()
    terminal.send(b"q")
    assert terminal.wait() == 3
    assert "(must) · research.md line 3 · withdrawn" in world.cli("comments", "task").stdout, "but nothing is hidden"
    world.cli("comment", "task", "--on", "storage", "must this be answered?")
    world.cli("comments", "task", "--withdraw", "c4")
    world.run("--auto-approve", "--max-iterations", "3")
    assert "taken back" not in world.cli("status", "task").stdout
    assert len(world.records("gate_answered")) == 2, "a comment that was withdrawn stops no one"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--lines", "9999", "x"), "has no lines 9999"),
        (("--lines", "a", "x"), "has no lines a"),
        (("--on", "nothing like it", "x"), "No lines of"),
        (("--on", "o", "x"), "Lines "),
        (("--file", "../../../../../../../../etc/passwd", "x"), "no document"),
        (("--file", "/etc/passwd", "x"), "no document"),
        ((" ",), "empty"),
    ],
)
def test_what_cannot_be_commented_on_is_a_sentence(world: World, args: tuple[str, ...], said: str) -> None:
    world.script(found())
    world.run()
    refused = world.cli("comment", "task", *args)
    assert (refused.returncode, said in refused.stderr) == (2, True)
    assert not (world.task / "human.md").exists()


FIVE = """
import sys
from pathlib import Path
from marathon.runner.commenting import add_comment
from marathon.runner.status_query import read_task
for number in range(5):
    add_comment(read_task(Path("task"), Path.cwd()), f"{sys.argv[1]} {number}\\n" * 50, kind="note")
"""


def test_several_processes_comment_at_once(world: World) -> None:
    world.script(found())
    world.run()
    argv = [sys.executable, "-c", FIVE]
    started = [subprocess.Popen([*argv, name], cwd=world.project, env=world.env()) for name in "abc"]
    assert [process.wait(60) for process in started] == [0, 0, 0]
    told = json.loads(world.cli("comments", "task", "--json").stdout)
    assert {each["id"] for each in told} == {f"c{number}" for number in range(1, 16)}
    wanted = {f"{name} {number}" for name in "abc" for number in range(5)}
    assert {each["text"].split("\n")[0] for each in told} == wanted
    assert all(len(set(each["text"].split("\n"))) == 1 for each in told), "no two were mixed"
    assert world.run().returncode == 3
    assert sum(len(record["comments"]) for record in world.records("commented")) == 15


def test_a_comment_on_a_task_that_no_runner_has_begun_waits_for_one(world: World) -> None:
    world.script(found(), found("- c1: done"))
    assert "Written: c1 (must)." in world.cli("comment", "task", "why\x1b[2J?").stdout
    assert [each["id"] for each in json.loads(world.cli("comments", "task", "--json").stdout)] == ["c1"]
    assert not (world.task / "human.md").exists()
    world.run()
    assert "## Comment c1 (must) · " in world.read("human.md")
    assert "> c1 (must be answered): why?" in world.prompt(1)
    assert world.records("session_started")[0]["comments"] == ["c1"]
    withdrawn = world.cli("comments", "task", "--withdraw", "c9")
    assert (withdrawn.returncode, "There are: c1" in withdrawn.stderr) == (2, True)


def test_an_agent_cannot_comment(world: World) -> None:
    world.script(found(run="pi-marathon comment task 'all is well'; pi-marathon comments task --withdraw c1"))
    world.run()
    assert not (world.task / "human.md").exists()


def test_rounds_are_listed_and_any_two_compared(world: World) -> None:
    world.script(found(), found(), plan())
    world.run()
    (world.task / "research.md").write_text("by hand\n")
    world.cli("comment", "task", "no")
    world.cli("redo", "task", "-m", "too\nshallow")
    world.run()
    world.cli("approve", "task")
    world.run()
    listed = world.cli("rounds", "task").stdout
    assert [line.split()[:2] for line in listed.splitlines()[1:] if "session" in line or "edited" in line] == [
        ["research", "1"],
        ["research", "1h"],
        ["research", "2"],
        ["plan", "1"],
    ]
    assert "redo (command)\n      > too\n      > shallow\n      c1 (note) research.md: no\n" in listed
    assert "-by hand\n" in world.cli("rounds", "task", "research", "1h", "2").stdout
    assert "-Use sqlite 1.\n+Use sqlite 2." in world.cli("rounds", "task", "research", "1.1", "2").stdout
    told = json.loads(world.cli("rounds", "task", "plan", "--json").stdout)
    assert [(each["label"], Path(each["path"]).name, each["verdict"]) for each in told] == [("1", "plan-1.md", "")]
    refused = world.cli("rounds", "task", "plan", "1", "7")
    assert (refused.returncode, "There are: 1.1" in refused.stderr) == (2, True)


def test_a_review_fits_60_columns(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(found(), found("- c1: done"))
    terminal = on_terminal("--no-notify", PAGER="cat", NO_COLOR="1")
    terminal.resize(24, 60)
    terminal.expect(b"MARATHON PAUSED")
    shown = terminal.expect(KEYS_SHOWN)
    terminal.send(b"c")
    shown += terminal.expect(b"Esc back")
    terminal.send(b"SQLite\r")
    shown += terminal.expect(b"Comment (") + terminal.expect(b"Esc back")
    terminal.send(b"!why?\r")
    terminal.expect(b"Saved: c1 on research.md 5 (must be answered).")
    shown += terminal.expect(HINT)
    world.cli("comment", "task", "--on", "storage", "from another shell")
    shown += terminal.expect(b"The files changed.") + terminal.expect(HINT)
    terminal.send(b"\r")
    shown += terminal.expect(b"keep reviewing")
    terminal.send(b"z")
    terminal.expect(HINT)
    terminal.send(b"?")
    assert "[o] 2 comments, 2 open" in terminal.expect(KEYS_SHOWN).decode()
    terminal.send(b"o")
    shown += terminal.expect(HINT)
    assert "c1 (must) · research.md line 5 · not sent yet".encode() in shown, "no one could have answered it"
    terminal.send(b"a sentence of a few words more, typed at the gate\r")
    shown += terminal.expect(b"[c] comment")
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r", "").split("\n")
    assert [line for line in lines if get_cwidth(line) > 60] == []


def test_an_answer_that_comes_while_another_is_typed_is_the_first(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(found(), found(), plan())
    terminal = on_terminal()
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"f")
    terminal.expect(NEW_LINE)
    terminal.send(b"half a thought")
    terminal.expect(b"half a thought")
    assert world.cli("redo", "task", "-m", "from the page").returncode == 0
    terminal.send(b"\r")
    terminal.expect(b"An answer from another shell was first.")
    terminal.expect(b"Not sent: half a thought")
    terminal.expect(KEYS_SHOWN)
    assert [each["text"] for each in world.records("gate_answered")] == ["from the page"]
    terminal.send(b"f")
    assert b"half a thought" not in terminal.expect(NEW_LINE), "it was about another gate"
