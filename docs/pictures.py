"""Makes docs/*.svg from real runs: `python -m docs.pictures [demo gate stream pi]` in the root of the checkout.

Needs tmux. The whole program runs in a terminal of its own: the demo as anyone would type it, the others with the real
pi, where only the model's words come from a script. The same session is shown in stream mode and on pi's own screen.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

import psutil
from rich.ansi import AnsiDecoder
from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.process.driver import until
from tests.real.install import ensure_pi
from tests.real.model_server import Request, ToolCall, Turn, bash, by_phase
from tests.real.real_world import RealWorld

HERE = Path(__file__).resolve().parent
COLUMNS = 100
TASK = "docs/tasks/20260202-143000-rate-limits-for-the-api"
COMMAND = f"pi-marathon --task {TASK} --max-cost 10 --mode"
STEERING = "per key, not per address: our users share one proxy"

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

class Requests(unittest.TestCase):
    def test_a_key_is_known(self): pass
    def test_a_route_is_found(self): pass
    def test_an_owner_is_found(self): pass
    def test_the_slow_one(self): time.sleep(60)
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


ASKED = "Why per key, and not per address?"
FIRST_PLAN = "# Plan\n\n- [ ] 1. a bucket per key\n- [ ] 2. 429 with Retry-After\n"
SECOND_PLAN = (
    f"{PLAN}\n## Answers\n\nc1: Many clients share one proxy; its address would be one bucket for all of them.\n"
)


def planned(text: str, note: str) -> list[Turn]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    state = {"state": "paused", "phase": "plan", "iteration": 2, "updatedAt": now, "note": note}
    return [turn("The plan.", write("plan.md", text)), turn("", write("STATE.json", json.dumps(state))), turn("Done.")]


SHARED = "- Many clients share one proxy, so an address is not a client."


def plan(steered: threading.Event) -> list[Turn]:
    last = RESEARCH.splitlines()[-1]
    edit = {"path": f"{TASK}/research.md", "edits": [{"oldText": last, "newText": f"{last}\n{SHARED}"}]}
    return [
        turn(
            "I start from the research.",
            read(f"{TASK}/research.md"),
            bash("grep -rn request api"),
            thinking="The instructions leave open who counts as one client. The nearest thing at hand is the address.",
        ),
        turn(
            "## A limit per address\n\n"
            "1. **One bucket per client address**, refilled every second, in `api/app.py`. It needs no store.\n"
            "2. A client that asks too often gets `429` with `Retry-After`.",
            bash("wc -l api/*.py"),
            hold=steered,
        ),
        turn(
            "Understood: one bucket **per key**. It is known in `handle()` already, so nothing else changes.",
            ToolCall("edit", edit),
            write("plan.md", PLAN),
            thinking="Behind a shared proxy all users would have shared one limit. The key is the better choice.",
        ),
        turn("Before I end: do the tests pass as they are?", bash("python -m unittest discover -v -s tests")),
    ]


# The terminal


class Window:
    """A shell in a window of tmux, which knows all that a terminal must."""

    def __init__(self, room: Room, rows: int, columns: int = COLUMNS) -> None:
        self.rows, self.columns = rows, columns
        self._tmux = ["tmux", "-f", "/dev/null", "-S", str(room.pi.home / "tmux")]
        env = room.env(COLORTERM="truecolor")
        self._project = str(room.project)
        env["PATH"] = f"{room.command.parent}:{env['PATH']}"
        size = ["-x", str(columns), "-y", str(rows)]
        shell = ["env", "PS1=$ ", "sh", "-i"]
        subprocess.run([*self._tmux, "new-session", "-d", *size, *shell], cwd=room.project, env=env, check=True)
        self.wait_for("$")

    def type(self, text: str) -> None:
        self.press(text)
        self.press("\r")

    def press(self, keys: str) -> None:
        self._run("send-keys", "-l", keys)

    def wait_for(self, text: str) -> None:
        until(lambda: text in self.shown(), f"{text} in the window", 120)

    def shown(self, *options: str) -> str:
        return self._run("capture-pane", "-p", *options)

    def _run(self, *words: str) -> str:
        return subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True).stdout

    def save(self, name: str, title: str) -> None:
        console = Console(
            record=True, file=io.StringIO(), width=self.columns, color_system="truecolor", force_terminal=True
        )
        for text in self.lines():
            if not text.plain.isascii():  # so rich places what follows a sign, and not the viewer's font
                for gap in re.finditer(r" +|[^ -~─-╿│]+", text.plain):
                    text.stylize("not blink", *gap.span())
            console.print(text, no_wrap=True, highlight=False)
        svg = console.export_svg(title=title, theme=THEME, code_format=SVG, unique_id=name)
        (HERE / f"{name}.svg").write_text(svg, encoding="utf-8")

    def lines(self) -> list[Text]:
        screen = self.shown("-e", "-N").replace(self._project, "~/api").replace("\ufe0f", "")
        return list(AnsiDecoder().decode(screen))

    def close(self) -> None:
        server = psutil.Process(int(self._run("display-message", "-p", "#{pid}")))
        below = server.children(recursive=True)
        self._run("kill-server")
        psutil.wait_procs(below, 60)


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


# The film


class Film:
    """What a window shows over time, as one SVG that moves: every different line once, and one strip of screens."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._screens: list[tuple[float, list[Text]]] = []  # how long, what
        self._plain = ""

    def look(self, at_least: float = 0.0) -> str:
        """Keeps the screen if it is another one. Nothing moves for longer than a reader needs."""
        begun = time.monotonic()
        lines = self._window.lines()
        plain = "\n".join(line.markup for line in lines)
        if plain != self._plain:
            self._plain = plain
            self._screens.append((0.0, lines))
        time.sleep(max(0.0, STEP - (time.monotonic() - begun)))
        shown, lines = self._screens[-1]
        self._screens[-1] = (max(at_least, min(shown + STEP, LONGEST)), lines)
        return "\n".join(line.plain for line in lines)

    def until(self, text: str) -> None:
        until(lambda: text in self.look(), f"{text} in the film", 120)

    def pause(self, seconds: float) -> None:
        self.look(at_least=seconds)

    def type(self, text: str) -> None:
        for letter in text:
            self._window.press(letter)
            self.look()
        self.pause(0.8)
        self._window.press("\r")

    def save(self, name: str) -> None:
        lines: dict[str, str] = {}  # what is drawn: its name
        strip: list[str] = []
        moves: list[str] = []
        whole = sum(seconds for seconds, _ in self._screens)
        passed, height = 0.0, self._window.rows * LINE
        for number, (seconds, screen) in enumerate(self._screens):
            moves.append(f"{100 * passed / whole:.3f}%{{transform:translateY({-number * height}px)}}")
            passed += seconds
            for row, text in enumerate(screen):
                if drawn := drawn_line(text):
                    line = lines.setdefault(drawn, f"l{len(lines)}")
                    strip.append(f'<use href="#{line}" y="{number * height + row * LINE}"/>')
        width = round(self._window.columns * CELL)
        svg = FILM.format(
            width=width,
            height=height,
            size=f"{width + 20} {height + 20}",
            move=f"@keyframes m{{{''.join(moves)}}} #s{{animation:m {whole:.2f}s steps(1,end) infinite}}",
            defs="".join(f'<g id="{line}">{drawn}</g>' for drawn, line in lines.items()),
            strip="".join(strip),
        )
        (HERE / f"{name}.svg").write_text(svg, encoding="utf-8")


