"""A measured loop as a picture (SVG) and as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from marathon.core.lanes.model import LaneState, Row
from marathon.core.lanes.numbers import mad, number
from marathon.core.text import clean, one_line
from marathon.show.lanes import card, row_line

_WIDTH, _HEIGHT, _LEFT, _EDGE, _BELOW = 900, 380, 80, 30, 50
_MOST_LABELS = 20
_COLOURS = {"keep": "#2a7d3f", "revert": "#b3372f", "log": "#2f62b3", "baseline": "#444444"}
_COLOURS |= {"crash": "#d97706", "skip": "#888888", "blocked": "#7c3aed"}
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}"
    "body{color:#222;background:#fff}"
    "pre{overflow-x:auto;background:#f5f5f5;padding:1rem}svg{max-width:100%;height:auto}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}pre{background:#242424}svg{background:#fff}}"
)


def svg(state: LaneState, rows: Sequence[Row]) -> str:
    """A dot for every measured iteration, a step line through what was kept, and the band of its noise."""
    points = [(row, row.metric) for row in rows if row.metric is not None]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
    title = f"<title>{_text(state.name)}: {_text(state.metric_name or 'metric')}</title>"
    if not points:
        return f'{head}{title}<text x="20" y="40">There is no measurement yet.</text></svg>\n'
    moves = ("baseline", "keep", *(["log"] if state.acceptance == "log" else []))
    kept = [(row, metric) for row, metric in points if row.action in moves]
    last = max(row.iteration for row in rows)
    scale = _Scale([metric for _, metric in points], last)
    parts = [head, title, _axis(scale, state), _iterations(scale, last), _legend(rows)]
    parts += [_band(scale, kept), _line(scale, kept)]
    parts += [_dot(scale, row, metric, state) for row, metric in points]
    parts += [_cross(scale, row, state) for row in rows if row.metric is None and not row.is_mark]
    return "\n".join(filter(None, parts)) + "\n</svg>\n"


def page(state: LaneState, rows: Sequence[Row], lessons: Sequence[str]) -> str:
    """The picture with the numbers and lessons, in one file."""
    done = "\n".join(row_line(row, state) for row in rows if not row.is_mark)
    told = "\n".join(one_line(text, 400) for text in lessons)
    sections = [("Iterations", done), ("Lessons", told)]
    body = "".join(f"<h2>{name}</h2><pre>{_text(text)}</pre>" for name, text in sections if text)
    summary = _text("\n".join(line[2:-2].rstrip() for line in card(state)[1:-1]))
    head = f'<meta charset="utf-8"><title>{_text(state.name)}</title><style>{_STYLE}</style>'
    goal = _text(one_line(state.goal or state.name, 200))
    top = f"<h1>{goal}</h1><pre>{summary}</pre>{svg(state, rows)}"
    return f'<!doctype html><html lang="en">{head}{top}{body}</html>\n'


class _Scale:
    """From a metric and an iteration to a place in the picture."""

    def __init__(self, metrics: Sequence[float], last: int) -> None:
        self.low, self.high = min(metrics), max(metrics)
        self._last = max(1, last)

    def x(self, iteration: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _EDGE) * iteration / self._last

    def y(self, metric: float) -> float:
        span = self.high - self.low
        share = (min(max(metric, self.low), self.high) - self.low) / span if span else 0.5
        return _HEIGHT - _BELOW - (_HEIGHT - _BELOW - _EDGE) * share


def _axis(scale: _Scale, state: LaneState) -> str:
    levels = {scale.low, scale.high, *([state.target_metric] if state.target_metric is not None else [])}
    lines = [
        f'<line x1="{_LEFT}" x2="{_WIDTH - _EDGE}" y1="{scale.y(level):.1f}" y2="{scale.y(level):.1f}" stroke="#ddd"/>'
        f'<text x="{_LEFT - 8}" y="{scale.y(level) + 4:.1f}" font-size="12" text-anchor="end">{number(level)}</text>'
        for level in sorted(levels)
        if scale.low <= level <= scale.high
    ]
    named = f"{state.metric_name or 'metric'}, {state.metric_direction} is better"
    return "".join(lines) + f'<text x="{_LEFT}" y="16" font-size="13">{_text(named)}</text>'


def _line(scale: _Scale, kept: Sequence[tuple[Row, float]]) -> str:
    if not kept:
        return ""
    path = f"M{scale.x(kept[0][0].iteration):.1f} {scale.y(kept[0][1]):.1f}"
    path += "".join(f"H{scale.x(row.iteration):.1f}V{scale.y(metric):.1f}" for row, metric in kept[1:])
    path += f"H{_WIDTH - _EDGE}"  # it still holds
    return f'<path d="{path}" fill="none" stroke="{_COLOURS["keep"]}" stroke-width="2"/>'


def _band(scale: _Scale, kept: Sequence[tuple[Row, float]]) -> str:
    """Twice the spread around what a candidate has to beat now."""
    if not kept or len(kept[-1][0].measurements or ()) < 2:
        return ""
    row, metric = kept[-1]
    reach = 2 * mad(row.measurements or [])
    top, bottom = scale.y(metric + reach), scale.y(metric - reach)
    start = scale.x(row.iteration)
    return (
        f'<rect x="{start:.1f}" y="{top:.1f}" width="{max(4.0, _WIDTH - _EDGE - start):.1f}" '
        f'height="{max(1.0, bottom - top):.1f}" fill="{_COLOURS["keep"]}" opacity="0.12"/>'
    )


def _dot(scale: _Scale, row: Row, metric: float, state: LaneState) -> str:
    colour = _COLOURS.get(row.action, "#888888")
    told = _text(" ".join(row_line(row, state).split()))
    return (
        f'<circle cx="{scale.x(row.iteration):.1f}" cy="{scale.y(metric):.1f}" r="4" fill="{colour}">'
        f"<title>{told}</title></circle>"
    )


def _cross(scale: _Scale, row: Row, state: LaneState) -> str:
    """An iteration without a number, at the edge."""
    x, y = scale.x(row.iteration), _HEIGHT - _BELOW + 10
    told = _text(" ".join(row_line(row, state).split()))
    colour = _COLOURS.get(row.action, "#888888")
    path = f"M{x - 4:.1f} {y - 4}l8 8m0 -8l-8 8"
    return f'<path d="{path}" stroke="{colour}" stroke-width="2" fill="none"><title>{told}</title></path>'


def _iterations(scale: _Scale, last: int) -> str:
    """The numbers of the iterations below the picture, not too many of them."""
    step = max(1, -(-last // _MOST_LABELS))
    return "".join(
        f'<text x="{scale.x(each):.1f}" y="{_HEIGHT - 18}" font-size="12" text-anchor="middle">{each}</text>'
        for each in range(0, last + 1, step)
    )


def _legend(rows: Sequence[Row]) -> str:
    """What the colours mean, for the actions that are in the picture. A cross is an iteration without a number."""
    shown = [name for name in _COLOURS if any(row.action == name for row in rows)]
    places = range(_WIDTH - _EDGE - 80 * len(shown), _WIDTH, 80)
    return "".join(
        f'<rect x="{x}" y="8" width="8" height="8" fill="{_COLOURS[name]}"/>'
        f'<text x="{x + 12}" y="16" font-size="12">{name}</text>'
        for x, name in zip(places, shown, strict=False)
    )


def _text(text: str) -> str:
    return escape(clean(text))
