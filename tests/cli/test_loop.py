"""`pi-marathon loop …`: the verbs of an agent-measured loop, as a person or an agent types them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from marathon.cli.main import main
from tests.process.driver import Pty
from tests.support.world import World


class Shell:
    """Command lines in this process: what they printed, and their exit code."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capture = capture

    def type(self, *args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(["loop", *args])
        out, err = self._capture.readouterr()
        return int(str(end.value.code)), out, err

    def ok(self, *args: str) -> str:
        code, out, err = self.type(*args)
        assert (code, err) == (0, ""), (out, err)
        return out

    def json(self, *args: str) -> Any:
        return json.loads(self.ok(*args, "--json"))

    def refused(self, *args: str) -> str:
        before = self.files()
        code, _, err = self.type(*args)
        assert code == 2, err
        assert self.files() == before, "a refusal writes nothing"
        return err

    def files(self) -> dict[str, bytes]:
        root = self.folder / ".multiloop"
        return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)


def test_a_loop_from_start_to_archive(shell: Shell) -> None:
    said = shell.ok(
        "start", "Make parse() faster", "--lane", "perf", "--run", "r1", "--verify", "./bench", "--guard", "make test"
    )
    assert "Started perf/r1 (optimize, lower is better, keep-revert)" in said
    assert "loop measure perf --value X --check 'guard=pass:make test'" in said
    assert "Baseline of perf/r1: 100" in shell.ok(
        "measure", "perf", "--value", "100", "--check", "guard=pass:make test"
    )
    assert "To beat: 100" in shell.ok("iterate", "perf", "--hypothesis", "cache it")
    said = shell.ok("measure", "perf", "--value", "80", "81", "79")
    assert "✗ guard: no verdict was given, so it counts as failed (make test)" in said
    assert "loop decide perf revert --value 80 --value 81 --value 79" in said
    said = shell.ok("measure", "perf", "--value", "80", "--value", "81", "--value", "79", "--check", "g=pass:make test")
    command = re.findall(r"Next: pi-marathon loop (.*)", said)[0]
    assert command == "decide perf keep --value 80 --value 81 --value 79"
    assert "keep" in shell.ok(*command.split())
    assert "best 80 (baseline 100)" in shell.ok("status", "perf")
    assert "Stopped: perf/r1" in shell.ok("stop", "perf")
    assert "1 iteration " in shell.ok("ls")
    shell.ok("archive", "perf/r1")
    assert "no loops here" in shell.ok("ls")
    assert "perf/r1  archived" in shell.ok("ls", "--archived")
    assert "archived" in shell.refused("resume", "perf/r1")


def test_every_verb_speaks_json(shell: Shell) -> None:
    started = shell.json("start", "Make it faster", "--lane", "perf", "--run", "r1", "--direction", "higher")
    assert (started["target"], started["state"]["metricDirection"]) == ("perf/r1", "higher")
    base = shell.json("measure", "perf", "--value", "10", "11", "12")
    assert (base["state"]["baseline"], base["state"]["iteration"], base["row"]["action"]) == (11, 0, "baseline")
    assert shell.json("iterate", "perf")["state"]["activeIteration"]["iteration"] == 1
    measured = shell.json("measure", "perf", "--value", "20")["state"]["activeIteration"]
    assert (measured["recommendedAction"], measured["measurements"]) == ("keep", [20])
    decided = shell.json("decide", "perf", "keep", "--value", "20.0")
    assert (decided["row"]["action"], decided["state"]["bestMetric"]) == ("keep", 20)
    assert shell.json("log", "perf", "crash", "--note", "segfault")["row"]["error"] == "segfault"
    assert [row["action"] for row in shell.json("status", "perf")["rows"]] == ["baseline", "keep", "crash"]
    assert [each["target"] for each in shell.json("status")] == ["perf/r1"]
    assert shell.json("ls")[0]["status"] == "running"
    assert [shell.json(verb, "perf")["status"] for verb in ("pause", "resume", "stop", "archive")] == [
        "paused",
        "running",
        "stopped",
        "archived",
    ]
    assert shell.json("rm", "perf/r1") == {"target": "perf/r1", "status": "removed"}
    code, out, _ = shell.type("iterate", "perf", "--json")
    assert code == 2
    assert json.loads(out) == {"refused": "There is no loop perf.", "recovery": "See all of them: pi-marathon loop ls"}


