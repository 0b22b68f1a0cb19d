"""What the provider or pi can do wrong, and what a user then sees: judged from pi's own records, never from text."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable

import pytest

from marathon.process import tree
from tests.process.driver import until
from tests.real.model_server import (
    Request,
    Turn,
    bash,
    by_phase,
    coding_agent,
    quota_used_up,
    rate_limited,
    refused,
    server_error,
    wrong_key,
)
from tests.real.real_world import RealWorld, pis

QUICK = ("--retries", "1", "--retry-wait", "0.2s")


@pytest.mark.parametrize(
    ("fault", "said"),
    [(rate_limited, "429"), (lambda: Turn("Half a", fault="no_finish"), "finish_reason")],
    ids=["429", "without an end"],
)
def test_a_passing_fault_is_tried_again_and_then_a_gate_with_the_cause(
    real: RealWorld, fault: Callable[[], Turn], said: str
) -> None:
    real.plays([fault()])
    ended = real.run(*QUICK)
    assert ended.returncode == 1, ended.stdout
    assert said in real.records("gate_opened")[-1]["message"]
    assert [record["ending"] for record in real.records("session_ended")] == ["refused", "refused"]
    assert "Trying again" in ended.stdout


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (server_error, "500"),
        (lambda: refused(502, "Bad gateway"), "502"),
        (lambda: refused(529, "Overloaded", "overloaded_error"), "529"),
        (lambda: Turn("Half a", fault="drop"), "terminated"),
        (lambda: Turn(fault="hang"), "timed out"),
        (None, "onnection error"),
    ],
    ids=["500", "502", "529", "dropped", "silent", "no one there"],
)
def test_a_provider_that_is_away_shows_at_once(real: RealWorld, fault: Callable[[], Turn] | None, said: str) -> None:
    """Before a session of the run has worked it may be the network or a setting."""
    if fault is None:
        real.server.go_away()
    else:
        real.plays([fault()])
    ended = real.run("--retries", "0", "--retry-wait", "0.2s")
    assert ended.returncode == 1, ended.stdout
    gate = real.records("gate_opened")[-1]["message"]
    assert "could not be reached 3 times in a row" in gate
    assert said in gate
    assert {(record["ending"], record["outage"]) for record in real.records("session_ended")} == {("refused", True)}


@pytest.mark.parametrize("mode", ["tui", "stream"])
def test_a_night_without_network_is_waited_out(real: RealWorld, mode: str) -> None:
    answers = coding_agent(real.task)

    def until_planned(request: Request) -> Turn:
        if request.heading and request.heading[0] == "implement" and not real.records("wait_started"):
            threading.Thread(target=real.server.go_away).start()
            return Turn("Half a", fault="drop")
        return answers(request)

    real.plays(until_planned)
    terminal = real.terminal("--mode", mode, "--auto-approve", "--retries", "0", "--retry-wait", "0.2s")

    def waited() -> bool:
        terminal._read(0.02)
        journal = real.task / ".marathon" / "journal.jsonl"
        return journal.exists() and len(real.records("wait_started")) > 4

    try:
        terminal.resize(40, 120)
        until(waited, "more tries than retries are allowed", 120)
        assert re.search(r"cannot be reached .*trying again at [\d:]+", real.cli("status", "task").stdout)
        real.server.come_back()
        assert terminal.wait() == 0
    finally:
        terminal.close()
    assert {record["kind"] for record in real.records("wait_started")} == {"outage"}
    assert [record["reason"] for record in real.records("gate_opened")] == ["review", "review"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (wrong_key, "Incorrect API key"),
        (quota_used_up, "quota"),
        (lambda: refused(404, "No such model", "model_not_found"), "No such model"),
    ],
    ids=["wrong key", "quota", "wrong model"],
)
def test_what_trying_again_cannot_mend_is_a_gate_at_once(real: RealWorld, fault: Callable[[], Turn], said: str) -> None:
    real.plays([fault()])
    ended = real.run()
    assert ended.returncode == 1, ended.stdout
    assert said in real.records("gate_opened")[-1]["message"]
    assert len(real.records("session_ended")) == 1


def test_a_stated_reset_is_waited_for_and_enter_tries_again_now(real: RealWorld) -> None:
    limited = Turn(
        status=429, body={"error": {"message": "Usage limit", "type": "usage_limit", "resets_in_seconds": 1800}}
    )
    real.plays([limited])
    terminal = real.stream()
    try:
        terminal.expect(b"Usage limit")
        terminal.expect(b"Enter go on now")
        assert real.records("wait_started")[-1]["seconds"] == pytest.approx(1800, abs=60)
        seen = len(real.server.requests)
        terminal.send(b"\r")
        until(lambda: len(real.server.requests) > seen, "pi asks again")
    finally:
        terminal.close()


def test_text_about_errors_in_what_the_agent_says_or_reads_is_no_error(real: RealWorld) -> None:
    said = Turn("429: rate limited, invalid_api_key, please wait", tools=[bash("echo '500 insufficient_quota'; false")])
    real.plays(by_phase({"research": [[said, Turn("The error is 401.")]]}))
    ended = real.run("--max-iterations", "1")
    assert ended.returncode == 4, ended.stdout
    assert real.records("session_ended")[0]["ending"] == "ended"


def test_a_hanging_provider_meets_the_session_timeout(real: RealWorld) -> None:
    real.plays([Turn("Half a", fault="hang_midway")])
    ended = real.run("--session-timeout", "2s", "--retries", "0")
    assert ended.returncode == 1, ended.stdout
    assert real.records("session_ended")[0]["ending"] == "timeout"


def test_pi_killed_in_a_session_is_followed_by_a_new_pi(real: RealWorld) -> None:
    hold = threading.Event()
    real.plays([Turn("Working", tools=[bash("true")], hold=hold)])
    runner = real.start(*QUICK)
    try:
        until(lambda: real.server.requests, "pi asks the model")
        pids = pis(real)
        assert pids, [p for p in tree.everyone() if "pi" in tree.command_of(p)]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        until(lambda: len(real.server.requests) > 1, "a new pi asks")
        assert not set(pis(real)) & set(pids)
    finally:
        hold.set()
        runner.kill()
        runner.communicate()
    assert "signal 9" in real.records("session_ended")[0]["cause"]


BROKEN = 'export default function () { throw new Error("broken by hand"); }\n'
SAME_TOOL = """
import { Type } from "typebox";
export default function (pi: any) {
  pi.registerTool({
    name: "human_feedback", label: "Ask", description: "Asks.", parameters: Type.Object({}),
    async execute() { return { content: [], details: {} }; },
  });
}
"""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (BROKEN, "pi cannot load the extension {}: broken by hand. Fix it or move it away"),
        (SAME_TOOL, "{} also registers the tool human_feedback of pi-marathon. Move that file away"),
    ],
    ids=["broken", "our tool"],
)
def test_an_extension_that_keeps_pi_from_starting_is_named_before_the_first_session(
    real: RealWorld, source: str, said: str
) -> None:
    path = real.extension("theirs.ts", source)
    ended = real.run()
    assert ended.returncode == 1, ended.stdout
    assert said.format(path) in ended.stderr
    assert not (real.task / ".marathon").exists()
    if source == SAME_TOOL:  # the other cure that is named
        assert real.run("--auto-approve", "--max-iterations", "1", "--", "--no-extensions").returncode == 4


@pytest.mark.parametrize("mode", ["tui", "stream"])
def test_an_extension_that_breaks_later_is_a_gate_at_once(real: RealWorld, mode: str) -> None:
    """The agent spoils the next start of pi and kills this one."""
    path = real.extension("theirs.ts", "export default function () {}\n")
    real.plays([Turn("I change it.", tools=[bash(f"echo '{BROKEN.strip()}' > {path}; kill -9 $PPID")])])
    terminal = real.terminal("--mode", mode, "--retry-wait", "0.2s")
    try:
        terminal.resize(40, 120)
        terminal.expect(b"[q]      Quit marathon")
        terminal.send(b"q")
        assert terminal.wait() == 3
    finally:
        terminal.close()
    assert [record["ending"] for record in real.records("session_ended")] == ["crashed", "crashed"]
    assert f"cannot load the extension {path}: broken by hand" in real.records("gate_opened")[-1]["message"]


def test_missing_pi_no_login_and_old_pi_are_said_before_the_first_session(real: RealWorld) -> None:
    missing = real.cli(*real.task_args(), MARATHON_PI="/nonexistent/pi")
    assert (missing.returncode, "MARATHON_PI" in missing.stderr) == (1, True)
    (real.pi.agent_folder / "models.json").unlink()
    no_login = real.run()
    assert (no_login.returncode, "/login" in no_login.stderr) == (1, True)
    old = real.project / "old-pi"
    old.write_text("#!/bin/sh\necho 0.60.1\n")
    old.chmod(0o755)
    too_old = real.cli(*real.task_args(), MARATHON_PI=str(old))
    assert (too_old.returncode, "0.60.1" in too_old.stderr) == (1, True)
    assert not (real.task / ".marathon").exists()
