"""How a session in pi's own interface ended: the extension's mark tells, and the exit status only without it."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from marathon.agents.pi.tui import tui_outcome
from marathon.process.start import Exit, Reason

MARK: dict[str, object] = {"sessionEnded": True, "stopReason": "stop"}
LIMITED = '429: {"message":"Slow down","code":"rate_limit_exceeded","resets_in_seconds":30}'


def exited(code: int | None = 0, signum: int | None = None, reason: Reason = "exited") -> Exit:
    return Exit(code=code, signal=signum, reason=reason, swept=0, seconds=12.5)


@pytest.mark.parametrize(
    "exit",
    [exited(0), exited(1), exited(143), exited(None, signal.SIGTERM), exited(None, signal.SIGKILL)],
    ids=["0", "1", "143", "TERM", "KILL"],
)
def test_with_the_mark_it_ended_well_however_pi_exits(exit: Exit) -> None:
    outcome = tui_outcome(exit, MARK)
    assert (outcome.ending, outcome.stop_reason, outcome.seconds) == ("ended", "stop", 12.5)


@pytest.mark.parametrize(
    ("exit", "ending"),
    [
        (exited(0), "left"),
        (exited(None, signal.SIGINT), "left"),
        (exited(None, signal.SIGTERM), "left"),
        (exited(None, signal.SIGHUP), "left"),
        (exited(1), "crashed"),
        (exited(130), "crashed"),
        (exited(None, signal.SIGKILL), "crashed"),
        (exited(None, signal.SIGSEGV), "crashed"),
        (exited(None, None), "crashed"),
    ],
)
@pytest.mark.parametrize("mail", [{}, {"sessionEnded": False}, {"sessionEnded": None}, {"sessionEnded": "true"}])
def test_without_the_mark_a_closed_pi_was_left_and_a_broken_one_crashed(
    exit: Exit, ending: str, mail: dict[str, object]
) -> None:
    outcome = tui_outcome(exit, mail)
    assert (outcome.ending, outcome.seconds) == (ending, 12.5)
    assert not outcome.permanent


def test_a_crash_names_the_signal_or_the_code() -> None:
    assert "signal 9" in tui_outcome(exited(None, signal.SIGKILL), {}).cause
    assert "exit code 3" in tui_outcome(exited(3), {}).cause


@pytest.mark.parametrize(
    ("reason", "ending", "cause"),
    [
        ("timeout", "timeout", "timed out"),
        ("stopped", "stopped", "on request"),
        ("interrupted", "interrupted", "SIGINT"),
        ("terminated", "interrupted", "SIGTERM"),
        ("hungup", "interrupted", "SIGHUP"),
    ],
)
@pytest.mark.parametrize("mail", [{}, MARK])
def test_what_the_runner_ended_is_the_runners_doing_even_with_the_mark(
    reason: Reason, ending: str, cause: str, mail: dict[str, object]
) -> None:
    outcome = tui_outcome(exited(None, signal.SIGTERM, reason), mail)
    assert outcome.ending == ending
    assert cause in outcome.cause


def test_an_error_under_the_mark_is_judged_as_in_stream_mode() -> None:
    limited = tui_outcome(exited(0), {**MARK, "stopReason": "error", "errorMessage": LIMITED})
    assert (limited.ending, limited.cause, limited.seconds) == ("refused", "429: Slow down", 12.5)
    assert (limited.retry_after, limited.permanent) == (30, False)
    refused = tui_outcome(exited(0), {**MARK, "stopReason": "error", "errorMessage": '401: {"message":"Wrong key"}'})
    assert (refused.ending, refused.permanent) == ("refused", True)
    silent = tui_outcome(exited(0), {**MARK, "stopReason": "error"})
    assert (silent.ending, silent.permanent) == ("refused", False)


def test_an_error_message_without_an_error_is_none() -> None:
    outcome = tui_outcome(exited(0), {**MARK, "errorMessage": '401: {"message":"Wrong key"}'})
    assert (outcome.ending, outcome.permanent) == ("ended", False)


@pytest.mark.parametrize("exit", [exited(0), exited(1)])
@pytest.mark.parametrize("mail", [{}, MARK, {**MARK, "stopReason": "error", "errorMessage": "Request was aborted"}])
def test_a_budget_that_the_extension_found_used_up_is_a_limit(exit: Exit, mail: dict[str, object]) -> None:
    outcome = tui_outcome(exit, {**mail, "limit": "--max-cost"})
    assert (outcome.ending, outcome.cause) == ("limit", "--max-cost is used up")


@pytest.mark.parametrize("limit", [None, True, 7, "", "--yes", ["--max-cost"], {}])
def test_what_is_no_budget_is_no_limit(limit: Any) -> None:
    assert tui_outcome(exited(0), {**MARK, "limit": limit}).ending == "ended"


@pytest.mark.parametrize("reason", [None, 7, ["error"], {"error": 1}])
def test_a_stop_reason_that_is_no_text_harms_nothing(reason: Any) -> None:
    assert tui_outcome(exited(0), {**MARK, "stopReason": reason}).ending == "ended"
