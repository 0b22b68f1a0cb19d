"""Our extension inside the real pi, in each of its modes, with a scripted model."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from marathon.core.budgets import usage_in
from marathon.core.events import (
    CompactionBegan,
    CompactionEnded,
    Notice,
    Text,
    ToolCalled,
    ToolEnded,
    ToolUpdated,
    usage_of,
)
from marathon.store.events import follow
from marathon.store.inbox import Inbox
from tests.real.desk import PROMPT, Desk, Terminal
from tests.real.install import PiInstall
from tests.real.model_server import (
    ToolCall,
    Turn,
    ask,
    bash,
    context_too_long,
    server_error,
    wait,
    wrong_key,
)
from tests.real.pi_home import EXTENSION

PI = "newest"
ESCAPE = b"\x1b"
YOURS = b"The marathon continues when"


@pytest.fixture
def desk(tmp_path: Path, pi_install: PiInstall) -> Iterator[Callable[..., Desk]]:
    made: list[Desk] = []

    def make(*script: Turn, **settings: Any) -> Desk:
        made.append(Desk(tmp_path, pi_install, script or [Turn("Done.")], **settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


# Without the terminal


@pytest.mark.parametrize("mode", [("-p",), ("--mode", "json")])
def test_print_and_json_mode_leave_the_end_to_the_runner(desk: Callable[..., Desk], mode: tuple[str, ...]) -> None:
    at = desk()
    done = at.run(*mode, f"@{at.prompt}")
    assert (done.returncode, done.stderr) == (0, "")
    assert at.model.requests[0].tools[-2:] == ["marathon_wait", "human_feedback"]
    assert at.state()["sessionEnded"] is False
    assert "usage" not in at.state()
    assert not at.events.exists()


def test_one_rpc_process_serves_sessions_of_different_phases(desk: Callable[..., Desk]) -> None:
    tell = Turn(tools=[bash("echo $MARATHON_PHASE $MARATHON_ITERATION $MARATHON_RUN $MARATHON_TASK_DIR")])
    at = desk(tell, Turn("Done."), tell, Turn("Done."))
    pi = at.rpc()
    commands = pi.ask(type="get_commands")["data"]["commands"]
    ours = {command["name"] for command in commands if command["source"] == "extension"}
    assert ours >= {"marathon-loop", "marathon-status", "marathon-steer", "marathon-pause"}
    pi.ask(type="prompt", message=PROMPT)
    pi.next("agent_settled")
    at.write_state(phase="plan", iteration=4)
    pi.ask(type="new_session")
    pi.ask(type="prompt", message="the next session")
    pi.next("agent_settled")
    assert at.model.requests[1].last_text.split() == ["research", "3", "2", str(at.task)]
    assert at.model.requests[3].last_text.split() == ["plan", "4", "2", str(at.task)]
    assert pi.ask(type="get_state")["success"]
    assert at.state()["sessionEnded"] is False
    assert pi.close() == 0
    assert not at.events.exists()  # over RPC the runner logs


@pytest.mark.parametrize("runner", ["../runner-1", "no-such-runner"])
def test_without_a_runner_the_commands_act_or_say_what_to_type(desk: Callable[..., Desk], runner: str) -> None:
    at = desk()
    at.home.path = "/usr/bin:/bin"  # without pi-marathon
    pi = at.rpc(runner)

    def said(command: str) -> str:
        pi.send(type="prompt", message=command)
        return str(pi.next("extension_ui_request")["message"])

    (at.home.home / "linked").symlink_to(at.task)
    assert said("/marathon-status").endswith("Type in a shell: pi-marathon list")
    assert said("/marathon-status 'my task'").endswith("Type in a shell: pi-marathon status -- 'my task'")
    assert said(f"/marathon-loop '{at.task}'").endswith("Type in a shell: pi-marathon --task docs/tasks/my-task")
    assert said("/marathon-loop ~/linked").endswith(f"Type in a shell: pi-marathon --task {at.home.home}/linked")
    assert "docs/nothing has no instructions.md" in said("/marathon-loop docs/nothing")
    assert said("/marathon-pause").endswith("Type in a shell: pi-marathon stop")
    assert said("/ralph dance").endswith("start NAME GOAL, attach [NAME], detach, stop, status, list, kill, clean")
    pi.ask(type="prompt", message="hello")
    pi.next("agent_settled")
    assert at.model.requests[0].tools == ["read", "bash", "edit", "write", "marathon_start", "marathon_status"]


def test_an_installed_copy_does_not_clash_with_the_runners(desk: Callable[..., Desk]) -> None:
    at = desk()
    installed = at.home.agent_folder / "extensions"
    installed.mkdir()
    shutil.copy(EXTENSION, installed / "marathon-loop.ts")
    pi = at.rpc()
    names = [command["name"] for command in pi.ask(type="get_commands")["data"]["commands"]]
    assert names.count("marathon-steer") == 1
    pi.ask(type="new_session")
    pi.ask(type="prompt", message="hello")
    pi.next("agent_settled")
    assert at.model.requests[0].tools.count("marathon_wait") == 1


def inbox_of(at: Desk) -> Inbox:
    """In the task's home, where no runner has made the link yet."""
    key = hashlib.sha256(os.fsencode(os.path.realpath(at.task))).hexdigest()[:32]
    return Inbox(at.home.home / ".local/state/pi-marathon/tasks" / key / "inbox")


