"""Counts what happens again and again, so that a marathon that makes no progress stops.

Streaks count errors in a row. A history shows which files change back and forth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from marathon.core.records import Checked, SessionEnded
from marathon.core.text import one_line

FAILED = ("crashed", "refused", "timeout")  # tried again a few times
# A session with one of these endings did not come to its own end, so its prompt is sent again.
CUT_SHORT = (*FAILED, "interrupted", "stopped", "lost", "limit")
WARN_FROM_ROUND = 4
LONGEST_HISTORY = 32  # contents of one file
MOST_FILES = 200

_HEX = re.compile(r"\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)[0-9a-f]{7,}\b", re.I)
_PATH = re.compile(r"(?:~|\.{1,2})?(?:/[\w.@+-]+)+/?|\b[\w.@+-]+(?:/[\w.@+-]+)+")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


class Streaks(NamedTuple):
    """How often in a row something went wrong. A good session or an answer of the human resets the counts."""

    failed: int = 0
    outages: int = 0  # tries that are waited out: the network or the provider was away, or a limit has a reset,
    away: float = 0  # and the seconds that took, waits included; of a reset that was told, a part
    without_output: int = 0
    invalid: int = 0
    idle: int = 0
    error: str = ""  # the signature of the last error
    error_at: tuple[int, ...] = ()  # the sessions that ended with this error, without another error in between
    unmet: tuple[str, ...] = ()  # the criteria that were not met
    unmet_times: int = 0  # how often in a row these criteria were not met


def signature(place: str, message: str) -> str:
    """An error without the parts that differ each time, such as numbers, addresses and paths."""
    text = _NUMBER.sub("N", _PATH.sub("PATH", _HEX.sub("N", message[-4000:])))
    return f"{place}: {' '.join(text.split())[:400]}"


def is_waited_out(ended: SessionEnded) -> bool:
    """The network or the provider was away, or it told when its limit resets. That is no failure of the work."""
    return ended.outage or (ended.ending in FAILED and bool(ended.retry_after))


def claims_end(ended: SessionEnded, phase: str) -> bool:
    return ended.proposal is not None and (ended.proposal.state, ended.proposal.phase) != ("running", phase)


def after_session(before: Streaks, ended: SessionEnded, phase: str, iteration: int) -> Streaks:
    if is_waited_out(ended):
        return before._replace(outages=before.outages + 1, away=before.away + ended.seconds)
    if ended.ending in FAILED:
        failed = before._replace(failed=before.failed + 1, outages=0, away=0)
        return _with_error(failed, signature(f"session in {phase}", ended.cause or ended.ending), iteration)
    if ended.ending in CUT_SHORT:
        return before
    waits = ended.wait is not None or ended.question is not None
    without_output = claims_end(ended, phase) and ended.output != "fresh"
    return before._replace(
        failed=0,
        outages=0,
        away=0,
        without_output=before.without_output + 1 if without_output else 0,
        invalid=before.invalid + 1 if ended.invalid else 0,
        idle=0 if ended.changed or waits else before.idle + 1,
    )


def after_checks(before: Streaks, checked: Checked, iteration: int) -> Streaks:
    unmet = tuple(sorted(result.name for result in checked.results if not result.met))
    if unmet == before.unmet:
        now = before._replace(unmet_times=before.unmet_times + 1)
    else:  # this is progress, even if no file changed
        now = before._replace(unmet=unmet, unmet_times=1, idle=0)
    failing = next((result for result in checked.results if result.command and not result.met), None)
    if failing is None:
        return now
    return _with_error(now, signature(f"check {failing.name}", f"{failing.reason} {failing.tail}"), iteration)


def _with_error(before: Streaks, error: str, iteration: int) -> Streaks:
    same = before.error_at if error == before.error else ()
    return before._replace(error=error, error_at=(*same, iteration))


# Each file with the digests of its contents, oldest first.
History = tuple[tuple[str, tuple[str, ...]], ...]


def remember(before: History, files: Mapping[str, str]) -> History:
    """The history with the contents that a session left."""
    known = dict(before)
    for path, digest in files.items():
        contents = known.pop(path, ())  # the file that changed last stands last
        known[path] = contents if contents[-1:] == (digest,) else (*contents, digest)[-LONGEST_HISTORY:]
    return tuple(known.items())[-MOST_FILES:]


def begun_anew(history: History) -> History:
    """Only the present contents of each file. Earlier changes no longer count."""
    return tuple((path, contents[-1:]) for path, contents in history)


def last_contents(history: History) -> set[tuple[str, str]]:
    """Each file with the contents that a session last left in it."""
    return {(path, contents[-1]) for path, contents in history if contents}


def returns(contents: tuple[str, ...]) -> int:
    """How often in a row, up to now, a file returned to its contents of two changes before."""
    count = 0
    for now in range(len(contents) - 1, 1, -1):
        if contents[now] != contents[now - 2]:
            break
        count += 1
    return count


def circles(history: History, allowed: int) -> str | None:
    """A sentence that names the files that changed back and forth too often."""
    files = [path for path, contents in history if allowed and returns(contents) >= allowed]
    if not files:
        return None
    named = ", ".join(one_line(name, 100) for name in files[:3])
    return f"Rewritten back and forth between the same two contents: {named}."