REFUSED = [
    (("iterate", "none"), "loop ls"),
    (("iterate", "paused"), "loop resume paused/r1"),
    (("decide", "fresh", "keep", "--value", "1"), "loop measure fresh --value X"),
    (("decide", "guarded", "keep", "--value", "1"), "loop measure guarded --value X --check 'guard=pass:make test'"),
    (("measure", "guarded"), "loop measure guarded --value X --check 'guard=pass:make test'"),
    (("resume", "gone"), 'loop start "GOAL" --lane gone'),
    (("archive",), "No loop is stopped or completed."),
    (("measure", "fresh"), "at least one number"),
    (("measure", "fresh", "--value", "nan"), "finite"),
    (("decide", "perf", "keep"), "at least one number"),
    (("decide", "perf", "keep", "--value", "81"), "loop decide perf keep --value 80"),
    (("decide", "perf", "revert", "--value", "80"), "loop decide perf keep --value 80"),
    (("decide", "perf", "skip", "--value", "80"), "loop log perf skip"),
    (("iterate", "perf"), "loop decide perf keep --value 80"),
    (("stop", "two"), "two/b (running)"),
    (("measure", "two", "--value", "1"), "two/b (running)"),
    (("measure", "two/b"), "loop measure two/b --value X"),
    (("rm", "two"), "loop rm two/"),
    (("rm", "two/c"), "no loop two/c"),
    (("status", "a/b/c"), "name of a run"),
    (("start", "x", "--lane", "../up"), "name of a loop"),
    (("start", "x", "--lane", "perf", "--run", "r1"), "exists already"),
    (("start", " "), "goal is empty"),
    (("start", "x", "--measured-by", "runner"), "--verify CMD"),
    (("start", "x", "--in-place"), "--verify CMD"),
    (("start", "x", "--measured-by", "runner", "--verify", "./v", "--prompt-verifier", "Good?"), "--guard"),
    (("start", "x", "--metric-regex", "(", "--verify", "./v"), "regular expression"),
    (("start", "x", "--measured-by", "agent", "--holdout", "./secret"), "--holdout"),
    (("start", "x", "--measured-by", "agent", "--timeout", "5m"), "--timeout"),
    (("start", "x", "--verify", "true", "--protect", "../bench.py"), "below the project"),
    (("start", "x", "--verify", "true", "--protect", "bench.py"), "no such file"),
    (("start", "x", "--lane", ""), "cannot be the name of a loop"),
    (("measure", "perf", "--value", "1", "--check", "guard"), "NAME=pass"),
    (("resume",), "Name one exactly"),
]


def test_a_refusal_names_the_recovery_and_writes_nothing(shell: Shell) -> None:
    for name in ("perf/r1", "paused/r1", "fresh/r1", "two/a", "two/b"):
        lane, tag = name.split("/")
        shell.ok("start", "faster", "--lane", lane, "--run", tag)
    shell.ok("start", "faster", "--lane", "guarded", "--guard", "make test")
    shell.ok("start", "faster", "--lane", "gone", "--run", "r1")
    shell.ok("archive", "gone")
    shell.ok("pause", "paused")
    shell.ok("measure", "perf", "--value", "100")
    shell.ok("measure", "perf", "--value", "80")
    for args, said in REFUSED:
        assert said in shell.refused(*args), args