def test_steering_from_another_pi_goes_to_the_marathon_that_is_named(desk: Callable[..., Desk]) -> None:
    at = desk()
    at.home.path = f"{os.environ['PATH']}:{Path(sys.executable).parent}"
    pi = at.rpc("")
    pi.send(type="prompt", message="/marathon-steer docs/tasks/my-task not now")
    assert pi.next("extension_ui_request")["message"].startswith("Kept for the next session. To")
    assert [message.text for message in inbox_of(at).messages()] == ["not now"]
    pi.send(type="prompt", message="/marathon-steer anyone?")
    assert "runs or waits for an answer. See: /ralph list" in pi.next("extension_ui_request")["message"]


# The end of a session in the terminal


def test_a_session_in_the_terminal_ends_by_itself(desk: Callable[..., Desk]) -> None:
    at = desk(Turn("I look.", thinking="Hm.", tools=[bash("echo seen")]), Turn("Done."))
    pi = at.session()
    pi.expect("marathon: my-task │ research │ session 3 │ ".encode())
    assert pi.wait() == 0
    state = at.state()
    assert (state["sessionEnded"], state["stopReason"], state["errorMessage"]) == (True, "stop", None)
    assert state["unknown"] == {"kept": True}
    cost = state["usage"].pop("cost")
    assert cost == pytest.approx(2 * (800 * 3 + 40 * 15 + 200 * 0.3) / 1e6)
    tokens = {"input": 1600, "output": 80, "cacheRead": 400, "cacheWrite": 0}
    assert state["usage"] == {**tokens, "turns": 2, "toolCalls": 1, "model": "lab/scripted"}
    assert stat.S_IMODE(at.state_file.stat().st_mode) == 0o600
    assert [path.name for path in at.home.states.iterdir()] == ["runner-1.json"]


def test_events_of_a_terminal_session_are_appended_to_the_log_the_runner_names(desk: Callable[..., Desk]) -> None:
    at = desk(Turn("I look.", thinking="Hm.", tools=[bash("echo seen"), bash("exit 3")]), Turn("Done."))
    at.session().wait()
    events = at.events_logged()
    pieces = [event for event in events if isinstance(event, Text)]
    assert "".join(piece.text for piece in pieces if piece.thinking) == "Hm.\n"
    assert "".join(piece.text for piece in pieces if not piece.thinking) == "I look.\nDone.\n"
    calls = {event.id: event for event in events if isinstance(event, ToolCalled)}
    assert [call.arguments for call in calls.values()] == [{"command": "echo seen"}, {"command": "exit 3"}]
    results = {calls[event.id].summary: event for event in events if isinstance(event, ToolEnded)}
    assert results["echo seen"].text == "seen\n"
    assert (results["echo seen"].failed, results["exit 3"].failed) == (False, True)
    assert all(result.name == "bash" and 0 <= result.seconds < 30 for result in results.values())
    assert all(event.at > 1e9 for event in events)
    assert usage_of(follow(at.events)) == usage_in(at.state()["usage"])
    assert stat.S_IMODE(at.events.stat().st_mode) == 0o600


