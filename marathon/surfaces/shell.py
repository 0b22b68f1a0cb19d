"""The surface without a terminal: prints the gate and the commands that answer it, and asks nothing."""

from __future__ import annotations

from marathon.core.events import Notice, Sink
from marathon.core.gates import commands
from marathon.core.records import Answer
from marathon.surfaces.base import Elsewhere, GateView
from marathon.surfaces.gate_text import describe


class ShellSurface:
    interactive = False

    def __init__(self, emit: Sink, *, tells_code: bool = True) -> None:
        self._emit = emit
        self._tells_code = tells_code

    def ask(self, view: GateView, elsewhere: Elsewhere) -> Answer | None:
        answer = elsewhere()
        if answer is None:
            code = (view.code() if self._tells_code else "CODE") if view.code else ""
            offered = commands(view.offers, str(view.task), code)
            typed = [f"  {command.replace('pi-marathon', view.program, 1)}" for command in offered]
            how = "Answer it with one of:" if code else "Answer it at its own terminal (--answers-here)."
            lines = [*describe(view), how, *(typed if code else ()), f"then: {view.resume}"]
            self._emit(Notice("\n".join(lines)))
        return answer
