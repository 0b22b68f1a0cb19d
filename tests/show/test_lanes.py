"""Measured loops as a person reads them."""

from __future__ import annotations

from xml.etree import ElementTree

from marathon.core.lanes.model import Check, LaneState, Row
from marathon.core.lanes.names import Run
from marathon.show.lane_plot import page, svg
from marathon.show.lanes import (
    brief,
    card,
    iteration_lines,
    list_lines,
    next_command,
    row_line,
    sparkline,
    status_lines,
)
from tests.core.lanes.making import guard, with_baseline


def test_the_course_of_a_metric() -> None:
    assert sparkline([1, 2, 3, 4, 5, 6, 7, 8]) == "▁▂▃▄▅▆▇█"
    assert (sparkline([]), sparkline([5, 5])) == ("", "▁▁")
    assert len(sparkline(range(1000))) == 60


def test_status_tells_the_numbers_the_noise_and_the_next_command() -> None:
    walk = with_baseline(98, 100, 102, guard_command="make test", target_metric=10, max_iterations=50)
    walk.turn(80, 81, 79, checks=[guard()])
    walk.turn(200, checks=[guard()])
    shown = "\n".join(status_lines(walk.state, walk.rows, ["[now] Iteration 2: no."]))
    for part in (
        "perf/r1  (running)",
        "best 80 (baseline 100), -20 (-20.0 %), improved",
        "± 1; a gain has to be more than 2",
        "▂▁█\n         0✓✗\n",
        "2 iterations, 1 kept, 1 reverted",
        "1 failure in a row, 0 of 2 pivots used",
        "target 10, at most 50 iterations",
        "Iteration 2: no.",
        "Next:    pi-marathon loop iterate perf",
    ):
        assert part in shown


def test_a_row_says_why_it_was_not_kept() -> None:
    state = LaneState(lane="perf", run_tag="r1", measured_by="runner")
    failed = [Check(name="guard", passed=True), Check(name="holdout", passed=False, evidence="no")]
    row = Row(iteration=3, action="revert", metric=2, baseline=157, checks=failed, hypothesis="know it", tried="0" * 40)
    assert row_line(row, state).split() == ["3", "✗", "revert", "2", "failed:", "holdout", "know", "it"]
    skipped = Row(iteration=4, action="skip", reason="nothing was changed", hypothesis="again")
    assert "nothing was changed" in row_line(skipped, state)
    crashed = Row(iteration=5, action="crash", error="verify failed: exit code 1", hypothesis="again")
    assert "verify failed: exit code 1" in row_line(crashed, state)
    shown = iteration_lines(row, state, "Iteration 3 failed.")
    assert shown[0] == "Iteration 3 of perf/r1: revert"
    for line in (
        "Metric:  2, -155 (-98.7 %)",
        "Against: 157",
        "Lesson:  Iteration 3 failed.",
        "  ✗ holdout: no",
    ):
        assert line in shown
    assert "taken back" in shown[-1]


def test_noise_the_best_commit_and_the_way_on_of_a_loop_that_is_complete() -> None:
    state = LaneState(lane="perf", run_tag="r1", measured_by="runner", status="completed", best_metric=5, keeps=1)
    rows = [
        Row(iteration=0, action="baseline", metric=9, measurements=[9, 9, 9]),
        Row(iteration=1, action="keep", metric=5, measurements=[5, 5, 5], commit="0123456789abcdef"),
    ]
    shown = status_lines(state, rows)
    assert "Noise:   none was seen, so any gain counts" in shown
    assert "Best:    commit 0123456789ab (iteration 1)" in shown
    assert next_command(state) == "pi-marathon loop finalize perf/r1"
    assert next_command(state.with_(keeps=0)) == "pi-marathon loop run perf/r1"


def test_what_an_agent_wrote_does_not_act_on_the_terminal() -> None:
    walk = with_baseline()
    walk.iterate(hypothesis="\x1b[2Jclear\nNext: rm -rf /")
    walk.measure(80)
    walk.decide("keep", 80)
    lines = status_lines(walk.state.with_(goal="a\x1b]0;title\x07b\nc"), walk.rows)
    assert not any("\x1b" in line or "\x07" in line for line in lines)
    assert "Goal:    ab c" in lines
    assert not any(line.startswith("Next: rm") for line in lines)


