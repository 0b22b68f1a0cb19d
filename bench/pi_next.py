"""How soon pi asks the model again after a session, in stream mode, against a pi that is started anew."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from bench.counts import Counts
from bench.pi_world import Answered, PiWorld, installed
from bench.row import Row, Target
from bench.scratch import Scratch

AT_MOST = 0.5
NOTE = (
    "pi's next request: from the last byte of a session's last answer to the next session's first request, seen by the"
    " model; a fresh `pi -p` with the same extension: from its start to its first request. They take turns."
)


def measure(scratch: Scratch, counts: Counts) -> list[Row]:
    pi = installed(scratch)
    if pi is None:
        return []
    gaps: list[float] = []
    fresh: list[float] = []
    for block in range(counts.pi_blocks):
        with PiWorld(scratch, f"pi-next-{block}", pi, counts.pi_sessions) as world:
            fresh += [world.fresh_pi() for _ in range(counts.pi_fresh)]
            world.marathon()
            gaps += _between_sessions(world.model.answered)
    scratch.notes.append(NOTE)
    value, baseline = (1000 * median(seconds) for seconds in (gaps, fresh))
    return [Row("pi's next request", value, "ms", baseline, "a fresh pi -p", Target("ratio", AT_MOST))]


def _between_sessions(answered: list[Answered]) -> list[float]:
    inside = [answer for answer in answered if answer.session]
    return [after.came - before.done for before, after in pairwise(inside) if after.session != before.session]
