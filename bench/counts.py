"""How often everything is measured: in full, or just often enough to see that it works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    starts: int  # of each command
    lists: int  # of each length
    blocks: int  # the runner, the bash loop and the durable writes take turns
    sessions: int  # of a block
    writes: int  # durable ones of a block
    warm_up: int  # sessions before memory is looked at first
    marathon: int  # sessions until it is looked at last
    tasks: int  # in the long list
    pi_marathon: int  # sessions with the real pi, for the runner's share
    pi_blocks: int  # marathons with it and fresh starts of it take turns
    pi_sessions: int  # of a block
    pi_fresh: int  # starts of a block
    flood: int  # MB of its events
    checks: int  # commands of one `check`
    check_rounds: int


FULL = Counts(
    starts=31,
    lists=15,
    blocks=15,
    sessions=11,
    writes=20,
    warm_up=50,
    marathon=1000,
    tasks=1000,
    pi_marathon=30,
    pi_blocks=4,
    pi_sessions=9,
    pi_fresh=6,
    flood=100,
    checks=100,
    check_rounds=7,
)
QUICK = Counts(
    starts=2,
    lists=2,
    blocks=1,
    sessions=5,
    writes=5,
    warm_up=3,
    marathon=8,
    tasks=20,
    pi_marathon=4,
    pi_blocks=1,
    pi_sessions=4,
    pi_fresh=1,
    flood=4,
    checks=5,
    check_rounds=1,
)
