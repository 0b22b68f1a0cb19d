"""Output of any size and shape passes through in bounded memory and without a deadlock."""

from __future__ import annotations

import resource
import time

from tests.process.driver import Session

MEGABYTE = 1 << 20


def flood(session: Session, script: str) -> tuple[int, int]:
    """Bytes and pieces seen."""
    seen = [0, 0]

    def count(line: bytes) -> None:
        seen[0] += len(line)
        seen[1] += 1

    session.on_line = count
    session.keep = False
    assert session.sh(script, timeout=120.0).exit.code == 0
    return seen[0], seen[1]


def test_a_line_of_two_hundred_megabytes_needs_no_memory(session: Session) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size, pieces = flood(session, "head -c 200M /dev/zero")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert (size, pieces) == (200 * MEGABYTE, 200 * MEGABYTE // 65536)
    assert grown < 30


def test_a_hundred_megabytes_on_stderr_beside_a_quiet_stdout(session: Session) -> None:
    size, _ = flood(session, "yes 'a line of some length that is repeated' | head -c 100M >&2")
    assert size > 95 * MEGABYTE


def test_both_streams_at_once_do_not_block_each_other(session: Session) -> None:
    size, _ = flood(session, "head -c 20M /dev/zero & head -c 20M /dev/zero >&2; wait")
    assert size == 40 * MEGABYTE


def test_a_flood_does_not_keep_the_clock_from_being_looked_at(session: Session) -> None:
    session.keep = False
    started = time.monotonic()
    ran = session.sh("yes", timeout=0.3, grace=1.0)
    assert ran.exit.reason == "timeout"
    assert time.monotonic() - started < 15


def test_garbage_arrives_as_it_is(session: Session) -> None:
    ran = session.sh(r"printf 'a\000b\377\n\033[2Jc\n'; printf half")
    assert ran.text() == b"a\0b\xff\n\x1b[2Jc\nhalf"