def drawn_line(text: Text) -> str:
    """Each run of one style is placed by its cell, so that the viewer's font cannot shift what follows."""
    parts: list[str] = []
    column = 0
    for segment in text.render(Console(width=500)):
        style = segment.style or Style()
        for word in re.findall(r" +|[^ ]+(?: [^ ]+)*", segment.text):
            cells = cell_len(word)
            if word.strip():
                colours = [hex_of(style.color, "#e6edf3"), hex_of(style.bgcolor, "")]
                ink, ground = [hex_of(style.bgcolor, "#0d1117"), colours[0]] if style.reverse else colours
                x, wide = f"{column * CELL:.1f}", f"{cells * CELL:.1f}"
                if ground:
                    parts.append(f'<rect x="{x}" y="-12" width="{wide}" height="{LINE}" fill="{ground}"/>')
                look = f' fill="{ink}"'
                look += ' font-weight="bold"' if style.bold else ""
                look += ' opacity=".6"' if style.dim else ""
                parts.append(f'<text x="{x}" textLength="{wide}"{look}>{escape(word)}</text>')
            column += cells
    return "".join(parts)


def hex_of(colour: Color | None, otherwise: str) -> str:
    return colour.get_truecolor(THEME).hex if colour and not colour.is_default else otherwise


STEP, LONGEST = 0.1, 1.2  # seconds
CELL, LINE = 7.8, 16  # of a letter, in pixels
FILM = """\
<svg viewBox="-10 -10 {size}" xmlns="http://www.w3.org/2000/svg">
<style>{move}
text{{font:13px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e6edf3;white-space:pre}}
</style>
<defs>{defs}</defs>
<rect x="-10" y="-10" width="100%" height="100%" rx="8" fill="#0d1117"/>
<svg width="{width}" height="{height}"><g id="s"><g transform="translate(0 12)">{strip}</g></g></svg>
</svg>
"""


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


