"""Words between human and agent: a question and its answer, steering in order and once, human.md typed by hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.process.driver import Pty, until
from tests.support.world import Entry, World, plan, research

ASKS: Entry = {"write": {"a.md": "{n}"}, "state": {"state": "running", "phase": "research"}, "ask": "Which DB?"}


@pytest.mark.parametrize(("answer", "told"), [("postgres", "> postgres"), ("", "an empty answer: decide yourself")])
def test_question_and_answer_reach_the_next_session_of_the_phase(world: World, answer: str, told: str) -> None:
    world.script(ASKS, research())
    ran = world.run()
    assert ran.returncode == 3
    assert "Which DB?" in ran.stdout
    assert "pi-marathon answer task" in ran.stdout
    assert "Which DB?" in world.cli("status", "task").stdout
    answered = world.cli("answer", "task", answer)
    assert answered.returncode == 0
    assert ("the agent decides" in answered.stdout) == (answer == "")
    assert world.run().returncode == 3
    assert "phase research" in world.prompt(2)
    assert "> Which DB?" in world.prompt(2)
    assert told in world.prompt(2)


def test_an_answer_is_read_from_standard_input(world: World) -> None:
    world.script(ASKS, research())
    world.run()
    typed = world.argv("answer", "--code", world.code(), "task", "-")
    subprocess.run(typed, cwd=world.project, env=world.env(), input=b"postgres\n", check=True)
    assert world.run().returncode == 3
    assert "> postgres\n" in world.prompt(2)


def test_a_question_is_answered_on_the_terminal_and_an_empty_enter_is_no_answer(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(ASKS, research(), plan())
    terminal = on_terminal()
    shown = terminal.expect(b"[q]      Quit marathon").decode()
    assert "The agent asks:" in shown
    assert "Which DB?" in shown
    assert "[f]" not in shown
    terminal.send(b"\r")
    terminal.expect(b"Esc back")
    terminal.send(b"\r")
    terminal.expect(b"Nothing was recorded")
    terminal.expect(b"? shows the options")
    terminal.send(b"\r")
    terminal.expect(b"Esc back")
    terminal.send(b"postgres\r")
    terminal.expect(b"Review the output: task/research.md")
    terminal.expect(b"[q]      Quit marathon")
    assert "> postgres" in world.prompt(2)
    terminal.send(b"\r")
    terminal.expect(b"Review the output: task/plan.md")
    assert "Which DB?" not in world.prompt(3)


def test_an_answer_is_kept_in_human_md_and_told_as_new_once(world: World) -> None:
    """A session much later has no other way to know what was agreed."""
    world.script(ASKS, research(), plan())
    world.run()
    world.cli("answer", "task", "postgres")
    world.run()
    assert world.prompt(2).count("postgres") == world.prompt(2).count("Which DB?") == 1
    human = (world.task / "human.md").read_text()
    assert human.startswith("# Human Feedback\n\n## research phase · run 1, iteration 1 · ")
    assert human.endswith("The agent asked:\n\n> Which DB?\n\nThe answer:\n\npostgres\n")
    world.cli("approve", "task", "-m", "go on")
    world.run()
    assert "human.md (everything the human ever said" in world.prompt(3)
    assert "> go on" in world.prompt(3)
    assert "postgres" not in world.prompt(3)


def test_a_question_is_not_approved_and_an_answer_needs_a_question(world: World) -> None:
    world.script(ASKS, research())
    world.run()
    refused = world.cli("approve", "task")
    assert refused.returncode == 2
    assert "pi-marathon answer task" in refused.stderr
    world.cli("answer", "task", "postgres")
    world.run()
    refused = world.cli("answer", "task", "postgres")
    assert refused.returncode == 2
    assert "not offered: answer" in refused.stderr
    assert "pi-marathon approve task" in refused.stderr


def test_two_steers_in_a_session_arrive_in_order_and_once(
    world: World, in_background: Callable[..., subprocess.Popen[str]]
) -> None:
    more: Entry = {"write": {"a.md": "{n}"}, "state": {"state": "running", "phase": "research"}}
    world.script({**more, "hold": True}, more, research())
    runner = in_background()
    until(lambda: world.holding(1), "the session runs")
    for words in ("first: use tabs", "second: no, spaces"):
        sent = world.cli("tell", "task", words)
        assert sent.returncode == 0
        assert sent.stdout.startswith("Sent")
    assert "2 messages" in world.cli("status", "task").stdout
    world.release(1)
    runner.communicate(timeout=30)
    assert runner.returncode == 3
    prompt = world.prompt(2)
    assert prompt.index("first: use tabs") < prompt.index("second: no, spaces")
    assert prompt.count("use tabs") == prompt.count("no, spaces") == 1
    assert "use tabs" not in world.prompt(3)
    assert "spaces" not in world.prompt(3)


def test_steering_sent_while_nothing_runs_waits_for_the_next_session(world: World) -> None:
    world.script(research())
    assert "Kept" in world.cli("tell", "task", "--", "-x is an option").stdout
    world.run()
    assert world.prompt(1).count("-x is an option") == 1
    assert not list((world.task / ".marathon/inbox").iterdir())


def test_human_md_typed_by_hand_counts_once_as_new(
    world: World, in_background: Callable[..., subprocess.Popen[str]]
) -> None:
    more: Entry = {"write": {"a.md": "{n}"}, "state": {"state": "running", "phase": "research"}}
    (world.task / "human.md").write_text("Mind the tests.\n")
    world.script({**more, "hold": True}, more, research())
    runner = in_background()
    until(lambda: world.holding(1), "the session runs")
    with (world.task / "human.md").open("a") as file:
        file.write("And the docs.\n")
    world.release(1)
    runner.communicate(timeout=30)
    assert "> Mind the tests." in world.prompt(1)
    assert "> And the docs." in world.prompt(2)
    assert "Mind the tests." not in world.prompt(2)
    assert "And the docs." not in world.prompt(3)
    assert "task/human.md" in world.prompt(3)
    assert world.read("human.md") == "Mind the tests.\nAnd the docs.\n"


def test_a_task_file_edited_in_one_session_is_what_the_next_one_reads(world: World) -> None:
    """The prompt names files instead of holding copies, so nothing in it can be stale."""
    named = """sed -n 's/^Read: \\([^ ]*\\).*/\\1/p' "$MARATHON_PROMPT_FILE" """
    read_all = f'{named} | xargs cat 2>/dev/null >"$MARATHON_TASK_DIR/read"; :'
    edit = {"instructions.md": "Also in French.\n"}
    world.script(
        {"append": edit, "state": {"state": "running", "phase": "research"}},
        research(run=read_all),
    )
    assert world.run().returncode == 3
    assert "All of it." in world.read("read")
    assert "Also in French." in world.read("read")


@pytest.mark.parametrize(("iteration", "gates"), [(2, ["question"]), (1, ["review"])])
def test_of_a_killed_session_only_its_own_question_counts(
    world: World, in_background: Callable[..., subprocess.Popen[str]], iteration: int, gates: list[str]
) -> None:
    """A power cut may bring back what the mailbox held before the session."""
    more: Entry = {"append": {"notes.md": "{n}"}, "state": {"state": "running", "phase": "research"}}
    world.script(more, {**more, "hold": True}, research())
    runner = in_background()
    until(lambda: world.holding(2), "the second session runs")
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    [mailbox] = world.states.glob("*.json")
    mail = json.loads(mailbox.read_text())
    assert (mail["run"], mail["iteration"]) == (1, 2)
    mailbox.write_text(json.dumps({**mail, "iteration": iteration, "feedbackQuestion": "Which port?"}))
    world.run()
    assert [record["reason"] for record in world.records("gate_opened")] == gates