def test_text_and_output_are_logged_as_they_come(desk: Callable[..., Desk], tmp_path: Path) -> None:
    half, go = threading.Event(), tmp_path / "go"
    prints = bash(f"echo first; until [ -e '{go}' ]; do sleep 0.05; done")
    held = Turn("One half is here, and another follows.", tools=[prints], hold=half)
    at = desk(held, Turn("Done."), httpIdleTimeoutMs=60_000)
    pi = at.session()
    pi.until(lambda: at.events.exists() and "One half" in at.events.read_text(), "the first half in the log")
    half.set()

    def updates() -> list[ToolUpdated]:
        return [event for event in follow(at.events) if isinstance(event, ToolUpdated)]

    pi.until(updates, "the first line in the log")
    (updated,) = updates()
    assert updated.text == "first"
    go.touch()
    assert pi.wait() == 0


def test_a_line_of_the_log_is_never_very_long(desk: Callable[..., Desk]) -> None:
    long = "x" * 300_000
    at = desk(Turn("", tools=[ToolCall("write", {"path": "long.txt", "content": long})]), Turn(long), Turn("Done."))
    at.session().wait()
    assert max(len(line) for line in at.events.read_text().splitlines()) < 300_000
    (call,) = [event for event in at.events_logged() if isinstance(event, ToolCalled)]
    assert call.summary == "long.txt"
    assert call.arguments["content"].endswith("[234464 more characters were left out]")


def test_a_retry_does_not_end_the_session(desk: Callable[..., Desk]) -> None:
    at = desk(server_error(), server_error(), Turn("Done."))
    assert at.session().wait() == 0
    assert at.requests() == 3
    assert at.state()["stopReason"] == "stop"
    warnings = [event.text for event in at.events_logged() if isinstance(event, Notice)]
    assert len(warnings) == 2
    assert all("The server had an error" in warning for warning in warnings)


def test_compaction_does_not_end_the_session_and_its_cost_counts(desk: Callable[..., Desk]) -> None:
    long = Turn("word " * 400, tools=[bash("seq 400")])
    at = desk(long, long, context_too_long(), Turn("A summary."), Turn("Done."), compaction={"keepRecentTokens": 300})
    assert at.session().wait() == 0
    assert at.state()["stopReason"] == "stop"
    assert at.state()["usage"]["output"] == 4 * 40
    began, ended = (event for event in at.events_logged() if isinstance(event, CompactionBegan | CompactionEnded))
    assert began == CompactionBegan("overflow")
    assert isinstance(ended, CompactionEnded)
    assert (ended.before > 0, ended.error) == (True, "")
    assert usage_of(follow(at.events)) == usage_in(at.state()["usage"])


def test_a_provider_that_refuses_ends_the_session_with_its_error(desk: Callable[..., Desk]) -> None:
    at = desk(wrong_key())
    assert at.session().wait() == 0
    state = at.state()
    assert (state["sessionEnded"], state["stopReason"]) == (True, "error")
    assert state["errorMessage"].startswith("401")


def test_leaving_pi_by_hand_is_no_end_of_the_session_but_its_usage_is_kept(desk: Callable[..., Desk]) -> None:
    at = desk(Turn(tools=[bash("echo seen")]), Turn("Never", hold=threading.Event()))
    pi = at.session()
    pi.until(lambda: at.requests() == 2, "the second request")
    pi.send(b"\x03")
    pi.send(b"\x03")
    assert pi.wait() == 0
    assert at.state()["sessionEnded"] is False
    assert at.state()["usage"]["output"] == 40


# The tools


def test_a_wait_is_recorded_and_ends_the_run(desk: Callable[..., Desk]) -> None:
    at = desk(Turn(tools=[wait(0.5, "too short")]), Turn(tools=[wait(2.5, "CI")]), Turn("Never."))
    assert at.session().wait() == 0
    assert "minutes must be 1 to 60" in at.model.requests[1].last_text
    assert at.requests() == 2
    state = at.state()
    assert (state["waitSeconds"], state["waitReason"], state["sessionEnded"]) == (150, "CI", True)


