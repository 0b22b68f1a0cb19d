"""Finds pi, and says before the first session what is wrong with it and how to fix that."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from marathon.agents.reading import table_in
from marathon.core.text import clean, one_line
from marathon.errors import AgentUnavailable

EXTENSION = Path(__file__).parent / "extension" / "marathon-loop.ts"
LOOPS = EXTENSION.with_name("multiloop.ts")  # the tools of measured loops
INSIDE = EXTENSION.with_name("inside.ts")  # a marathon in the pi of the human
PARTS = EXTENSION.with_name("pi-marathon")  # what it is made of
EXTENSIONS = ("-e", str(EXTENSION), "-e", str(INSIDE), "-e", str(LOOPS))
PROMPTS = Path(__file__).parent / "prompts"
OLDEST = (0, 74, 0)
SETTLES_SINCE = (0, 80, 4)
INSTALL = "npm install -g @earendil-works/pi-coding-agent"
_PATIENCE = 30
_MODELS, _COMMANDS = "get_available_models", "get_commands"
_NOT_LOADED = re.compile(r'Failed to load extension "(.+?)": (.+)')
_CLASH = re.compile(r'Tool "(\w+)" conflicts with (.+)')
_CHECKING = {"MARATHON_RUNNER_ID": "check", "MARATHON_CHECK": "1"}  # our extension then registers its tools at once
_CHOOSE_TOOLS = {"--tools", "-t", "--no-tools", "-nt", "--exclude-tools", "-xt"}

Version = tuple[int, int, int]


@dataclass(frozen=True)
class Pi:
    """A pi that runs on this machine."""

    program: str
    version: Version

    @property
    def settles(self) -> bool:
        """Whether this version says when nothing more will follow (agent_settled)."""
        return self.version >= SETTLES_SINCE


class PiAgent:
    """What both ways to run pi share."""

    name = "pi"
    tells_cost = True
    tells_tokens = True
    can_be_steered = True

    def __init__(self, args: tuple[str, ...] = ()) -> None:
        self.args = args
        self.has_tools = not _CHOOSE_TOOLS & set(args)  # else the human chose the tools, perhaps without ours

    @cached_property
    def pi(self) -> Pi:
        return find_pi(os.environ)

    def check(self) -> None:
        check_start(self.pi, self.args, os.environ)

    def close(self) -> None:
        pass


def find_pi(environ: Mapping[str, str]) -> Pi:
    """The pi that MARATHON_PI names, else the one on PATH. Raises AgentUnavailable with advice."""
    named = environ.get("MARATHON_PI")
    program = shutil.which(named or "pi", path=environ.get("PATH", os.defpath))
    if program is None:
        if named:
            raise AgentUnavailable(f"MARATHON_PI names {named!r}, which is not a program. Correct or unset it.")
        cure = f"Install it ({INSTALL}), or name it with MARATHON_PI=/path/to/pi. Without pi there is: pi-marathon demo"
        raise AgentUnavailable(f"pi was not found. {cure}")
    pi = Pi(program, _version(program, environ))
    if pi.version < OLDEST:
        found = ".".join(map(str, pi.version))
        raise AgentUnavailable(f"{program} is pi {found}, but 0.74 or newer is needed. Update it: {INSTALL}")
    return pi


def check_start(pi: Pi, args: Sequence[str], environ: Mapping[str, str], *, needs_model: bool = True) -> frozenset[str]:
    """Start pi once as a session would, and return the names of its slash commands.

    Raises AgentUnavailable if an extension keeps pi from starting, or if pi has no model. A key given in the arguments
    is not checked. Everything else is left to the first session.
    """
    questions = "".join(json.dumps({"id": name, "type": name}) + "\n" for name in (_MODELS, _COMMANDS))
    ours = ("--mode", "rpc", "--no-session", *EXTENSIONS)
    started = _run((pi.program, *args, *ours), {**environ, **_CHECKING}, questions)
    if started is None:
        return frozenset()
    if broken := load_failure(started.stderr):
        raise AgentUnavailable(broken)
    answers = _answers(started.stdout)
    if needs_model and "--api-key" not in args and answers.get(_MODELS, {}).get("models") == []:
        raise AgentUnavailable(f"pi is not logged in to any provider. Start it by hand ({pi.program}) and type /login.")
    commands = answers.get(_COMMANDS, {}).get("commands")
    return frozenset(str(table_in(one).get("name")) for one in (commands if isinstance(commands, list) else ()))


def load_failure(said: str) -> str:
    """Which extension keeps pi from starting, and the cure. Empty if pi's words on stderr name none."""
    found = _NOT_LOADED.search(clean(said))
    if not found:
        return ""
    path, reason = one_line(found[1], 500), one_line(found[2].removeprefix("Failed to load extension: "), 500)
    clash = _CLASH.match(reason)
    without = "or run without your extensions: pi-marathon --task DIR -- --no-extensions"
    if clash and str(EXTENSION) in (path, clash[2]):
        other = clash[2] if path == str(EXTENSION) else path
        cure = f"Move that file away or remove its package (pi list, pi remove PACKAGE), {without}"
        return f"pi cannot start: {other} also registers the tool {clash[1]} of pi-marathon. {cure}"
    if path in EXTENSIONS:
        return f"pi cannot load the extension of pi-marathon: {reason}. Update pi-marathon and pi ({INSTALL})."
    return f"pi cannot load the extension {path}: {reason}. Fix it or move it away, {without}"


def _answers(said: str) -> dict[str, dict[str, Any]]:
    """The data of pi's responses, by their id."""
    found = {}
    for line in said.splitlines():
        try:
            record = table_in(json.loads(line))
        except (ValueError, RecursionError):
            continue
        found[str(record.get("id"))] = table_in(record.get("data"))
    return found


def _version(program: str, environ: Mapping[str, str]) -> Version:
    done = _run((program, "--version"), environ)
    if done is None:
        raise AgentUnavailable(f"{program} does not run: it did not end. Try it by hand: {program} --version")
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", done.stdout + done.stderr)
    if done.returncode or not found:
        old_node = "node:" in done.stderr or "SyntaxError" in done.stderr
        hint = " (pi needs Node 22.19 or newer)" if old_node else ""
        raise AgentUnavailable(f"{program} does not run{hint}. Try it by hand: {program} --version")
    return int(found[1]), int(found[2]), int(found[3])


def _run(argv: Sequence[str], environ: Mapping[str, str], said: str = "") -> subprocess.CompletedProcess[str] | None:
    """What pi answers. None if it does not end in time."""
    try:
        return subprocess.run(
            argv,
            input=said,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
            env={**environ, "PI_SKIP_VERSION_CHECK": "1"},
        )
    except subprocess.TimeoutExpired:
        return None
    except OSError as error:
        raise AgentUnavailable(f"{argv[0]} does not run: {error}. Try it by hand: {argv[0]} --version") from error
