"""How often in a row something went wrong, folded from the ends of sessions and the results of checks."""

from __future__ import annotations

from typing import NamedTuple

from marathon.core.breakers import signature
from marathon.core.records import Checked, SessionEnded

# Endings after which the same prompt is owed once more: the session did not come to its own end.
CUT_SHORT = ("crashed", "timeout", "interrupted", "stopped", "lost")


class Streaks(NamedTuple):
    """How often in a row something went wrong; a good session or a human's word sets them back."""

    failed: int = 0
    without_output: int = 0
    invalid: int = 0
    idle: int = 0
    error: str = ""  # the last error, without what differs from time to time,
    error_at: tuple[int, ...] = ()  # and the sessions it came in, until another one comes between
    unmet: tuple[str, ...] = ()  # the criteria that were not met,
    unmet_times: int = 0  # so often in a row


def claims_end(ended: SessionEnded, phase: str) -> bool:
    return ended.proposal is not None and (ended.proposal.state, ended.proposal.phase) != ("running", phase)


def after_session(before: Streaks, ended: SessionEnded, phase: str, iteration: int) -> Streaks:
    if ended.ending in ("crashed", "timeout"):
        failed = before._replace(failed=before.failed + 1)
        return _with_error(failed, signature(f"session in {phase}", ended.cause or ended.ending), iteration)
    if ended.ending in CUT_SHORT:
        return before
    waits = ended.wait is not None or ended.question is not None
    over = claims_end(ended, phase)
    return before._replace(
        failed=0,
        without_output=before.without_output + 1 if over and ended.output != "fresh" else 0,
        invalid=before.invalid + 1 if ended.invalid else 0,
        idle=0 if ended.changed or waits else before.idle + 1,
    )


def _with_error(before: Streaks, error: str, iteration: int) -> Streaks:
    same = before.error_at if error == before.error else ()
    return before._replace(error=error, error_at=(*same, iteration))


def after_checks(before: Streaks, checked: Checked, iteration: int) -> Streaks:
    unmet = tuple(sorted(result.name for result in checked.results if not result.met))
    same = unmet == before.unmet
    now = before._replace(unmet=unmet, unmet_times=before.unmet_times + 1 if same else 1)
    if not same:  # that is progress, whatever else was done
        now = now._replace(idle=0)
    failing = next((result for result in checked.results if result.command and not result.met), None)
    if failing is None:
        return now
    return _with_error(now, signature(f"check {failing.name}", f"{failing.reason} {failing.tail}"), iteration)
