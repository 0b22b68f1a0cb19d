"""Measured loops: how often a change that brings nothing is kept, and how fast a long loop is read again."""

from __future__ import annotations

import math
import random
import shlex
import shutil
import time
from collections.abc import Callable
from statistics import median

from bench.row import Row
from bench.scratch import AGENTS, MARATHON, Scratch
from marathon.core.lanes import model
from marathon.core.lanes.noise import CONFIRM_SAMPLES, SCREEN_SAMPLES, confirmed, screened
from marathon.core.lanes.rules import rebuilt

Noise = Callable[[random.Random], float]


def _gaussian(rng: random.Random) -> float:
    return rng.gauss(0, 1)


def _heavy_tailed(rng: random.Random) -> float:
    """As times are: most runs alike, some slower, a few very slow. Scaled to a standard deviation of 1."""
    return math.exp(rng.gauss(0, 0.75)) / 1.152


NOISES: dict[str, Noise] = {"gaussian": _gaussian, "heavy-tailed": _heavy_tailed}


def kept_of(noise: str, sigmas: float, candidates: int, rng: random.Random) -> float:
    """The share of candidates with a gain of so many standard deviations that the runner would keep."""
    draw = NOISES[noise]

    def sample(count: int, gain: float = 0) -> list[float]:
        return [100 + draw(rng) - gain for _ in range(count)]

    kept = 0
    for _ in range(candidates):
        reference = median(sample(CONFIRM_SAMPLES))
        if screened(sample(SCREEN_SAMPLES, sigmas), reference, "lower"):
            kept += confirmed(sample(CONFIRM_SAMPLES, sigmas), sample(CONFIRM_SAMPLES), "lower")
    return kept / candidates


def loops(scratch: Scratch) -> list[Row]:
    candidates = scratch.count(20_000, 500)
    rows = []
    for noise in NOISES:
        about = f"{candidates} candidates, {noise} noise"
        false = kept_of(noise, 0, candidates, random.Random(14))
        missed = 1 - kept_of(noise, 3, candidates, random.Random(41))
        rows += [
            Row(f"kept without a gain ({noise})", 100 * false, "%", 2, about),
            Row(f"missed gains of 3 sigma ({noise})", 100 * missed, "%", 10, about),
        ]
    return [*rows, _reading(scratch.count(10_000, 200)), _overhead(scratch)]


def _overhead(scratch: Scratch) -> Row:
    """From the end of a session to the begin of the next one, without the time that verify itself takes."""
    count, times = scratch.count(12, 3), scratch.project / "times"
    project = scratch.project / "loop"
    project.mkdir()
    (project / "speed").write_text("100\n")
    lane = shlex.join(["bash", str(AGENTS / "lane.sh")])
    identity = "-c user.name=bench -c user.email=bench@localhost"
    git = f"git init -q -b main && git add -A && git {identity} commit -qm first"
    start = [*MARATHON, "loop", "start", "Be measured", "--lane", "perf", "--mode", "optimize"]
    start += ["--verify", f"{lane} verify {shlex.quote(str(times))}", "--max-iterations", str(count)]
    run = [*MARATHON, "loop", "run", "perf", "--trust", "--agent", "command", "--"]
    run += ["bash", str(AGENTS / "lane.sh"), "session", str(times)]
    inside = Scratch(project, scratch.full)
    inside.run(["sh", "-ec", git])
    inside.run(start)
    inside.run(run)
    gaps, ended, verifying = [], 0.0, 0.0
    for what, began, end in (line.split() for line in times.read_text().splitlines()):
        if what == "verify":
            verifying += float(end) - float(began)
            continue
        if ended:
            gaps.append(float(began) - ended - verifying)
        ended, verifying = float(end), 0.0
    shutil.rmtree(project)
    times.unlink()
    about = f"median of {len(gaps)} reverted iterations with 3 samples each, beside session and verify"
    return Row("an iteration of a loop, beside verify", 1000 * median(gaps), "ms", 150, about)


def _reading(count: int) -> Row:
    state = model.LaneState(lane="perf", run_tag="r1")
    lines = [model.Row(iteration=0, action="baseline", metric=100.0, setup=state.setup()).to_line()]
    check = model.Check(name="guard", passed=True, command="make test")
    for number in range(1, count + 1):
        action = "keep" if number % 7 == 0 else "revert"
        row = model.Row(
            iteration=number,
            action=action,
            metric=100.0 - number / count,
            measurements=[100.0] * 3,
            checks=[check],
            hypothesis="another order of the loops",
            escalation_type="pivot" if number == 5 else None,
        )
        lines.append(row.to_line())
    started = time.process_time()
    found = rebuilt(state, [model.parse_row(line) for line in lines])
    took = time.process_time() - started
    assert found.iteration == count
    return Row("a loop rebuilt from its rows", took, "s", 1, f"{count} rows, parsed and replayed; processor time")