def test_a_wait_out_of_range_is_refused_and_not_recorded(desk: Callable[..., Desk]) -> None:
    wrong = [ToolCall("marathon_wait", {"minutes": minutes, "reason": "x"}) for minutes in (0, 0.99, 60.5, -1, "many")]
    at = desk(Turn(tools=wrong), Turn("Done."))
    at.run("-p", f"@{at.prompt}")
    results = [message for message in at.model.requests[1].messages if message["role"] == "tool"]
    assert len(results) == 5
    assert not any("Recorded" in str(result["content"]) for result in results)
    assert at.state()["waitSeconds"] is None


def test_a_question_is_recorded_and_ends_the_run(desk: Callable[..., Desk]) -> None:
    at = desk(Turn(tools=[ask("Which database?")]), Turn("Never."))
    assert at.session().wait() == 0
    assert at.requests() == 1
    assert at.state()["feedbackQuestion"] == "Which database?"
    assert at.state()["sessionEnded"] is True


# The human in the conversation


def test_escape_keeps_pi_open_until_that_exchange_is_over(desk: Callable[..., Desk]) -> None:
    at = desk(Turn("Never", hold=threading.Event()), Turn("As you say."))
    pi = at.session()
    pi.until(lambda: at.requests() == 1, "the first request")
    pi.send(ESCAPE)
    pi.expect(YOURS)
    assert at.state()["sessionEnded"] is False
    pi.send(b"rather this\r")
    assert pi.wait() == 0
    assert at.model.requests[1].last_text == "rather this"
    assert Notice("→ typed: rather this") in at.events_logged()
    assert at.state()["stopReason"] == "stop"


def test_escape_during_the_wait_before_a_retry_keeps_pi_open(desk: Callable[..., Desk]) -> None:
    slow = {"enabled": True, "maxRetries": 2, "baseDelayMs": 600_000, "maxAgentDelayMs": 600_000}
    at = desk(server_error(), Turn("Better."), retry=slow)
    pi = at.session()
    pi.expect(b"Retrying")
    pi.send(ESCAPE)
    pi.expect(YOURS)
    assert at.state()["sessionEnded"] is False
    pi.send(b"again\r")
    assert pi.wait() == 0
    assert at.state()["stopReason"] == "stop"


def test_a_message_typed_while_the_agent_works_is_answered_first(desk: Callable[..., Desk]) -> None:
    half = threading.Event()
    at = desk(Turn("One moment.", hold=half), Turn("That too."))
    pi = at.session()
    pi.until(lambda: at.requests() == 1, "the first request")
    pi.send(b"and also this\r")
    pi.expect(b"Steering: and also this")
    half.set()
    assert pi.wait() == 0
    assert at.model.requests[1].last_text == "and also this"
    assert at.state()["usage"]["turns"] == 2


@pytest.mark.parametrize("typed", ["not sent yet", "/marathon-steer use the index"])
def test_text_in_the_editor_keeps_pi_open(desk: Callable[..., Desk], typed: str) -> None:
    half = threading.Event()
    at = desk(Turn("One moment.", hold=half), Turn("That too."))
    pi = at.session()
    pi.until(lambda: at.requests() == 1, "the first request")
    pi.send(typed.encode())
    pi.expect(typed.encode())
    half.set()
    pi.expect(YOURS)
    assert at.state()["sessionEnded"] is False
    pi.send(b"\r")
    assert pi.wait() == 0
    assert at.state()["stopReason"] == "stop"
    assert at.requests() == (1 if typed[0] == "/" else 2)


BACKSPACE = b"\x7f"


def left_in_the_editor(desk: Callable[..., Desk], letter: bytes) -> tuple[Desk, Terminal]:
    """A session that is over, with a letter in the editor."""
    half = threading.Event()
    at = desk(Turn("One moment.", hold=half))
    pi = at.session()
    pi.until(lambda: at.requests() == 1, "the first request")
    pi.send(letter)
    time.sleep(0.5)
    half.set()
    pi.expect(b"or after 30 s without a key")
    assert at.state()["sessionEnded"] is False
    return at, pi