def test_the_card_names_the_outcome_and_the_way_back() -> None:
    state = with_baseline().state.with_(status="paused", finished_at="2026-02-02T15:35:00Z")
    shown = card(state)
    assert len({len(line) for line in shown}) == 1
    text = "\n".join(shown)
    assert "Paused: perf/r1" in text
    assert "14:30 to 15:35 UTC, 1h 05m" in text
    assert "loop resume perf/r1" in text
    done = "\n".join(card(with_baseline(5, target_metric=9).state))
    assert "the target 9 is reached (5)" in done
    assert "resume" not in done
    assert "UTC" not in "\n".join(card(state.with_(started_at="yesterday")))


def test_the_brief_has_what_was_tried_and_no_budget() -> None:
    walk = with_baseline(guard_command="make test", verify_command="./bench", max_iterations=40)
    walk.iterate(hypothesis="cache it")
    walk.measure(200)
    walk.decide("revert", 200)
    walk.iterate()
    text = "\n".join(brief(walk.state, walk.rows, ["[now] Iteration 1 was worse."], whole=False))
    assert "cache it" in text
    assert "Iteration 1 was worse." in text
    assert "loop measure perf --value X --check 'guard=pass:make test'" in text
    assert "40" not in text
    assert "Goal: faster" in brief(walk.state, walk.rows, [], whole=True)


def test_a_list_names_a_loop_that_cannot_be_read() -> None:
    runs = [Run("perf", "r1", "running"), Run("a", "b", "paused")]
    lines = list_lines(runs, [LaneState(lane="perf", run_tag="r1", iteration=1), None])
    assert "1 iteration " in lines[0]
    assert "cannot be read" in lines[1]


def test_the_picture_and_the_page_are_whole_and_run_nothing_of_the_agent_s() -> None:
    walk = with_baseline(98, 100, 102, metric_name="<b>ms</b>")
    walk.iterate(hypothesis="<script>alert(1)</script>\x1b[2J")
    walk.measure(80, 81)
    walk.decide("keep", 80, 81)
    walk.turn(200)
    walk.rows.append(Row(iteration=3, action="crash", hypothesis="<u>boom"))
    picture = svg(walk.state, walk.rows)
    root = ElementTree.fromstring(picture)
    groups = [group for group in root if group.tag.endswith("g")]
    marks = [path.get("class") for group in groups for path in group if path.get("class")]
    assert marks == ["mark baseline", "mark kept", "mark reverted", "mark crashed"], "a shape for each verdict"
    html = page(walk.state.with_(goal="<img src=x>"), walk.rows, ["<i>learnt</i>"])
    for text in (picture, html):
        assert [part for part in ("<script", "<img", "<i>", "<b>", "<u>", "\x1b", "href=") if part in text] == []
    assert "&lt;i&gt;learnt" in html
    assert "no measurement yet" in svg(LaneState(lane="a", run_tag="b"), [])


def test_the_picture_multiplies_what_was_kept_and_shows_how_sure_it_is() -> None:
    """A drift of the machine between two iterations is no gain."""
    rows = [
        Row(iteration=0, action="baseline", metric=100.0, commit="a" * 40),
        Row(iteration=1, action="keep", metric=180.0, baseline=200.0, ratio=[0.9, 0.88, 0.92]),
        Row(iteration=2, action="revert", metric=200.0, baseline=200.0, ratio=[1.0, 0.98, 1.02]),
        Row(
            iteration=3, action="keep", metric=50.0, baseline=100.0, ratio=[0.5, 0.49, 0.51], doubtful="looks too good"
        ),
    ]
    picture = svg(LaneState(lane="perf", run_tag="r1", measured_by="runner"), rows)
    texts = [text.text for text in ElementTree.fromstring(picture).iter() if text.tag.endswith("text")]
    assert {"100 %", "44.1 %"} <= set(texts)
    assert picture.count('class="range"') == 3
    assert "looks too good" in picture
