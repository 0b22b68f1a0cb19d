"""Measured loops: how often a change that brings nothing is kept, and how fast a long loop is read again."""

from __future__ import annotations

import random
import shlex
import shutil
import time
from statistics import median

from bench.keeps import CANDIDATES, MACHINES, exact, false_keeps, kept, seeds_rule
from bench.row import Row
from bench.scratch import AGENTS, MARATHON, Scratch
from marathon.core.lanes import model
from marathon.core.lanes.rules import rebuilt

WORST_FALSE, WORST_CLAIM = 2.5, 0.2  # per cent of loops, and of the number
MOST_RUNS = 7.0


def loops(scratch: Scratch) -> list[Row]:
    return [*keeps(scratch.count(4000, 20)), _reading(scratch.count(10_000, 200)), _overhead(scratch)]


def keeps(count: int) -> list[Row]:
    """The table of docs/loops.md. A loop tries 100 candidates."""
    share, runs = exact()
    false = 100 * (1 - (1 - share) ** CANDIDATES)
    rows = [
        Row("loops with a false keep (independent noise)", false, "%", WORST_FALSE, "exact"),
        Row("runs for a candidate without a gain", runs, "", MOST_RUNS, "exact"),
    ]
    for name in MACHINES:
        wrong, claimed, _ = false_keeps(name, count, random.Random(f"false {name}"))
        seeds = 100 * seeds_rule(name, max(10, count // 20), random.Random(f"seed {name}"))
        gains = [100 * kept(name, sigmas, count // 2, random.Random(f"{sigmas} {name}")) for sigmas in (1, 2, 3)]
        about = f"{count} loops; the seed's rule with 3 samples: {seeds:.0f} %"
        said = f"{count // 2} candidates; 1 σ: {gains[0]:.0f} % kept, 2 σ: {gains[1]:.0f} %, 3 σ: {gains[2]:.0f} %"
        rows += [
            Row(f"loops with a false keep ({name})", 100 * wrong, "%", WORST_FALSE, about),
            Row(f"gain that was never there ({name})", 100 * claimed, "%", WORST_CLAIM, about),
            Row(f"missed gains of 3 σ ({name})", 100 - gains[2], "%", 3 if name == "gaussian" else 20, said),
        ]
    for min_gain in (0.0, 0.03):
        wrong, _, _ = false_keeps("gaussian", count, random.Random("offset"), offset=1.0, min_gain=min_gain)
        about = f"{count} loops, each tree 1 % off by itself"
        asked = ", --min-gain 3%" if min_gain else ""
        most = WORST_FALSE if min_gain else 100
        rows.append(Row(f"loops with a false keep (offsets{asked})", 100 * wrong, "%", most, about))
    return rows


def _overhead(scratch: Scratch) -> Row:
    """From the end of a session to the begin of the next one, without the time that verify itself takes."""
    count, times = scratch.count(12, 3), scratch.project / "times"
    project = scratch.project / "loop"
    project.mkdir()
    (project / "speed").write_text("100\n")
    lane = shlex.join(["bash", str(AGENTS / "lane.sh")])
    identity = "-c user.name=bench -c user.email=bench@localhost"
    git = f"git init -q -b main && git add -A && git {identity} commit -qm first"
    start = [*MARATHON, "loop", "start", "Be measured", "--lane", "perf", "--kind", "optimize"]
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
    about = f"median of {len(gaps)} reverted iterations of four runs each, beside session and verify"
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
