"""Messages of a program over ACP that are not as the protocol says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from marathon.agents.acp_reading import Reading, request_of, tool_called
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
