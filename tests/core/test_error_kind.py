"""The table of errors: transient, logic, blocking, unknown."""

from __future__ import annotations

import pytest

from marathon.core.error_kind import Kind, is_blocking, kind_of_check


@pytest.mark.parametrize(
    ("code", "timed_out", "started", "output", "kind"),
    [
        (1, False, True, "E  assert 1 == 2", "logic"),
        (2, False, True, "ConnectionRefusedError: [Errno 111] Connection refused", "logic"),
        (1, False, True, "ModuleNotFoundError: No module named 'mine'", "logic"),
        (None, True, True, "", "transient"),
        (6, False, True, "curl: (6) Could not resolve host: example", "transient"),
        (1, False, True, "npm error code EAI_AGAIN", "transient"),
        (127, False, True, "sh: 1: pytest: not found", "blocking"),
        (126, False, True, "sh: 1: ./x: Permission denied", "blocking"),
        (None, False, False, "", "blocking"),
        (None, False, True, "", "unknown"),
    ],
)
def test_a_failed_check_is_one_of_four_kinds(
    code: int | None, timed_out: bool, started: bool, output: str, kind: Kind
) -> None:
    assert kind_of_check(code=code, timed_out=timed_out, started=started, output=output) == kind


@pytest.mark.parametrize(
    ("code", "said", "blocking"),
    [
        (1, "sh: claude: command not found", True),
        (127, "", True),
        (1, "cp: cannot create x: No space left on device", True),
        (1, "Error: Cannot find module 'left-pad'", True),
        (1, "HTTP 503 Service Unavailable", False),
        (1, "", False),
        (None, "Killed", False),
    ],
)
def test_an_agent_that_ended_badly_may_have_said_that_trying_again_is_useless(
    code: int | None, said: str, blocking: bool
) -> None:
    assert is_blocking(code, said) is blocking
