"""Makes docs/gate.svg and docs/stream.svg from a real run: `python -m docs.pictures` in the root of the checkout.

The whole program runs with the real pi on a terminal of its own; only the model's words come from a script.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from unicodedata import category

from rich.cells import cell_len as cells
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.process.driver import Pty
from tests.real.install import ensure_pi
from tests.real.model_server import Request, ToolCall, Turn, bash, by_phase
from tests.real.real_world import RealWorld

HERE = Path(__file__).resolve().parent
COLUMNS, ROWS = 100, 34
TASK = "docs/tasks/20260202-143000-rate-limits-for-the-api"
COMMAND = f"pi-marathon --task {TASK} --mode stream\n".encode()
STEERING = b"per key, not per address: our users share one proxy"

PROJECT = {
    "api/app.py": """\
from api.keys import owner_of

def handle(request):
    owner = owner_of(request.key)
    return route(request, owner)
""",
    "api/admin.py": "def handle(request):\n    return report(request)\n",
    "tests/test_app.py": """\
import time, unittest

class Slow(unittest.TestCase):
    def test_it(self):
        time.sleep(60)
""",
    f"{TASK}/instructions.md": "# Rate limits for the API\n\nA client that asks too often is told to wait.\n",
}
RESEARCH = """\
# Research

- Every request passes `api/app.py: handle`: the key is known there, and no work is done yet.
- The admin pages have a door of their own (`api/admin.py`) and are left as they are.
"""
PLAN = "# Plan\n\n- [ ] 1. a bucket per key\n- [ ] 2. 429 with Retry-After\n- [ ] 3. tests with their own clock\n"
NOTE = "Limits belong into api/app.py: handle. The admin pages have their own door: leave them?"


# The model


def turn(text: str, *tools: ToolCall, thinking: str = "", hold: threading.Event | None = None) -> Turn:
    return Turn(text, thinking, tools, prompt_tokens=11_800, cached_tokens=9_200, completion_tokens=420, hold=hold)


def read(path: str) -> ToolCall:
    return ToolCall("read", {"path": path})


def write(name: str, text: str) -> ToolCall:
    return ToolCall("write", {"path": f"{TASK}/{name}", "content": text})


def research(request: Request) -> list[Turn]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    state = {"state": "paused", "phase": "research", "iteration": 1, "updatedAt": now, "note": NOTE}
    return [
        turn(
            "I look for the place every request passes.",
            bash("grep -rn 'def handle' api"),
            thinking="A limit belongs where the key is known, and before any work is done.",
        ),
        turn("Two doors. I write down what I found.", write("research.md", RESEARCH)),
        turn("", write("STATE.json", json.dumps(state))),
        turn("Research is complete; the plan comes after your review."),
    ]


def plan(steered: threading.Event) -> list[Turn]:
    return [
        turn(
            "I start from the research.",
            read(f"{TASK}/research.md"),
            thinking="The instructions leave open who counts as one client. The nearest thing at hand is the address.",
        ),
        turn("It names one place: I look at that.", read("api/app.py")),
        turn(
            "One bucket per client address, refilled every second: no store is needed for that, and a client that\n"
            "asks too often gets 429 with Retry-After. Now I look at what the clients send.",
            bash("grep -rn request api | head -20"),
            hold=steered,
        ),
        turn(
            "Understood: one bucket per key. It is known in handle() already, so nothing else changes.",
            write("plan.md", PLAN),
            thinking="Behind a shared proxy all users would have shared one limit. The key is the better choice.",
        ),
        turn("Before I end: do the tests pass as they are?", bash("python -m unittest discover -s tests")),
    ]


# The terminal


class Glass:
    """What a terminal shows: the little of its language that pi-marathon speaks. Anything else is a mistake."""

    _TOKEN = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|([\r\n\a])|(.)\ufe0f?", re.DOTALL)

    def __init__(self) -> None:
        self._rows: list[dict[int, tuple[str, str]]] = [{}]
        self._row = self._column = 0
        self._style = ""

    def feed(self, data: bytes) -> None:
        for codes, command, control, character in self._TOKEN.findall(data.decode()):
            if command and not codes.startswith("?"):
                self._obey(command, codes)
            elif control == "\r":
                self._column = 0
            elif control == "\n":
                self._down()
            elif character:
                self._put(character)

    def lines(self) -> Iterator[Text]:
        """The rows the window has, the last ones."""
        empty: list[dict[int, tuple[str, str]]] = [{}] * (ROWS - len(self._rows))
        for row in (self._rows + empty)[-ROWS:]:
            shown: list[tuple[str, str]] = []
            for column, cell in sorted(row.items()):
                shown += [(" ", "")] * (column - sum(cells(character) for character, _ in shown)) + [cell]
            runs = groupby(shown, key=lambda cell: (cell[1], _is_sign(cell[0])))
            yield Text.assemble(*(_run("".join(text for text, _ in run), *key) for key, run in runs))

    def _put(self, character: str) -> None:
        assert character[0].isprintable(), f"a terminal would act on {character!r}"
        if self._column + cells(character) > COLUMNS:
            self._column = 0
            self._down()
        self._rows[self._row][self._column] = (character, self._style)
        self._column += cells(character)

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append({})

    def _obey(self, command: str, codes: str) -> None:
        match command:
            case "m":
                self._style = "" if codes in ("", "0") else f"{self._style}\x1b[{codes}m"
            case "A":
                self._row = max(0, self._row - 1)
            case "G":
                self._column = int(codes) - 1
            case "K":
                kept = self._rows[self._row].items()
                self._rows[self._row] = {column: cell for column, cell in kept if column < self._column}
            case _:
                raise AssertionError(f"the pictures do not know CSI {codes}{command}")


def _is_sign(character: str) -> bool:
    """One that may be wider than a letter of the viewer's font; the lines of frames are not."""
    return cells(character) > 1 or (category(character) == "So" and not "\u2500" <= character <= "\u257f")