def test_clearing_the_editor_lets_the_marathon_go_on(desk: Callable[..., Desk]) -> None:
    at, pi = left_in_the_editor(desk, b"x")
    pi.send(BACKSPACE)
    assert pi.wait() == 0
    assert at.state()["stopReason"] == "stop"
    assert not inbox_of(at).messages()


def test_a_letter_in_the_editor_holds_the_marathon_for_half_a_minute(desk: Callable[..., Desk]) -> None:
    at, pi = left_in_the_editor(desk, b"x")
    began = time.monotonic()
    pi.until(lambda: time.monotonic() - began > 20, "20 seconds")
    assert at.state()["sessionEnded"] is False
    assert pi.wait() == 0
    assert at.state()["stopReason"] == "stop"
    (kept,) = inbox_of(at).messages()
    assert (kept.text, kept.later) == ("x", True)


# The commands


def test_each_steering_is_a_message_of_its_own(desk: Callable[..., Desk]) -> None:
    half = threading.Event()
    at = desk(Turn("One moment.", hold=half))
    inbox = inbox_of(at)
    pi = at.session()
    pi.until(lambda: at.requests() == 1, "the first request")
    pi.send(b"/marathon-steer use the index\r")
    pi.until(lambda: len(inbox.messages()) == 1, "the first message")
    pi.send(b"/marathon-steer no, ask\r")
    pi.until(lambda: len(inbox.messages()) == 2, "the second message")
    pi.send(b"/marathon-pause\r")
    pi.expect(b"pauses after this session")
    pi.send(b"/marathon-status\r")
    pi.expect(b"3 message(s) in the inbox")
    messages = inbox.messages()
    assert [(m.kind, m.text, m.to, m.now) for m in messages] == [
        ("steer", "use the index", "", False),
        ("steer", "no, ask", "", False),
        ("stop", "", "runner-1", False),
    ]
    assert stat.S_IMODE(inbox.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in inbox.folder.iterdir()} == {0o600}
    half.set()
    assert pi.wait() == 0


def test_status_tells_where_the_marathon_stands(desk: Callable[..., Desk]) -> None:
    at = desk()
    (at.task / "STATE.json").write_text(json.dumps({"state": "running", "phase": "research", "note": "a\x1b[31mb"}))
    pi = at.rpc()
    at.write_state(feedbackQuestion="Which?", waitSeconds=150, waitReason="CI")
    pi.send(type="prompt", message="/marathon-status")
    said = pi.next("extension_ui_request")["message"].splitlines()
    assert said[0].startswith("marathon: my-task │ research │ session 3 │ ")
    assert said[0].endswith(" │ $0.50")
    assert said[1:] == [
        f"run 2, {at.task}",
        "STATE.json: running, research (ab)",
        "waits for your answer: Which?",
        "waits 2m before the next session: CI",
    ]


def test_task_directories_are_completed(desk: Callable[..., Desk]) -> None:
    at = desk()
    at.home.path = "/usr/bin:/bin"  # without pi-marathon
    at.write_state(taskDir=None, phase=None)
    (at.project / "docs" / "drawings").mkdir()
    pi = at.terminal()
    pi.command("/ralph", lambda: b"type one of these after /ralph" in pi.seen)
    pi.send(b"/marathon-loop docs/")
    pi.expect(b"tasks/")
    assert b"drawings" not in pi.seen
    pi.send(b"tasks/")
    pi.expect(b"my-task")
    pi.command("\t", lambda: b"pi-marathon --task docs/tasks/my-task" in pi.seen)


def test_a_second_marathon_is_not_started_in_a_session(desk: Callable[..., Desk]) -> None:
    at = desk()
    pi = at.rpc()
    pi.send(type="prompt", message=f"/marathon-loop {at.task}")
    assert "a marathon is already running here" in pi.next("extension_ui_request")["message"]


def test_a_runner_that_is_gone_is_reported_and_does_not_break_pi(desk: Callable[..., Desk]) -> None:
    half = threading.Event()
    at = desk(Turn("One moment.", hold=half))
    pi = at.session()
    pi.until(lambda: at.requests() == 1, "the first request")
    at.state_file.unlink()
    half.set()
    pi.expect(b"the runner of this session is gone")
    pi.send(b"/quit\r")
    assert pi.wait() == 0