def test_the_next_command_can_be_typed_where_a_lane_has_two_runs(shell: Shell) -> None:
    shell.ok("start", "faster", "--lane", "perf", "--run", "r1")
    said = shell.ok("start", "faster", "--lane", "perf", "--run", "r2")
    for value in ("100", "", "90", ""):
        command = re.findall(r"pi-marathon loop (.*)", said)[0].replace("X", value)
        said = shell.ok(*command.split())
    assert "iterate perf/r2" in said
    assert shell.json("status", "perf/r2")["state"]["iteration"] == 1


def test_a_refusal_in_a_folder_without_loops_makes_none(shell: Shell) -> None:
    for args in (("iterate", "perf"), ("resume",), ("stop",), ("archive",), ("rm", "a/b"), ("status", "x")):
        shell.refused(*args)
    assert "no loops here" in shell.ok("ls") + shell.ok("status")
    assert list(shell.folder.iterdir()) == []


def test_names_are_made_from_the_goal_and_the_time_and_are_unique(shell: Shell) -> None:
    targets = [shell.json("start", "Reduce the latency of parse()")["target"] for _ in range(2)]
    targets += [shell.json("start", "again", "--lane", "reduce-latency-parse")["target"]]
    assert [target.split("/")[0] for target in targets] == [
        "reduce-latency-parse",
        "reduce-latency-parse-2",
        "reduce-latency-parse",
    ]
    assert len(set(targets)) == 3
    assert all(re.fullmatch(r"run-\d{8}-\d{6}(-\d+)?", target.split("/")[1]) for target in targets)


def test_a_whole_project_is_paused_and_stopped_but_only_the_ended_are_archived(shell: Shell) -> None:
    for lane in ("a", "b", "c"):
        shell.ok("start", "faster", "--lane", lane)
    shell.ok("stop", "c")
    shell.ok("archive")
    shell.ok("pause")
    assert {each["target"][0]: each["status"] for each in shell.json("ls", "--archived")} == {
        "a": "paused",
        "b": "paused",
        "c": "archived",
    }


def test_a_loop_ends_at_its_target_and_is_resumed_with_another(shell: Shell) -> None:
    shell.ok("start", "faster", "--lane", "perf", "--run", "r1", "--target", "50", "--max-iterations", "3")
    shell.ok("measure", "perf", "--value", "100")
    shell.ok("measure", "perf", "--value", "40")
    assert "Completed: perf/r1" in shell.ok("decide", "perf", "keep", "--value", "40")
    assert "--target" in shell.refused("resume", "perf")
    assert "is running" in shell.ok("resume", "perf", "--target", "10")
    assert shell.json("status", "perf")["state"]["targetMetric"] == 10
    for _ in range(2):
        shell.ok("log", "perf", "skip")
    assert "--max-iterations 6" in shell.refused("resume", "perf")


def test_a_stopped_ladder_is_told_and_every_tenth_iteration_tells_all_again(shell: Shell) -> None:
    shell.ok("start", "faster", "--lane", "perf", "--run", "r1")
    shell.ok("measure", "perf", "--value", "100")
    told = []
    for number in range(1, 16):
        assert ("Goal: faster" in shell.ok("iterate", "perf")) is (number == 11)
        shell.ok("measure", "perf", "--value", "200")
        told.append(shell.ok("decide", "perf", "revert", "--value", "200"))
    assert ["refine" in told[2], "choose another" in told[4], "the loop stopped" in told[14]] == [True, True, True]
    assert "Stopped: perf/r1" in told[14]
    assert len((shell.folder / ".multiloop/active/perf/r1/lessons.md").read_text().splitlines()) == 15


