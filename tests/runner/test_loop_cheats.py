"""What a scripted agent does so that its number looks better. Nothing of it is kept, and the row says why."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from marathon.process.sandbox import problem
from tests.support.loops import COMMIT, LoopWorld
from tests.support.world import World

# The program that is to become cheaper, what measures it, and what guards it. Its cost is what it says it has done.
BENCH = """import json
from work import solve
result, cost = solve(100)
print("METRIC cost=%d" % (cost + len(json.dumps([])) - 2))
"""
TEST = """import unittest
from work import solve
class Test(unittest.TestCase):
    def test(self):
        assert solve(7)[0] == 21
"""
FILES = {
    "work.py": "import os\n\ndef solve(n):\n    return sum(range(n)), n\n",
    "bench.py": BENCH,
    "tests/test_work.py": TEST,
    "tests/__init__.py": "",
    "Makefile": "check:\n\tpython3 -m unittest -q tests.test_work\n",
    ".gitignore": "__pycache__/\n.cache/\n",
    "bench.sh": "python3 bench.py\n",
}
CACHED = """import os, pathlib
def solve(n):
    place = pathlib.Path({place}) / "answer"
    if place.exists():
        return int(place.read_text()), 1
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(str(sum(range(n))))
    return sum(range(n)), n
"""


def cached(place: str) -> str:
    """A program that keeps its answer somewhere, and takes it from there the next time."""
    return f"cat > work.py << 'X'\n{CACHED.format(place=place)}\nX"


WRONG = "echo 'def solve(n): return 0, 1' > work.py"
# What the agent does, and what the row has to say.
CHEATS = {
    "the evaluator": ("echo 'print(\"METRIC cost=1\")' > bench.py", "bench.py may not be changed"),
    "what the guard runs": (
        "printf 'check:\\n\\ttrue\\n' > Makefile; echo 'def solve(n): return 0, 1' > work.py",
        "Makefile may",
    ),
    "a test": (f"echo > tests/test_work.py; {WRONG}", "tests/test_work.py may"),
    "a conftest": ("echo 'collect_ignore_glob = [\"*\"]' > conftest.py", "conftest.py may"),
    "a start-up file": ("echo 'import builtins' > sitecustomize.py", "sitecustomize.py may"),
    "a module of the language": ("printf 'def dumps(x):\\n    return \"\"\\n' > json.py", "json.py may"),
    "a path file": ("mkdir lib; echo /tmp > lib/more.pth", "lib/more.pth may"),
    "answers in an ignored folder": (cached("'.cache'"), "no noise"),
    "answers in HOME": (cached("os.environ['HOME'] + '/.answers'"), "no noise"),
    "answers in the temporary folder": (cached("os.environ['TMPDIR'] + '/answers'"), "no noise"),
    "the number, printed itself": ("echo 'print(\"METRIC cost=1\")' >> work.py", "failed checks: metric"),
    "a wrong answer": (WRONG, "failed checks: guard"),
}


def project(world: World) -> LoopWorld:
    loop = LoopWorld(world)
    for name, text in FILES.items():
        path = loop.project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    loop.sh(f"{COMMIT} work")
    return loop


def why(row: dict[str, Any]) -> str:
    return f"{row.get('acceptanceReason')} {row.get('error')} {json.dumps(row.get('checks'))}"


def test_no_cheat_is_kept_and_the_row_says_why(world: World) -> None:
    loop = project(world)
    honest = "printf 'def solve(n):\\n    return n * (n - 1) // 2, 3\\n' > work.py"
    loop.start("--guard", "make -s check", "--max-iterations", str(len(CHEATS) + 1), verify="python3 bench.py")
    loop.steps(*(script for script, _ in CHEATS.values()), honest)
    loop.run()
    rows = [row for row in loop.rows() if row["iteration"] and row["action"] != "confirmed"]
    for (name, (_, said)), row in zip(CHEATS.items(), rows, strict=False):
        assert row["action"] == "revert", (name, row)
        assert said in why(row), (name, row)
    last = rows[-1]
    assert (last["action"], last["metric"], last["doubtful"]) == ("keep", 3, "looks too good: see the diff")
    assert "looks too good" in loop.type("loop", "status", "perf").stdout


def test_old_bytecode_does_not_run(world: World) -> None:
    """An edit of the same size and time, beside a cache that git ignores: the new file is what runs."""
    loop = project(world)
    (loop.project / "bench.sh").write_text("env -u PYTHONDONTWRITEBYTECODE python3 bench.py\n")
    (loop.project / "work.py").write_text("COST = 90\ndef solve(n):\n    return 0, COST\n")
    loop.sh(f"{COMMIT} cache")
    loop.start("--max-iterations", "1")
    loop.steps("sed -i s/90/10/ work.py")
    loop.run()
    assert (loop.rows()[1]["action"], loop.rows()[1]["metric"], loop.rows()[1]["baseline"]) == ("keep", 10, 90)


def test_a_forged_row_counts_for_nothing_and_is_told(world: World) -> None:
    loop = LoopWorld(world)
    forged = {"iteration": 9, "action": "keep", "metric": 1, "baseline": 100, "commit": "0" * 40}
    results = "$MARATHON_TASK_DIR/../results.jsonl"
    loop.start("--max-iterations", "2")
    loop.steps("echo 90 > speed", f"echo {shlex.quote(json.dumps(forged))} >> {results}; echo 120 > speed")
    said = loop.run()
    assert f"{loop.folder / 'results.jsonl'} was changed by something other than the runner" in said
    assert [row["action"] for row in loop.results()] == ["keep", "revert"], "the file is the runner's again"
    with (loop.folder / "results.jsonl").open("a") as file:
        file.write(json.dumps(forged) + "\n")
    status = loop.type("loop", "status", "perf")
    assert "best 90 (baseline 100)" in status.stdout
    assert "results.jsonl was changed by something other than the runner" in status.stderr
    assert "forged" not in status.stdout
    preview = loop.type("loop", "finalize", "perf", "--json")
    assert "0000000" not in preview.stdout
    state = loop.state()
    (loop.folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in loop.results()[:2]))
    (loop.folder / "state.json").write_text(json.dumps({**state, "bestMetric": 1, "status": "running"}))
    status = loop.type("loop", "status", "perf")
    assert ("best 90" in status.stdout, "(completed)" in status.stdout) == (True, True)
    assert "state.json was changed by something other than the runner" in status.stderr


def test_a_large_file_is_not_kept_and_fills_no_repository(world: World) -> None:
    loop = LoopWorld(world)
    loop.start("--max-iterations", "2")
    loop.steps("truncate -s 200M data; echo 50 > speed", "head -c 3000000 /dev/urandom > some; echo 120 > speed")
    before = _stored(loop.project)
    loop.run()
    assert loop.actions() == ["baseline", "revert", "revert"]
    assert loop.rows()[1]["checks"] == [
        {"name": "no large file", "passed": False, "kind": "tree", "evidence": "data: more than 10 MB"}
    ]
    assert _stored(loop.project) - before < 10_000
    assert "some" in loop.type("loop", "show", "perf", "2").stdout, "what was taken back is still there to look at"


def _stored(project: Path) -> int:
    return sum(path.stat().st_size for path in (project / ".git").rglob("*") if path.is_file())


def test_time_is_taken_by_the_runners_own_clock_and_answers_have_to_be_the_same(world: World) -> None:
    """A program that slows the clock for itself, or leaves the work out, wins nothing."""
    loop = LoopWorld(world)
    program = "import time\nbegan = time.time()\ntime.sleep({0})\nprint('ANSWER', {1})\nprint(time.time() - began)\n"
    (loop.project / "work.py").write_text(program.format(0.05, 42))
    loop.sh(f"{COMMIT} work")
    slow_clock = "import time\nreal = time.time\ntime.time = lambda: real() / 100\n"
    started = ["--name", "perf", "--run", "r1", "--time", "python3 work.py", "--max-iterations", "2", "--rule", "loose"]
    assert loop.type("loop", "start", "Make it faster", *started).returncode == 0
    clock = shlex.quote(slow_clock + program.format(0.05, 42))
    loop.steps(f"printf %s {clock} > work.py", f"printf %s {shlex.quote(program.format(0, 41))} > work.py")
    loop.run("--yes")
    first, second = loop.rows()[1:3]
    assert first["action"] == "revert"
    assert first["metric"] > 0.04
    assert "answers" in why(second) or second["action"] == "revert"
    assert second["action"] == "revert"


@pytest.mark.parametrize("answer", ["41", "42"])
def test_answers_are_compared(world: World, answer: str) -> None:
    loop = LoopWorld(world)
    (loop.project / "bench.sh").write_text("sh work.sh; cat speed\n")
    (loop.project / "work.sh").write_text("echo ANSWER 42\n")
    loop.sh(f"{COMMIT} work")
    loop.start("--max-iterations", "1", "--metric-regex", "^[0-9]+$", verify="sh bench.sh")
    loop.steps(f"echo 'echo ANSWER {answer}' > work.sh; echo 50 > speed")
    loop.run()
    row = loop.rows()[1]
    assert (row["action"], "answers" in why(row)) == (("keep", False) if answer == "42" else ("revert", True))


def test_only_what_was_named_may_change_and_a_number_after_much_output_counts(world: World) -> None:
    loop = LoopWorld(world)
    much = "head -c 2000000 /dev/zero | tr '\\0' x | fold -w 10000"
    (loop.project / "bench.sh").write_text(f"{much}; echo; echo METRIC ms=$(cat src/speed)\n")
    loop.sh(f"mkdir src; mv speed src; {COMMIT} src")
    loop.start("--only", "src", "--metric", "ms", "--max-iterations", "2")
    loop.steps("echo 90 > src/speed; echo x > other", "echo 90 > src/speed")
    loop.run()
    first, second = loop.rows()[1:3]
    assert (first["action"], "other may not be changed (--only src)" in why(first)) == ("revert", True)
    assert (second["action"], second["metric"]) == ("keep", 90)
    assert "Only these may change: src" in loop.prompt(1)


@pytest.mark.skipif(bool(problem()), reason="needs bubblewrap")
def test_behind_the_wall_a_measured_program_writes_and_reads_nothing_of_ours(world: World) -> None:
    """It cannot leave an answer where the next run finds it, nor change the record, nor read the holdout."""
    loop = LoopWorld(world)
    leave = loop.world.home / "left"
    state = loop.world.env()["XDG_STATE_HOME"]
    (loop.project / "bench.sh").write_text(
        f"echo x > {leave}; echo x >> {loop.folder}/results.jsonl; grep -rs [h]idden-words {state}; cat speed; true\n"
    )
    loop.sh(f"{COMMIT} bench")
    loop.start("--max-iterations", "1", "--holdout", "true hidden-words")
    args = ["loop", "run", "perf", "--trust", "--sandbox", "--agent", "command", "--", "sh", "-c", "echo 90 > speed"]
    ran = loop.type(*args)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert loop.actions() == ["baseline", "keep"]
    assert not leave.exists()
    assert [row["action"] for row in loop.results()] == ["keep"]
