"""What differs among programs that speak ACP, with the small one of ours."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.agents.conformance.adapters import ADAPTERS, ModelWorld
from tests.agents.conformance.test_conformance import first_wait, research
from tests.real.model_server import Turn, bash, by_phase


@pytest.fixture
def acp(tmp_path: Path) -> Iterator[ModelWorld]:
    world = ModelWorld(tmp_path / "world", ADAPTERS["acp"])
    yield world
    world.close()


@pytest.mark.parametrize(("lacks", "kept"), [("", True), ("close", False)])
def test_a_program_is_kept_if_it_can_close_a_session(acp: ModelWorld, lacks: str, kept: bool) -> None:
    acp.extra |= {"ACP_LACKS": lacks}
    acp.plays(by_phase({"research": [research(acp, state="running"), research(acp)]}))
    assert acp.run().returncode == 3
    first, second = (each["sessionId"] for each in acp.records("session_ended"))
    assert (first != second) is kept, "a process counts its own sessions"


@pytest.mark.parametrize(
    ("said", "kind", "seconds"),
    [("Your limit resets in 2 hours.", "retry", 7200), ("connect ECONNREFUSED 127.0.0.1:443", "outage", 2)],
)
def test_a_program_that_dies_of_a_limit_is_waited_for(acp: ModelWorld, said: str, kind: str, seconds: int) -> None:
    acp.adapter = replace(acp.adapter, args=("sh", "-c", f"echo '{said}' >&2; exit 1"))
    wait = first_wait(acp)
    assert (wait["kind"], wait["seconds"]) == (kind, seconds)


def test_only_y_and_n_answer_a_question_and_other_words_are_kept(acp: ModelWorld) -> None:
    acp.more = ()
    acp.plays(by_phase({"research": [research(acp, Turn(tools=[bash("git push; touch pushed")]))]}))
    terminal = acp.terminal()
    try:
        began = time.monotonic()
        terminal.expect(b"May acp do this: git push", 60)
        terminal.expect(b"\x1b]9;task waits for your yes or no", 10)
        for words in (b"mind the cache\r", b"\r"):
            terminal.send(words)
            terminal.expect(b"May acp do this: git push", 10)
            assert not (acp.project / "pushed").exists()
        time.sleep(2)
        terminal.send(b"y\r")
        terminal.expect(b"[q]      Quit marathon", 60)
        total = time.monotonic() - began
        terminal.send(b"q")
        assert terminal.wait() == 3
    finally:
        terminal.close()
    assert (acp.project / "pushed").exists()
    (ended,) = acp.records("session_ended")
    assert (ended["denied"], len(ended["steered"])) == ("", 1)
    assert ended["seconds"] < total - 2, "the session's clock stood still"
    assert "mind the cache" in acp.texts()


def test_a_turn_that_ended_early_is_told(acp: ModelWorld) -> None:
    acp.extra |= {"ACP_LACKS": "room"}
    assert "The agent's turn ended early: max_tokens." in acp.run().stdout


def test_a_program_of_another_version_of_the_protocol_is_refused(acp: ModelWorld) -> None:
    acp.extra |= {"ACP_LACKS": "version"}
    ended = acp.run()
    assert ended.returncode == 1
    assert "speaks version 2 of the Agent Client Protocol, and we speak 1." in ended.stdout
    assert len(acp.records("session_ended")) == 1


def test_a_program_that_cannot_write_beside_a_worktree_is_refused_before_it_is_made(acp: ModelWorld) -> None:
    acp.on_path("codex-acp", ["true"])
    acp.adapter, acp.more = replace(acp.adapter, args=("codex-acp",)), ()
    ran = acp.run("--worktree")
    assert ran.returncode == 2
    assert "codex-acp writes only below the folder it works in" in ran.stderr
    assert not (acp.task / ".marathon").exists()


def test_an_agent_that_is_refused_again_and_again_comes_to_an_end(acp: ModelWorld) -> None:
    acp.more, acp.extra = (), {**acp.extra, "ACP_LACKS": "go_on"}
    acp.plays(lambda request: Turn(tools=[bash("git push")]))
    ended = acp.run("--breaker", "no-progress=1")
    assert ended.returncode == 5, ended.stdout
    assert "acp was not allowed to: git push" in ended.stdout
    assert len(acp.server.requests) == 11
