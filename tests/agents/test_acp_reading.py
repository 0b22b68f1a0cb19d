"""Messages of a program over ACP that are not as the protocol says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from marathon.agents.acp import AcpAgent
from marathon.agents.acp_reading import Reading, denials, failure_in, request_of, tool_called
from marathon.agents.permissions import Request, allows


@pytest.mark.parametrize("odd", [5, "text", ["text", 7, None], {"path": "a"}])
def test_lists_of_another_form_are_empty(odd: Any, tmp_path: Path) -> None:
    call = {"id": "1", "kind": "edit", "locations": odd, "content": odd}
    assert request_of(call, tmp_path).paths == ()
    assert tool_called(call).arguments == {}
    done = {"sessionUpdate": "tool_call", "toolCallId": "1", "status": "completed", "content": odd}
    assert len(list(Reading().events(done))) == 2
    (used,) = Reading().end({"_meta": {"quota": {"model_usage": odd}}}, sums=True)
    assert used


def test_geminis_note_of_its_mode_is_no_answer() -> None:
    reading = Reading()
    notes = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "[MODE_UPDATE] autoEdit"}}
    assert list(reading.events(notes)) == []
    assert reading.said == ""


def test_a_command_may_be_allowed_before_and_behind_the_arguments_of_a_known_program() -> None:
    gemini = AcpAgent("gemini", ("-m", "flash", "--allow", "git push", "--debug", "--allow", "pytest"))
    assert gemini.argv == ("gemini", "--acp", "--skip-trust", "-m", "flash", "--debug")
    assert gemini.allowed[-2:] == ("git push", "pytest")
    own = AcpAgent("acp", ("--allow", "git push", "my-agent", "--allow", "its own"))
    assert (own.argv, own.allowed[-1]) == (("my-agent", "--allow", "its own"), "git push")
    cure = denials("acp", [Request("execute", command="npm test")], own.tail)
    assert cure.endswith("-- --allow 'npm test' my-agent --allow 'its own'")


def test_a_path_that_no_file_can_have_is_read(tmp_path: Path) -> None:
    request = request_of({"kind": "edit", "locations": [{"path": "/etc/a\0b"}]}, tmp_path)
    assert not allows(request, (str(tmp_path),))


@pytest.mark.parametrize(
    ("error", "kind", "waits"),
    [
        # codex-acp 2.6, gemini 0.61, claude-agent-acp 0.99, opencode 1.18
        (
            {"data": {"message": "Your limit resets in 5 hours.", "codexErrorInfo": "usageLimitExceeded"}},
            "limit",
            18000,
        ),
        ({"code": 429, "message": "You have exhausted your daily quota on this model."}, "limit", None),
        (
            {"message": "Internal error: Limit reached. Try again in 20s.", "data": {"errorKind": "rate_limit"}},
            "limit",
            20,
        ),
        ({"code": 400, "message": "API key not valid. Please pass a valid API key."}, "login", None),
        ({"code": -32000, "message": "Authentication required"}, "login", None),
        ({"message": "User not found.", "data": {"errorName": "APIError"}}, "login", None),
    ],
)
def test_limits_and_logins_as_each_agent_tells_them(error: dict[str, Any], kind: str, waits: float | None) -> None:
    found = failure_in({"code": -32603, "message": "Internal error", **error})
    assert found.kind == kind
    if waits is not None:
        assert found.retry_after == waits
    assert bool(found.retry_after) is (kind == "limit"), "also for a day"


@pytest.mark.parametrize(
    ("error", "outage"),
    [
        ({"code": 503, "message": "The model is overloaded"}, True),
        ({"code": -32603, "message": "Internal error", "data": {"details": "TypeError: fetch failed"}}, True),
        ({"code": -32603, "message": "Internal error: connect ECONNREFUSED 127.0.0.1:443"}, True),
        ({"code": -32603, "message": "Internal error", "data": {"errorKind": "overloaded"}}, True),
        ({"code": 429, "message": "The server is overloaded"}, False),
        ({"code": -32603, "message": "Internal error"}, False),
    ],
)
def test_an_outage_is_told_from_other_errors(error: dict[str, Any], outage: bool) -> None:
    assert (failure_in(error).kind == "outage") is outage
