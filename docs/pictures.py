"""Makes docs/*.svg from real runs: `python -m docs.pictures` in the root of the checkout. Needs tmux.

The whole program runs with the real pi in a terminal of its own; only the model's words come from a script. The same
session is shown twice: in stream mode, and on pi's own screen.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import psutil
from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.terminal_theme import TerminalTheme

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

    def __init__(self, room: Room, rows: int) -> None:
        self._tmux = ["tmux", "-f", "/dev/null", "-S", str(room.pi.home / "tmux")]
        env = room.env(COLORTERM="truecolor")
        self._project = str(room.project)
        env["PATH"] = f"{room.command.parent}:{env['PATH']}"
        size = ["-x", str(COLUMNS), "-y", str(rows)]
        shell = ["env", "PS1=$ ", "sh", "-i"]
        subprocess.run([*self._tmux, "new-session", "-d", *size, *shell], cwd=room.project, env=env, check=True)
        self.wait_for("$")

    def type(self, text: str) -> None:
        self._run("send-keys", "-l", text)
        self._run("send-keys", "Enter")

    def wait_for(self, text: str) -> None:
        until(lambda: text in self.shown(), f"{text} in the window", 120)

    def shown(self, *options: str) -> str:
        return self._run("capture-pane", "-p", *options)

    def _run(self, *words: str) -> str:
        return subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True).stdout

    def save(self, name: str, title: str) -> None:
        console = Console(record=True, file=io.StringIO(), width=COLUMNS, color_system="truecolor", force_terminal=True)
        screen = self.shown("-e", "-N").replace(self._project, "~/api").replace("\ufe0f", "")
        for text in AnsiDecoder().decode(screen):
            if not text.plain.isascii():  # so rich places what follows a sign, and not the viewer's font
                for gap in re.finditer(r" +|[^ -~─-╿│]+", text.plain):
                    text.stylize("not blink", *gap.span())
            console.print(text, no_wrap=True, highlight=False)
        svg = console.export_svg(title=title, theme=THEME, code_format=SVG, unique_id=name)
        (HERE / f"{name}.svg").write_text(svg, encoding="utf-8")

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
    window = Window(room, 34)
    try:
        window.type(f"{COMMAND} stream")
        window.wait_for("Quit marathon")
        window.save("gate", "research is done: you decide")
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


def main() -> None:
    titles = {"stream": "a session in stream mode", "tui": "the same session on pi's own screen"}
    for mode, title in titles.items():
        with tempfile.TemporaryDirectory() as folder:
            room, steered = Room(Path(folder), ensure_pi()), threading.Event()
            room.furnish()
            room.plays(by_phase({"research": [research], "plan": [plan(steered)]}))
            try:
                picture_the_gate(room)
                assert room.cli("approve", TASK).returncode == 0
                picture_a_session(room, mode, steered, "stream" if mode == "stream" else "pi", title)
            finally:
                room.close()


if __name__ == "__main__":
    main()
