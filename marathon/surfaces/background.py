"""The surface without a terminal and without an end: a gate stays open until an answer comes from elsewhere."""

from __future__ import annotations

from marathon.core.records import Answer
from marathon.process.signals import Signals
from marathon.surfaces.base import Elsewhere, GateView

LOOK_AGAIN = 0.5


class BackgroundSurface:
    interactive = False

    def __init__(self, signals: Signals) -> None:
        self._signals = signals

    def ask(self, view: GateView, elsewhere: Elsewhere) -> Answer | None:
        """The answer from attach, from a shell or from the page."""
        while (answer := elsewhere()) is None:
            self._signals.pause(LOOK_AGAIN)
        return answer