def picture_the_gate(room: Room) -> None:
    first, second = planned(FIRST_PLAN, "Two steps."), planned(SECOND_PLAN, "c1 is answered; tests are a step now.")
    room.plays(by_phase({"research": [research], "plan": [lambda _: first, lambda _: second]}))
    assert room.cli("--task", TASK).returncode == 3
    assert room.cli("approve", TASK).returncode == 0
    assert room.cli("--task", TASK).returncode == 3
    assert room.cli("comment", TASK, "--on", "bucket per key", ASKED).returncode == 0
    assert room.cli("redo", TASK, "-m", "The tests are missing.").returncode == 0
    window = Window(room, 24, columns=88)
    try:
        window.type(f"{COMMAND} stream")
        window.wait_for("Quit marathon")
        window.save("gate", "a plan under review, round 2")
    finally:
        window.close()


def picture_a_session(room: Room, mode: str, steered: threading.Event, name: str, title: str) -> None:
    window = Window(room, 48)
    try:
        window.type(f"clear; {COMMAND} {mode}")
        window.wait_for("bucket per client")
        window.type(STEERING)
        window.wait_for("told: per key" if mode == "stream" else "Steering: per key")
        steered.set()
        window.wait_for("the_slow_one")
        window.wait_for("tests · 3s" if mode == "stream" else "Elapsed 3")
        window.save(name, title)
    finally:
        steered.set()
        window.close()


def picture_the_demo(room: Room) -> None:
    """One film of the whole demo: what a person types, and what they see."""
    window = Window(room, 26, columns=88)
    film = Film(window)
    try:
        film.type("pi-marathon demo")
        for phase, answer in (("research", "f"), ("plan", "\r")):
            film.until(f"Phase: {phase}")
            film.pause(3)
            window.press(answer)
            if answer == "f":
                film.until("Feedback")
                film.type("please skip slug")
        film.until("Now yours")
        film.pause(6)
        film.save("demo")
    finally:
        window.close()


def with_a_room(picture: Callable[[Room], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        room = Room(Path(folder), ensure_pi())
        room.furnish()
        try:
            picture(room)
        finally:
            room.close()


def a_session(mode: str, name: str, title: str) -> Callable[[Room], None]:
    def picture(room: Room) -> None:
        steered = threading.Event()
        room.plays(by_phase({"research": [research], "plan": [plan(steered)]}))
        assert room.cli("--task", TASK).returncode == 3
        assert room.cli("approve", TASK).returncode == 0
        picture_a_session(room, mode, steered, name, title)

    return picture


PICTURES: dict[str, Callable[[Room], None]] = {
    "demo": picture_the_demo,
    "gate": picture_the_gate,
    "stream": a_session("stream", "stream", "a session in stream mode"),
    "pi": a_session("tui", "pi", "the same session on pi's own screen"),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        with_a_room(PICTURES[name])