def test_an_iteration_is_shown_and_the_course_is_drawn(shell: Shell) -> None:
    shell.ok("start", "faster", "--lane", "perf", "--run", "r1")
    shell.ok("measure", "perf", "--value", "100")
    shell.ok("iterate", "perf", "--hypothesis", "unroll it")
    shell.ok("measure", "perf", "--value", "200", "201")
    shell.ok("decide", "perf", "revert", "--value", "200", "201")
    said = shell.ok("show", "perf", "1")
    assert "Tried:   unroll it" in said
    assert "Numbers: 200 201" in said
    assert "Lesson:  Iteration 1 (unroll it) gave 200.5 against 100: revert" in said
    assert shell.json("show", "perf/r1", "0")["row"]["action"] == "baseline"
    assert "no iteration 2" in shell.refused("show", "perf", "2")
    files = shell.json("plot", "perf", "-o", "course.html")["files"]
    assert files == ["course.svg", "course.html"]
    assert "<svg" in (shell.folder / "course.html").read_text()
    assert "plot.svg" in shell.ok("plot", "perf")


def test_negative_numbers_follow_a_value(shell: Shell) -> None:
    shell.ok("start", "score", "--lane", "s", "--direction", "higher")
    assert shell.json("measure", "s", "--value", "-3", "-4", "-5")["state"]["baseline"] == -4


def test_damage_is_told_and_the_others_are_still_listed(shell: Shell) -> None:
    for lane in ("a", "b"):
        shell.ok("start", "faster", "--lane", lane, "--run", "r1")
    (shell.folder / ".multiloop/active/a/r1/state.json").write_text("{")
    assert "a/r1  cannot be read" in shell.ok("ls")
    code, _, err = shell.type("status", "a")
    assert (code, "state.json" in err, "loop rm a/r1" in err) == (7, True, True)
    shell.ok("status", "b")


def test_the_words_hold_in_a_real_shell_and_below_the_project(world: World) -> None:
    start = world.cli("loop", "start", "Make it faster", "--lane", "perf", "--run", "r1")
    assert (start.returncode, start.stderr) == (0, "")
    world.project = world.project / "task"
    assert world.cli("loop", "measure", "perf", "--value", "3").returncode == 0
    refused = world.cli("loop", "decide", "perf", "keep", "--value", "3")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("pi-marathon: perf/r1 has no measurement")


def test_rm_asks_on_a_terminal(world: World, typed: Callable[..., Pty]) -> None:
    world.cli("loop", "start", "Make it faster", "--lane", "perf", "--run", "r1")
    folder = world.project / ".multiloop/active/perf/r1"
    for answer, left in ((b"n\n", True), (b"y\n", False)):
        terminal = typed("loop", "rm", "perf/r1")
        terminal.expect(b"with its results and lessons?")
        terminal.send(answer)
        terminal.wait()
        assert folder.exists() is left


def test_a_check_as_json_keeps_its_evidence_and_a_wrong_one_is_refused(shell: Shell) -> None:
    shell.ok("start", "Faster", "--lane", "perf", "--run", "r1", "--guard", "make test")
    given = '{"name": "tests", "passed": true, "command": "make test", "evidence": "12 passed"}'
    told = shell.json("measure", "perf", "--value", "9", "--check", given)
    assert told["row"]["checks"][0]["evidence"] == "12 passed"
    assert told["text"].startswith("Baseline of perf/r1: 9")
    assert 'Such as: {"name": "tests"' in shell.refused("measure", "perf", "--value", "8", "--check", '{"name": 1}')


def test_a_logged_number_is_measured_and_needs_a_baseline(shell: Shell) -> None:
    shell.ok(
        "start", "Compare", "--lane", "notes", "--kind", "research", "--scope", "src", "--acceptance-policy", "all"
    )
    assert "has no baseline yet" in shell.refused("log", "notes", "--value", "4")
    shell.ok("measure", "notes", "--value", "5")
    told = shell.json("log", "notes", "--value", "4", "--note", "better")
    assert (told["row"]["metric"], told["state"]["bestMetric"]) == (4, 4)
    assert (told["state"]["scope"], told["state"]["acceptancePolicy"]) == ("src", "all")
