"""A measured loop as a picture (SVG) and as one HTML page that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from marathon.core.lanes.model import LaneState, Row
from marathon.core.lanes.numbers import number
from marathon.core.text import clean, one_line
from marathon.show.lanes import card, row_line

_WIDTH, _HEIGHT, _LEFT, _EDGE, _BELOW = 900, 400, 80, 30, 60
_MOST_LABELS = 20
_SHAPES = {
    "baseline": "M-5 0H5M0 -5V5",
    "kept": "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0 -5 0Z",
    "logged": "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z",
    "reverted": "M0 -6L6 0L0 6L-6 0Z",
    "failed check": "M-5 -5H5V5H-5Z",
    "crashed": "M-5 -5L5 5M5 -5L-5 5",
    "not tried": "M-5 0H5",
}
_VERDICTS = {"baseline": "baseline", "keep": "kept", "log": "logged", "crash": "crashed", "confirmed": "kept"}
_STYLE = (
    ":root{color-scheme:light dark;--ink:#222;--paper:#fff;--faint:#ddd;--kept:#2a7d3f;--not:#b3372f;--odd:#b45f06}"
    "@media(prefers-color-scheme:dark){:root{--ink:#ddd;--paper:#181818;--faint:#444;--kept:#6cc483;--not:#ef8079;"
    "--odd:#e5a35a}}"
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}"
    "body{color:var(--ink);background:var(--paper)}"
    "pre{overflow-x:auto;padding:1rem;border:1px solid var(--faint)}svg{width:100%;height:auto}"
)
_DRAWN = (
    "text{fill:var(--ink,#222);font:13px system-ui,sans-serif}.axis{stroke:var(--faint,#ddd)}"
    ".line,.range,.mark{fill:none;stroke-width:2;stroke:var(--ink,#222)}.line,.kept,.logged{stroke:var(--kept,#2a7d3f)}"
    ".kept,.logged{fill:var(--kept,#2a7d3f)}.reverted{stroke:var(--not,#b3372f)}.range{opacity:.5;stroke-width:1.5}"
    ".failed,.crashed{stroke:var(--odd,#b45f06)}"
)


class Point(NamedTuple):
    """A row where it stands: its value, as a share of the beginning where that means something, and its interval."""

    row: Row
    value: float
    low: float
    high: float


def svg(state: LaneState, rows: Sequence[Row]) -> str:
    """A shape for every iteration by what became of it, and a step line through what was kept."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
    title = f"<title>{_text(state.name)}: {_text(state.metric_name or 'metric')}</title><style>{_DRAWN}</style>"
    points = _points(rows)
    if not points:
        return f'{head}{title}<text x="20" y="40">There is no measurement yet.</text></svg>\n'
    scale = _Scale(points, max(row.iteration for row in rows))
    moves = ("baseline", "keep", *(["log"] if state.acceptance == "log" else []))
    parts = [head, title, _axis(scale, state), _iterations(scale), _legend(rows)]
    parts.append(_line(scale, [point for point in points if point.row.action in moves]))
    parts += [
        _mark(scale.x(each.row.iteration), scale.y(each.value), each.row, state, _range(scale, each)) for each in points
    ]
    unmeasured = [row for row in rows if row.metric is None and not row.is_mark]
    parts += [_mark(scale.x(row.iteration), _HEIGHT - _BELOW + 14, row, state) for row in unmeasured]
    return "\n".join(filter(None, parts)) + "\n</svg>\n"


def page(state: LaneState, rows: Sequence[Row], lessons: Sequence[str]) -> str:
    """The picture with the numbers and lessons, in one file."""
    done = "\n".join(row_line(row, state) for row in rows if not row.is_mark)
    told = "\n".join(one_line(text, 400) for text in lessons)
    sections = [("Iterations", done), ("Lessons", told)]
    body = "".join(f"<h2>{name}</h2><pre>{_text(text)}</pre>" for name, text in sections if text)
    summary = _text("\n".join(line[2:-2].rstrip() for line in card(state, rows)[1:-1]))
    view = '<meta name="viewport" content="width=device-width,initial-scale=1">'
    head = f'<meta charset="utf-8">{view}<title>{_text(state.name)}</title><style>{_STYLE}</style>'
    goal = _text(one_line(state.goal or state.name, 200))
    top = f"<h1>{goal}</h1><pre>{summary}</pre>{svg(state, rows)}"
    return f'<!doctype html><html lang="en">{head}{top}{body}</html>\n'


