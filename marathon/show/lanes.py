"""Measured loops as a person reads them: status, list, the card at the end, and what to do in an iteration."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from marathon.core.lanes.model import ActiveIteration, Check, LaneState, Row
from marathon.core.lanes.names import Run
from marathon.core.lanes.numbers import change, confidence, mad, number
from marathon.core.lanes.rules import MOST_PIVOTS, end_of
from marathon.core.lanes.verbs import command, continue_command, decide_command, measure_command
from marathon.core.text import clean, counted, duration, one_line

_BARS = "▁▂▃▄▅▆▇█"
_WIDEST = 60
_SIGNS = {"keep": "✓", "revert": "✗", "log": "·", "skip": "–", "crash": "!", "blocked": "■"}
_MARKS = {"baseline": "0", "resumed": ">", "paused": "|", "stopped": "|", "confirmed": "="}
_TRIED = 8


def sparkline(values: Sequence[float]) -> str:
    """A bar for each value, the last of them if there are many."""
    shown = list(values)[-_WIDEST:]
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    steps = len(_BARS) - 1
    return "".join(_BARS[round((value - low) / (high - low) * steps) if high > low else 0] for value in shown)


def status_lines(
    state: LaneState, rows: Sequence[Row], lessons: Sequence[str] = (), *, at_work: bool = False
) -> list[str]:
    measured = [row for row in rows if row.metric is not None]
    facts = [
        ("Loop", f"{state.name}  ({state.status})"),
        ("Goal", one_line(state.goal or "", 300)),
        ("Mode", f"{state.mode}, {_accepts(state)}, measured by the {state.measured_by or 'first who measures'}"),
        ("Verify", one_line(state.verify_command or "", 300)),
        ("Guard", one_line(state.guard_command or "", 300)),
        ("Judge", one_line(state.prompt_verifier or "", 300)),
        ("Also", one_line(", ".join(state.also or ()), 300)),
        ("Time", "our own clock" if state.timed else ""),
        ("Setup", one_line(state.setup_command or "", 300)),
        ("Only", one_line(", ".join(state.only_paths or ()), 300)),
        ("Frozen", one_line(", ".join(state.frozen_paths or ()), 300)),
        ("Metric", _metric(state)),
        ("Noise", _noise(rows)),
        ("Rule", _rule(state)),
        ("Gained", _gained(rows)),
        ("Course", sparkline([row.metric or 0.0 for row in measured]) if len(measured) > 1 else ""),
        ("", "".join(map(_sign, measured[-_WIDEST:])) if len(measured) > 1 else ""),
        ("Done", _counts(state)),
        ("Ladder", _ladder(state)),
        ("Bounds", _bounds(state)),
        ("Best", _best_commit(state, rows)),
        ("Tip", _tip(state, rows)),
        ("Look", ", ".join(f"iteration {row.iteration} {row.doubtful}" for row in rows if row.doubtful)),
        ("Now", _now(state)),
    ]
    lines = [f"{label + ':' if label else '':9}{value}" for label, value in facts if value]
    done = [row for row in rows if not row.is_mark]
    if done:
        lines += ["Last iterations:", *(f"  {row_line(row, state)}" for row in done[-_TRIED:])]
    if lessons:
        lines += ["Last lessons:", *(f"  {one_line(text, 240)}" for text in lessons[-3:])]
    if not at_work:  # there is nothing to type while a runner works
        lines.append(f"{'Next:':9}{next_command(state)}")
    return [clean(line) for line in lines]


def row_line(row: Row, state: LaneState) -> str:
    """An iteration on one line: its number, what came of it, the metric, what was tried."""
    figure = "" if row.metric is None else number(row.metric)
    tried = one_line(row.hypothesis or row.changes or row.reason or "", 80)
    return f"{row.iteration:>4} {_sign(row)} {row.action:8} {figure:>10}  {_outcome(row, state):32} {tried}".rstrip()


def settled_line(state: LaneState, row: Row) -> str:
    """What a new row says, and why."""
    if row.action == "baseline":
        return f"Baseline {number(row.metric or 0)}: {one_line(row.reason or '', 200)}."
    if row.is_mark and row.action != "confirmed":
        return f"{row.action.capitalize()}: {one_line(row.reason or 'the ladder starts anew', 200)}."
    if row.action == "confirmed":
        return f"In all: {gained(row)}."
    figures = ", ".join(filter(None, ("" if row.metric is None else number(row.metric), _moved(row, state))))
    why = one_line(row.error or row.acceptance_reason or row.reason or "", 200)
    doubt = f" It {row.doubtful}." if row.doubtful else ""
    said = f"Iteration {row.iteration} {_sign(row)} {row.action} {figures}".rstrip()
    return said + (f": {why}." if why else ".") + doubt


def _outcome(row: Row, state: LaneState) -> str:
    """Which checks failed, else how far the metric moved, else why there is none."""
    if failed := [one_line(each.name, 60) for each in row.checks or () if not each.passed]:
        return f"failed: {', '.join(failed)}"
    if moved := _moved(row, state):
        return moved
    return one_line(row.error or row.reason or "", 42) if row.metric is None and (row.hypothesis or row.changes) else ""


def _sign(row: Row) -> str:
    return _SIGNS.get(row.action) or _MARKS.get(row.action, "?")


def iteration_lines(row: Row, state: LaneState, lesson: str) -> list[str]:
    """Everything that is known of one iteration but its diff."""
    against = "" if row.metric is None or row.baseline is None else number(row.baseline)
    named = f"Iteration {row.iteration} of {state.name}: {row.action}"
    facts = [
        ("Tried", one_line(row.hypothesis or "", 400)),
        ("Metric", "" if row.metric is None else ", ".join(filter(None, (number(row.metric), _moved(row, state))))),
        ("Changes", one_line(row.changes or "", 400)),
        ("Numbers", " ".join(map(number, row.measurements or ()))),
        ("Against", " ".join(map(number, row.reference_measurements or ())) or against),
        ("Because", one_line(row.acceptance_reason or row.reason or "", 400)),
        ("Error", one_line(row.error or "", 400)),
        ("Lesson", one_line(lesson, 400)),
        ("Commit", one_line(row.commit or "", 60)),
    ]
    lines = [named, *(f"{label + ':':9}{value}" for label, value in facts if value)]
    if checks := check_lines(row.checks or ()):
        lines += ["Checks:", *checks]
    if row.tried:
        lines.append("The change was taken back. This is what it was:")
    return [clean(line) for line in lines]


def _moved(row: Row, state: LaneState) -> str:
    if row.metric is None or row.baseline is None:
        return ""
    told = change(row.metric, row.baseline, state.metric_direction)
    return told if row.action == "keep" else told.removesuffix(", improved")  # one that was not sure is none


def list_lines(runs: Sequence[Run], states: Sequence[LaneState | None]) -> list[str]:
    """A line per loop. A loop whose files cannot be read has no state."""
    width = max([len(run.name) for run in runs], default=0)
    lines = []
    for run, state in zip(runs, states, strict=True):
        if state is None:
            lines.append(f"{run.name:{width}}  cannot be read; see: pi-marathon loop status {run.name}")
            continue
        best = "no baseline" if state.best_metric is None else f"best {number(state.best_metric)}"
        done = counted(state.iteration, "iteration")
        goal = one_line(state.goal or "", 60)
        lines.append(f"{run.name:{width}}  {run.status:9}  {state.mode:9}  {done:14}  {best:18}  {goal}")
    return [clean(line).rstrip() for line in lines]


def card(state: LaneState, rows: Sequence[Row] = ()) -> list[str]:
    """The summary of a lane that was paused, stopped or completed."""
    facts = [
        f"{state.status.capitalize()}: {state.name}",
        one_line(state.goal or "", 70),
        _span(state),
        _gained(rows) or _metric(state),
        *[f"Iteration {row.iteration} {row.doubtful}" for row in rows if row.doubtful],
        f"{state.mode}: {_counts(state)}",
        end_of(state) if state.status == "completed" else "",
        f"To continue: {continue_command(state)}" if state.status in ("paused", "stopped") else "",
    ]
    lines = [clean(fact) for fact in facts if fact]
    width = max(map(len, lines))
    return [f"╭{'─' * (width + 2)}╮", *(f"│ {line:{width}} │" for line in lines), f"╰{'─' * (width + 2)}╯"]


def brief(state: LaneState, rows: Sequence[Row], lessons: Sequence[str], *, whole: bool) -> list[str]:
    """What an agent needs for the iteration that it starts. Every tenth time it is told everything again."""
    active = state.active_iteration
    lines = [f"Iteration {active.iteration if active else state.iteration + 1} of {state.name}."]
    if whole:
        lines += [f"Goal: {one_line(state.goal or '', 2000)}", f"So far: {_counts(state)}. {_ladder(state)}"]
    lines.append(f"To beat: {number(state.reference)}" if state.reference is not None else "There is no baseline yet.")
    tried = [row for row in rows if not row.is_mark and (row.hypothesis or row.changes)][-_TRIED:]
    if tried:
        lines += ["Already tried:", *(f"  {row_line(row, state)}" for row in tried)]
    if lessons:
        lines += ["Lessons:", *(f"  {one_line(text, 240)}" for text in lessons[-(10 if whole else 3) :])]
    verify = f", then run verify: {one_line(state.verify_command, 2000)}" if state.verify_command else "."
    lines.append(f"Make one change{verify}")
    if state.guard_command:
        lines.append(f"Then the guard: {one_line(state.guard_command, 2000)}")
    if state.prompt_verifier:
        lines.append(f"Then judge: {one_line(state.prompt_verifier, 2000)}")
    lines.append(f"Then: {measure_command(state)}")
    return [clean(line) for line in lines]


def measured_lines(state: LaneState, active: ActiveIteration, reference: float) -> list[str]:
    """What a measurement says, each verdict, and the command that follows from it."""
    values = active.measurements or []
    samples = counted(len(values), "sample")
    metric = active.metric if active.metric is not None else 0.0
    moved = change(metric, reference, state.metric_direction)
    moved = moved.removesuffix(", improved") if "did not improve" in (active.acceptance_reason or "") else moved
    lines = [
        f"Iteration {active.iteration}: {number(metric)} against {number(reference)}: {moved}",
        f"Spread {number(mad(values))}, {samples}, {confidence(values)} confidence.",
        *check_lines(active.checks or ()),
        f"{(active.acceptance_reason or '').capitalize()}.",
        f"Next: {decide_command(state, active, active.recommended_action or 'log')}",
    ]
    return [clean(line) for line in lines]


def check_lines(checks: Sequence[Check]) -> list[str]:
    return [
        clean(
            f"  {'✓' if each.passed else '✗'} {one_line(each.name, 80)}"
            + (f": {one_line(each.evidence, 200)}" if each.evidence else "")
            + (f" ({one_line(about, 200)})" if (about := each.command or each.prompt) and not each.passed else "")
        )
        for each in checks
    ]


def next_command(state: LaneState, *, by_hand: bool = False) -> str:
    """What to type next. `by_hand`: by who changes the tree, and not by who has an agent do it."""
    active = state.active_iteration
    if by_hand and state.status == "running" and state.measured_by == "runner":
        return command("try", state)
    if by_hand and state.status == "running" and state.baseline is None and not active and _may_try(state):
        return command("try", state)
    if state.status == "archived":
        return f"it is archived; a new run: pi-marathon loop start … --lane {state.lane}"
    if state.status == "completed" and state.measured_by == "runner" and state.keeps:
        return command("finalize", state, exact=True)
    if state.status != "running":
        return continue_command(state)
    if state.measured_by == "runner":
        return command("run", state)
    if state.baseline is None or (active and active.phase == "started"):
        return measure_command(state)
    return decide_command(state, active, active.recommended_action or "log") if active else command("iterate", state)


def gained(row: Row) -> str:
    """The beginning against what was kept, measured at the end: the number that can be told to others."""
    if row.error:
        return f"not confirmed ({one_line(row.error, 200)})"
    figures = f"{number(row.baseline or 0)} → {number(row.metric or 0)}"
    if not row.ratio:
        return figures
    middle, low, high = (100 * (each - 1) for each in row.ratio)
    return f"{figures}, {middle:+.1f} % (95 %: {low:+.1f} to {high:+.1f} %)"


def _gained(rows: Sequence[Row]) -> str:
    last = [row for row in rows if row.action in ("keep", "confirmed")][-1:]
    if not last or not any(row.tree for row in rows):
        return ""
    return gained(last[0]) if last[0].action == "confirmed" else "not confirmed yet"


def _rule(state: LaneState) -> str:
    if state.measured_by != "runner" or state.acceptance == "log":
        return ""
    gain = f", at least {100 * state.min_gain:.3g} % better" if state.min_gain else ""
    return f"{state.rule or 'strict'}: blocks of two runs of each tree, in an order that is drawn{gain}"


def _tip(state: LaneState, rows: Sequence[Row]) -> str:
    kept = [row.commit for row in rows if row.commit]
    if not kept or state.measured_by != "runner":
        return ""
    return f"{(kept[-1] or '')[:12]}" + ("" if state.in_place else f" on the branch multiloop/{state.name}")


def _may_try(state: LaneState) -> bool:
    return bool(state.verify_command and state.measured_by is None and not state.prompt_verifier)


def _accepts(state: LaneState) -> str:
    return "keeps only what improves" if state.acceptance == "keep-revert" else "logs every result"


def _metric(state: LaneState) -> str:
    if state.best_metric is None or state.baseline is None:
        return f"{state.metric_name or 'metric'}, {state.metric_direction} is better; no baseline yet"
    name = one_line(state.metric_name or "metric", 60)
    best = f"{name}: best {number(state.best_metric)} (baseline {number(state.baseline)})"
    moved = change(state.best_metric, state.baseline, state.metric_direction)
    return f"{best}, {moved}; {state.metric_direction} is better"


def _noise(rows: Sequence[Row]) -> str:
    """The spread of the numbers that the reference rests on."""
    kept = [row for row in rows if row.action in ("baseline", "keep") and len(row.measurements or ()) > 1]
    if not kept:
        return ""
    if kept[0].noise is not None:
        return one_line(next(row.reason or "" for row in kept if row.noise is not None), 200)
    values = kept[-1].measurements or []
    band = mad(values)
    if band == 0:
        return "none was seen, so any gain counts"
    return f"± {number(band)}; a gain has to be more than {number(2 * band)}"


def _counts(state: LaneState) -> str:
    names = {"kept": state.keeps, "reverted": state.reverts, "logged": state.logs, "crashed": state.crashes}
    names["blocked"] = state.blocked
    names["skipped"] = state.iteration - sum(names.values())
    done = [f"{count} {name}" for name, count in names.items() if count > 0]
    return ", ".join([counted(state.iteration, "iteration"), *done])


def _ladder(state: LaneState) -> str:
    if not state.consecutive_failures and not state.pivot_count:
        return ""
    return (
        f"{counted(state.consecutive_failures, 'failure')} in a row, {state.pivot_count} of {MOST_PIVOTS} pivots used"
    )


def _bounds(state: LaneState) -> str:
    target = f"target {number(state.target_metric)}" if state.target_metric is not None else ""
    cap = f"at most {state.max_iterations} iterations" if state.max_iterations is not None else ""
    plateau = f"a gain every {state.plateau} iterations" if state.plateau is not None else ""
    samples = f"at least {state.min_measurements} samples" if state.min_measurements else ""
    return ", ".join(filter(None, (target, cap, plateau, samples)))


def _best_commit(state: LaneState, rows: Sequence[Row]) -> str:
    best = [row for row in rows if row.commit and row.metric is not None and row.metric == state.best_metric]
    return f"commit {(best[-1].commit or '')[:12]} (iteration {best[-1].iteration})" if best else ""


def _now(state: LaneState) -> str:
    active = state.active_iteration
    if active is None:
        return ""
    about = f": {one_line(active.hypothesis, 100)}" if active.hypothesis else ""
    due = f", {active.recommended_action} is due" if active.phase == "measured" else ""
    return f"iteration {active.iteration} {active.phase}{due}{about}"


def _span(state: LaneState) -> str:
    """From when to when. A time that cannot be read leaves the line out."""
    try:
        start = datetime.fromisoformat(state.started_at)
        end = datetime.fromisoformat(state.finished_at or state.last_updated)
        seconds = max(0.0, (end - start).total_seconds())
    except (ValueError, TypeError):
        return ""
    form = "%H:%M" if start.date() == end.date() else "%Y-%m-%d %H:%M"
    return f"{start.strftime(form)} to {end.strftime(form)} UTC, {duration(seconds)}"
