"""What the sessions of a task cost and how long they took, as a picture (SVG)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from marathon.core.text import clean, duration

_WIDTH, _BAR, _LABEL = 380, 50, 16
_COLOURS = ("#3b6ea8", "#8a6d1a", "#2a7d3f", "#8a4a8f", "#b3372f")


def session_plot(sessions: Sequence[Mapping[str, Any]]) -> str:
    """Two rows of bars, money above time, a colour for each phase."""
    if not sessions:
        return ""
    costs = [float((each["usage"] or {}).get("cost", 0)) for each in sessions]
    times = [float(each["seconds"]) for each in sessions]
    phases = list(dict.fromkeys(str(each["phase"]) for each in sessions))
    colours = [_COLOURS[phases.index(str(each["phase"])) % len(_COLOURS)] for each in sessions]
    names = [f"run {each['run']}, session {each['iteration']} ({each['phase']})" for each in sessions]
    height = 2 * (_BAR + _LABEL) + _LABEL + 6
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        'aria-label="Cost and time of each session">',
        _bars(0, f"cost, ${sum(costs):.2f}", costs, [f"${each:.2f}" for each in costs], names, colours),
        _bars(_BAR + _LABEL, f"time, {duration(sum(times))}", times, list(map(duration, times)), names, colours),
    ]
    for number, phase in enumerate(phases[: len(_COLOURS)]):
        x = number * _WIDTH // len(_COLOURS)
        parts.append(
            f'<rect x="{x}" y="{height - 12}" width="9" height="9" fill="{_COLOURS[number % len(_COLOURS)]}"/>'
        )
        parts.append(f'<text x="{x + 13}" y="{height - 3}" font-size="11">{escape(clean(phase[:12]))}</text>')
    return "".join(parts) + "</svg>"


def _bars(
    top: int, title: str, values: Sequence[float], told: Sequence[str], names: Sequence[str], colours: Sequence[str]
) -> str:
    most, step = max(values) or 1.0, _WIDTH / max(12, len(values))
    drawn = [f'<text x="0" y="{top + 12}" font-size="12">{escape(title)}</text>']
    for number, value in enumerate(values):
        tall = max(1.0, value / most * (_BAR - 6))
        x, y = number * step, top + _LABEL + _BAR - tall
        drawn.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(1.0, step - 2):.1f}" height="{tall:.1f}" '
            f'fill="{colours[number]}"><title>{escape(clean(names[number]))}: {told[number]}</title></rect>'
        )
    return "".join(drawn)
