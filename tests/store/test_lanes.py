"""The files of measured loops: pi-multiloop's layout, whole after every crash, and readable when parts are gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from marathon.core.lanes import verbs
from marathon.core.lanes.model import LaneState, Row
from marathon.core.lanes.names import Run
from marathon.errors import TaskBusy, TaskInvalid
from marathon.store import lanes as store
from marathon.store.lanes import Lanes, find_project
from tests.store.tools import all_at_once, calls_of
from tests.support.mortal import Killed, Life, living

NOW = "2026-02-02T14:30:00Z"
RUN = Run("perf", "r1", "running")


def _new(project: Path, **more: Any) -> Lanes:
    lanes = Lanes(project)
    with lanes.locked():
        lanes.create(LaneState(lane="perf", run_tag="r1", goal="faster", started_at=NOW, **more))
    return lanes


def _measure(lanes: Lanes, *values: float) -> LaneState:
    with lanes.locked():
        lane = lanes.load(RUN)
        state, row = verbs.measure(lane.state, NOW, values)
        lanes.save(lane, state, row, NOW)
    return state


def _turn(lanes: Lanes, value: float) -> tuple[LaneState, Row]:
    _measure(lanes, value)
    with lanes.locked():
        lane = lanes.load(RUN)
        assert lane.state.active_iteration is not None
        action = str(lane.state.active_iteration.recommended_action)
        state, row = verbs.decide(lane.state, NOW, action, [value])
        lanes.save(lane, state, row, NOW)
    return state, row


def _with_rows(project: Path, *values: float, **more: Any) -> Lanes:
    lanes = _new(project, **more)
    _measure(lanes, 100)
    for value in values:
        _turn(lanes, value)
    return lanes


def _folder(project: Path) -> Path:
    return project / ".multiloop" / "active" / "perf" / "r1"


def _registry(project: Path) -> list[dict[str, Any]]:
    loops = json.loads((project / ".multiloop" / "registry.json").read_text())["loops"]
    assert isinstance(loops, list)
    return loops


def test_the_layout_is_the_original_s(tmp_path: Path) -> None:
    _with_rows(tmp_path, 80, 200, guard_command=None, verify_command="./bench")
    files = {path.name for path in _folder(tmp_path).iterdir()}
    assert files == {"state.json", "results.jsonl", "lessons.md"}
    state = json.loads((_folder(tmp_path) / "state.json").read_text())
    assert (state["lane"], state["runTag"], state["iteration"], state["status"]) == ("perf", "r1", 2, "running")
    assert (state["currentMetric"], state["bestMetric"], state["baseline"]) == (80, 80, 100)
    rows = [json.loads(line) for line in (_folder(tmp_path) / "results.jsonl").read_text().splitlines()]
    assert [(row["iteration"], row["action"]) for row in rows] == [(0, "baseline"), (1, "keep"), (2, "revert")]
    assert (rows[2]["metric"], rows[2]["baseline"], rows[2]["delta"]) == (200, 80, 120)
    assert (_folder(tmp_path) / "lessons.md").read_text().startswith(f"- [{NOW}] Iteration 2 gave 200 against 80")
    assert _registry(tmp_path) == [
        {
            "lane": "perf",
            "runTag": "r1",
            "mode": "optimize",
            "status": "active",
            "startedAt": NOW,
            "stateDir": ".multiloop/active/perf/r1",
            "verifyCommand": "./bench",
        }
    ]


def test_a_torn_last_row_is_told_and_kept_aside(tmp_path: Path) -> None:
    lanes = _with_rows(tmp_path, 80, 70)
    path = _folder(tmp_path) / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    lane = lanes.load(RUN)
    assert (lane.state.iteration, lane.state.current_metric) == (1, 80)
    assert "cut off by a crash" in lane.notices[0]
    state, _ = _turn(lanes, 60)
    assert (state.iteration, lanes.load(RUN).notices) == (2, ())
    assert (_folder(tmp_path) / "results.jsonl.torn").read_bytes().startswith(b'{"iteration": 2')


def test_a_whole_last_row_without_its_newline_counts(tmp_path: Path) -> None:
    lanes = _with_rows(tmp_path, 80)
    path = _folder(tmp_path) / "results.jsonl"
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert (lanes.load(RUN).state.iteration, lanes.load(RUN).notices) == (1, ())
    assert _turn(lanes, 60)[0].iteration == 2
    assert len(path.read_bytes().splitlines()) == 3


@pytest.mark.parametrize(("line", "said"), [(1, "line 2 is damaged"), (-1, "line 3 is damaged")])
def test_a_row_that_is_damaged_is_named_and_not_skipped(tmp_path: Path, line: int, said: str) -> None:
    lanes = _with_rows(tmp_path, 80, 70)
    path = _folder(tmp_path) / "results.jsonl"
    lines = path.read_text().splitlines()
    lines[line] = '{"iteration": "many"}'
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(TaskInvalid, match=said):
        lanes.load(RUN)


@pytest.mark.parametrize("damage", [None, "", "{", "[]", '{"lane": 5}'])
def test_a_lost_snapshot_is_rebuilt_from_the_rows(tmp_path: Path, damage: str | None) -> None:
    lanes = _with_rows(tmp_path, 80, 200, guard_command=None, metric_direction="lower", max_iterations=50)
    before = lanes.load(RUN).state
    path = _folder(tmp_path) / "state.json"
    path.unlink() if damage is None else path.write_text(damage)
    (run,) = lanes.runs()
    lane = lanes.load(run)
    assert lane.state.with_(last_updated=before.last_updated) == before
    assert "rebuilt from its rows" in lane.notices[0]


def test_without_snapshot_and_baseline_the_file_and_the_way_out_are_named(tmp_path: Path) -> None:
    lanes = _new(tmp_path)
    (_folder(tmp_path) / "state.json").write_text("{")
    with pytest.raises(TaskInvalid, match=r"state\.json: .*loop rm perf/r1"):
        lanes.load(lanes.runs()[0])


def test_an_edited_snapshot_does_not_change_what_is_compared(tmp_path: Path) -> None:
    lanes = _with_rows(tmp_path, 80, guard_command=None, acceptance_mode="keep-revert")
    path = _folder(tmp_path) / "state.json"
    edited = {
        **json.loads(path.read_text()),
        "metricDirection": "higher",
        "currentMetric": 1e9,
        "consecutiveFailures": -9,
    }
    path.write_text(json.dumps(edited))
    lane = lanes.load(RUN)
    assert (lane.state.metric_direction, lane.state.current_metric, lane.state.consecutive_failures) == ("lower", 80, 0)
    assert "metric_direction. Row 0 counts" in lane.notices[0]


def test_the_registry_is_made_from_the_directories(tmp_path: Path) -> None:
    lanes = _with_rows(tmp_path, 80)
    (tmp_path / ".multiloop" / "registry.json").write_text("{ torn")
    assert [run.name for run in lanes.runs()] == ["perf/r1"]
    _turn(lanes, 70)
    assert [entry["runTag"] for entry in _registry(tmp_path)] == ["r1"]


def test_fields_that_others_wrote_are_kept(tmp_path: Path) -> None:
    lanes = _with_rows(tmp_path)
    path = _folder(tmp_path) / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "accounting": {"turns": 3}, "kind": "measured"}))
    _turn(lanes, 80)
    written = json.loads(path.read_text())
    assert (written["accounting"], written["kind"], written["iteration"]) == ({"turns": 3}, "measured", 1)


# What pi-multiloop 0.3 and 0.4 write, by the facts known of their formats

ORIGINAL_STATE = {
    "lane": "quant",
    "runTag": "run-20260420-101500",
    "mode": "optimize",
    "iteration": 2,
    "baseline": 100,
    "currentMetric": 92.5,
    "bestMetric": 92.5,
    "consecutiveFailures": 1,
    "pivotCount": 0,
    "status": "running",
    "verifyCommand": "npm run bench",
    "guardCommand": "npm test",
    "metricDirection": "lower",
    "goal": "faster",
    "activeIteration": {"iteration": 3, "phase": "started", "startedAt": "2026-04-20T10:20:00.123Z"},
    "startedAt": "2026-04-20T10:15:00.000Z",
    "lastUpdated": "2026-04-20T10:20:00.123Z",
    "config": {"any": 1},
}
ORIGINAL_ROWS = [
    {"iteration": 1, "timestamp": "2026-04-20T10:16:00.000Z", "action": "keep", "metric": 92.5, "baseline": 100,
     "delta": -7.5, "confidence": "high", "measurements": [92.5, 92.5], "acceptancePassed": True},
    {"iteration": 2, "timestamp": "2026-04-20T10:18:00.000Z", "action": "revert", "metric": 99, "baseline": 92.5,
     "delta": 6.5, "confidence": "low", "measurements": [99],
     "checks": [{"name": "guard", "passed": True, "command": "npm test"}]},
]  # fmt: skip


@pytest.mark.parametrize("newer", [{}, {"kind": "measured", "keeps": 1, "reverts": 1, "acceptanceMode": "keep-revert"}])
def test_a_directory_of_the_original_opens_and_goes_on(tmp_path: Path, newer: dict[str, Any]) -> None:
    folder = tmp_path / ".multiloop" / "active" / "quant" / "run-20260420-101500"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps({**ORIGINAL_STATE, **newer}, indent=2) + "\n")
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ORIGINAL_ROWS))
    lanes = Lanes(tmp_path)
    (run,) = lanes.runs()
    lane = lanes.load(run)
    state = lane.state
    assert (run.name, run.status, lane.notices) == ("quant/run-20260420-101500", "running", ())
    assert (state.iteration, state.baseline, state.current_metric, state.best_metric) == (2, 100, 92.5, 92.5)
    assert (state.keeps, state.reverts, state.consecutive_failures, state.last_action) == (1, 1, 1, "revert")
    assert state.active_iteration is not None
    with lanes.locked():
        state, _ = verbs.measure(state, NOW, [50], [])
        lanes.save(lane, state, None, NOW)
    active = lanes.load(run).state.active_iteration
    assert active is not None
    assert (active.iteration, active.recommended_action) == (3, "revert"), "the guard has no verdict"


# Crashes, other processes, other people's links


def test_killed_before_any_change_the_lane_is_as_before_or_after(tmp_path: Path) -> None:
    before_after = set()
    template = tmp_path / "template"
    template.mkdir()
    _measure(_with_rows(template, 200, 200, 200, 200), 300)
    for number in range(1, 60):
        project = Path(shutil.copytree(template, tmp_path / str(number)))
        lanes = Lanes(project)
        try:
            with living(Life(project, number)):
                _decide_revert(lanes)
        except Killed:
            lane = Lanes(project).load(RUN)
            before_after.add(lane.state.iteration)
            if lane.state.iteration == 4:
                _decide_revert(lanes)
            else:
                _measure(lanes, 300)  # whatever comes next also writes what the crash left out
            after = lanes.load(RUN)
            assert (after.state.iteration, after.state.pivot_count, after.notices) == (5, 1, ())
            assert [text for text in lanes.lessons(RUN) if "change the strategy" in text] != []
            assert len(lanes.lessons(RUN)) == 5
            assert _registry(project)[0]["status"] == "active"
            continue
        break
    else:
        pytest.fail("a decision makes no 60 changes")
    assert before_after == {4, 5}


def _decide_revert(lanes: Lanes) -> None:
    with lanes.locked():
        lane = lanes.load(RUN)
        state, row = verbs.decide(lane.state, NOW, "revert", [300])
        lanes.save(lane, state, row, NOW)


def test_commands_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    """Real processes, each of which logs five iterations of a lane of its own or of the shared one."""
    _with_rows(tmp_path)
    names = ("perf", "perf", "one", "two")
    all_at_once(len(names), lambda number: _log_five(tmp_path, names[number]))
    lanes = Lanes(tmp_path)
    iterations = {run.name: lanes.load(run).state.iteration for run in lanes.runs()}
    assert iterations == {"perf/r1": 10, "one/r1": 5, "two/r1": 5}
    assert {entry["lane"] for entry in _registry(tmp_path)} == {"perf", "one", "two"}


def _log_five(project: Path, name: str) -> None:
    lanes = Lanes(project)
    run = Run(name, "r1", "running")
    if name != "perf":
        with lanes.locked():
            lanes.create(LaneState(lane=name, run_tag="r1", started_at=NOW))
    for _ in range(5):
        with lanes.locked():
            lane = lanes.load(run)
            state, row = verbs.log(lane.state, NOW)
            lanes.save(lane, state, row, NOW)


def test_a_lock_that_is_held_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_PATIENCE", 0.05)
    lanes = _new(tmp_path)
    with lanes.locked(), pytest.raises(TaskBusy, match=r"\.lock"), Lanes(tmp_path).locked():
        pass


def test_links_do_not_lead_out_of_the_project(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    _with_rows(outside, 80)
    project = tmp_path / "project"
    (project / ".multiloop" / "active" / "perf").mkdir(parents=True)
    (project / ".multiloop" / "active" / "perf" / "r1").symlink_to(_folder(outside))
    (project / ".multiloop" / "active" / "other").symlink_to(_folder(outside).parent)
    assert Lanes(project).runs() == []
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".multiloop").symlink_to(outside / ".multiloop")
    with pytest.raises(TaskInvalid, match="symbolic link"):
        Lanes(linked)


def test_archived_loops_are_moved_and_marked_in_both_places(tmp_path: Path) -> None:
    lanes = _with_rows(tmp_path, 80)
    with lanes.locked():
        target = lanes.archive(lanes.load(RUN).state.with_(status="archived"), NOW)
    assert target == tmp_path / ".multiloop" / "archive" / "2026-02-02T14-30-00Z-perf-r1"
    assert json.loads((target / "state.json").read_text())["status"] == "archived"
    assert not (tmp_path / ".multiloop" / "active" / "perf").exists()
    (entry,) = _registry(tmp_path)
    assert (entry["status"], entry["stateDir"]) == ("archived", f".multiloop/archive/{target.name}")
    (run,) = lanes.runs()
    assert (run.status, lanes.load(run).state.iteration) == ("archived", 1)
    with lanes.locked():
        lanes.remove(run)
    assert (lanes.runs(), _registry(tmp_path), target.exists()) == ([], [], False)


def test_a_holdout_lies_outside_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    project = tmp_path / "project"
    project.mkdir()
    lanes = _new(project)
    state = lanes.load(RUN).state
    lanes.set_holdout(state, "secret-check --all")
    assert lanes.holdout(state) == "secret-check --all"
    inside = [path.read_bytes() for path in project.rglob("*") if path.is_file()]
    assert not any(b"secret-check" in data for data in inside)
    with lanes.locked():
        lanes.remove(RUN)
    assert lanes.holdout(state) == ""


def test_the_project_is_the_nearest_folder_with_loops_in_its_repository(tmp_path: Path) -> None:
    _new(tmp_path)
    inner = tmp_path / "repository" / "src"
    inner.mkdir(parents=True)
    assert find_project(inner) == tmp_path
    (tmp_path / "repository" / ".git").mkdir()
    assert find_project(inner) == inner


def test_a_row_is_synced_before_the_snapshot_is_replaced(tmp_path: Path) -> None:
    lanes = _with_rows(tmp_path, 80)
    lane = lanes.load(RUN)
    state, row = verbs.log(lane.state, NOW)
    calls = [call for call in calls_of(lambda: lanes.save(lane, state, row, NOW)) if call != "close"]
    assert calls[:5] == ["write", "fsync", "write", "fsync", "rename"]
    assert calls.count("rename") == 2, "the snapshot and the registry"


def test_the_files_are_private_and_git_does_not_see_them(tmp_path: Path) -> None:
    _with_rows(tmp_path, 80, 200)
    assert {path.stat().st_mode & 0o777 for path in _folder(tmp_path).iterdir()} == {0o600}
    assert (tmp_path / ".multiloop" / ".gitignore").read_text() == "*\n"