def _run(text: str, style: str, sign: bool) -> Text:
    """Signs, and the spaces a run begins with, are spans: so rich places what follows them, and not the viewer."""
    run = Text.from_ansi(style + text, end="")
    run.stylize("not blink", 0, len(text) if sign else len(text) - len(text.lstrip(" ")))
    return run


class Room(RealWorld):
    """The project of the pictures, and a shell in it that knows pi-marathon."""

    def furnish(self) -> None:
        for name, text in PROJECT.items():
            path = self.project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.command = self.pi.home / "bin" / "pi-marathon"
        self.command.parent.mkdir()
        self.command.write_text(f'#!/bin/sh\nexec {shlex.join(self.argv())} "$@"\n')
        self.command.chmod(0o755)

    def shell(self) -> Pty:
        env = self.env(PS1="$ ")
        env["PATH"] = f"{self.command.parent}:{env['PATH']}"
        terminal = Pty(["sh", "-c", 'cd "$1" && exec sh -i', "sh", str(self.project)], env)
        terminal.resize(ROWS, COLUMNS)
        return terminal


# The pictures

THEME = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [
        *((72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34)),
        *((88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196)),
    ],
)
# No fonts from elsewhere, no scripts: what a page may show as an image.
SVG = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
.{unique_id}-title {{ font: bold 18px system-ui, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def save(glass: Glass, name: str, title: str) -> None:
    console = Console(record=True, file=io.StringIO(), width=COLUMNS, color_system="truecolor", force_terminal=True)
    for line in glass.lines():
        console.print(line, no_wrap=True, highlight=False)
    svg = console.export_svg(title=title, theme=THEME, code_format=SVG, unique_id=name)
    (HERE / f"{name}.svg").write_text(svg, encoding="utf-8")


def picture_the_gate(room: Room) -> None:
    glass, terminal = Glass(), room.shell()
    try:
        glass.feed(terminal.expect(b"$ "))
        terminal.send(COMMAND)
        glass.feed(terminal.expect(b"Quit marathon\r\n"))
        save(glass, "gate", "research is done: you decide")
        terminal.send(b"q")
        terminal.expect(b"$ ")
    finally:
        terminal.close()


def picture_the_stream(room: Room, steered: threading.Event) -> None:
    assert room.cli("approve", TASK).returncode == 0
    glass, terminal = Glass(), room.shell()
    try:
        glass.feed(terminal.expect(b"$ "))
        terminal.send(COMMAND)
        glass.feed(terminal.expect(b"what the clients send."))
        terminal.send(STEERING + b"\r")
        glass.feed(terminal.expect("→ steering:".encode()))
        steered.set()
        glass.feed(terminal.expect(b"unittest discover"))
        glass.feed(terminal.expect("iteration 2 │ ".encode()))
        glass.feed(terminal.expect(b"s"))
        save(glass, "stream", "a session at work: you may type")
    finally:
        steered.set()
        terminal.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        room = Room(Path(folder), ensure_pi())
        steered = threading.Event()
        room.furnish()
        room.plays(by_phase({"research": [research], "plan": [plan(steered)]}))
        try:
            picture_the_gate(room)
            picture_the_stream(room, steered)
        finally:
            room.close()


if __name__ == "__main__":
    main()
