"""Messages of a program over ACP that are not as the protocol says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from marathon.agents.acp_reading import Reading, failure_in, request_of, tool_called
from marathon.agents.permissions import allows


@pytest.mark.parametrize("odd", [5, "text", ["text", 7, None], {"path": "a"}])
def test_lists_of_another_form_are_empty(odd: Any, tmp_path: Path) -> None:
    call = {"id": "1", "kind": "edit", "locations": odd, "content": odd}
    assert request_of(call, tmp_path).paths == ()
    assert tool_called(call).arguments == {}
    done = {"sessionUpdate": "tool_call", "toolCallId": "1", "status": "completed", "content": odd}
    assert len(list(Reading().events(done))) == 2
    (used,) = Reading().end({"_meta": {"quota": {"model_usage": odd}}}, sums=True)
    assert used


def test_a_path_that_no_file_can_have_is_read(tmp_path: Path) -> None:
    request = request_of({"kind": "edit", "locations": [{"path": "/etc/a\0b"}]}, tmp_path)
    assert not allows(request, (str(tmp_path),))


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