def _points(rows: Sequence[Row]) -> list[Point]:
    """As shares of the beginning, where every number is above 0: what was kept is multiplied, drift cancels out."""
    measured = [(row, row.metric) for row in rows if row.metric is not None and row.action != "confirmed"]
    if not measured or min(metric for _, metric in measured) <= 0:
        return [Point(row, metric, metric, metric) for row, metric in measured]
    found, before, first = list[Point](), 1.0, measured[0][1]
    for row, metric in measured:
        middle, low, high = row.ratio or (metric / first / before,) * 3
        found.append(Point(row, before * middle, before * low, before * high))
        if row.action in ("keep", "log"):
            before = found[-1].value
    return found


class _Scale:
    """From a value and an iteration to a place in the picture. Shares of the beginning stand on a logarithmic axis."""

    def __init__(self, points: Sequence[Point], last: int) -> None:
        self.shares = min(point.low for point in points) > 0
        self.low, self.high = min(point.low for point in points), max(point.high for point in points)
        self.last = max(1, last)

    def x(self, iteration: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _EDGE) * iteration / self.last

    def y(self, value: float) -> float:
        low, high, at = (math.log(each) if self.shares else each for each in (self.low, self.high, value))
        share = (min(max(at, low), high) - low) / (high - low) if high > low else 0.5
        return _HEIGHT - _BELOW - (_HEIGHT - _BELOW - _EDGE) * share

    def said(self, value: float) -> str:
        return f"{100 * value:.4g} %" if self.shares else number(value)


def _axis(scale: _Scale, state: LaneState) -> str:
    levels = {scale.low, scale.high, *([1.0] if scale.shares and scale.low < 1 < scale.high else [])}
    lines = [
        f'<path class="axis" d="M{_LEFT} {scale.y(level):.1f}H{_WIDTH - _EDGE}"/>'
        f'<text x="{_LEFT - 8}" y="{scale.y(level) + 4:.1f}" text-anchor="end">{scale.said(level)}</text>'
        for level in sorted(levels)
    ]
    of = " of the beginning" if scale.shares else ""
    named = f"{state.metric_name or 'metric'}{of}, {state.metric_direction} is better"
    return "".join(lines) + f'<text x="{_LEFT}" y="16">{_text(named)}</text>'


def _line(scale: _Scale, kept: Sequence[Point]) -> str:
    if not kept:
        return ""
    path = f"M{scale.x(kept[0].row.iteration):.1f} {scale.y(kept[0].value):.1f}"
    path += "".join(f"H{scale.x(each.row.iteration):.1f}V{scale.y(each.value):.1f}" for each in kept[1:])
    return f'<path class="line" d="{path}H{_WIDTH - _EDGE}"/>'  # it still holds


def _range(scale: _Scale, point: Point) -> str:
    if point.low == point.high:
        return ""
    x, low, high = scale.x(point.row.iteration), scale.y(point.low), scale.y(point.high)
    return f'<path class="range" d="M{x:.1f} {low:.1f}V{high:.1f}"/>'


def _mark(x: float, y: float, row: Row, state: LaneState, around: str = "") -> str:
    """The shape of an iteration. Its reason shows under the pointer."""
    why = row.doubtful or row.error or row.acceptance_reason or row.reason or ""
    line = " ".join(row_line(row, state).split())
    told = _text(line if not why or why in line else f"{line} ({one_line(why, 200)})")
    verdict = _verdict(row)
    shape = f'<path class="mark {verdict}" d="{_SHAPES[verdict]}" transform="translate({x:.1f} {y:.1f})"/>'
    return f"<g><title>{told}</title>{around}{shape}</g>"


def _verdict(row: Row) -> str:
    if row.action == "revert":
        return "failed check" if any(not each.passed for each in row.checks or ()) else "reverted"
    return _VERDICTS.get(row.action, "not tried")


def _iterations(scale: _Scale) -> str:
    """The numbers of the iterations below the picture, not too many of them."""
    step = max(1, -(-scale.last // _MOST_LABELS))
    return "".join(
        f'<text x="{scale.x(each):.1f}" y="{_HEIGHT - 28}" text-anchor="middle">{each}</text>'
        for each in range(0, scale.last + 1, step)
    )


def _legend(rows: Sequence[Row]) -> str:
    """What the shapes mean, for those that are in the picture."""
    there = {_verdict(row) for row in rows if not row.is_mark or row.action == "baseline"}
    shown = [name for name in _SHAPES if name in there]
    return "".join(
        f'<path class="mark {name}" d="{_SHAPES[name]}" transform="translate({_LEFT + 10 + 115 * at} {_HEIGHT - 9})"/>'
        f'<text x="{_LEFT + 22 + 115 * at}" y="{_HEIGHT - 5}">{name}</text>'
        for at, name in enumerate(shown)
    )


def _text(text: str) -> str:
    return escape(clean(text))
