"""How much of a marathon's wall time with the real pi is the runner's own."""

from __future__ import annotations

from bench.counts import Counts
from bench.pi_world import PiWorld, installed
from bench.row import Row, Target
from bench.scratch import Scratch

SHARE = 3  # per cent
_PAUSE = 0.6  # a turn; a session has three

NOTE = (
    "pi's share: wall time of a whole marathon in stream mode, less the seconds its sessions took (as in"
    " iterations/*.json: the first holds pi's start, each other one pi's new_session), less `pi --version` and"
    " `pi --list-models` before the first one. What is left is counted as the runner's: Python's start, journal,"
    " prompts, sweeping, git status, letting go of pi."
)


def measure(scratch: Scratch, counts: Counts) -> list[Row]:
    pi = installed(scratch)
    if pi is None:
        return []
    with PiWorld(scratch, "pi-share", pi, counts.pi_marathon, _PAUSE) as world:
        total = world.marathon()
        sessions, asked = world.seconds_in_sessions(), world.seconds_asked()
    if len(sessions) != counts.pi_marathon:
        raise RuntimeError(f"{len(sessions)} sessions instead of {counts.pi_marathon}")
    own = total - sum(sessions) - asked
    scratch.notes.append(NOTE)
    about = f"{len(sessions)} sessions of {sum(sessions) / len(sessions):.1f} s"
    return [
        Row("the runner's share, with pi", 100 * own / total, "%", 100, about, Target("value", SHARE)),
        Row("the same, in seconds", own, "s", total, "the whole marathon"),
        Row("pi's answers before the first session", asked, "s", total, "the whole marathon"),
    ]
