"""Finds pi, and says before the first session what is wrong with it and how to fix that."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from marathon.errors import AgentUnavailable

EXTENSION = Path(__file__).parent / "extension" / "marathon-loop.ts"
PROMPTS = Path(__file__).parent / "prompts"
OLDEST = (0, 74, 0)
SETTLES_SINCE = (0, 80, 4)
INSTALL = "npm install -g @earendil-works/pi-coding-agent"
NO_MODELS = "No models available"
_PATIENCE = 30

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
    tells_usage = True

    def __init__(self, args: tuple[str, ...] = ()) -> None:
        self.args = args

    @cached_property
    def pi(self) -> Pi:
        return find_pi(os.environ)

    def check(self) -> None:
        check_login(self.pi, self.args, os.environ)

    def close(self) -> None:
        pass


def find_pi(environ: Mapping[str, str]) -> Pi:
    """The pi that MARATHON_PI names, else the one on PATH. Raises AgentUnavailable with advice."""
    named = environ.get("MARATHON_PI")
    program = shutil.which(named or "pi", path=environ.get("PATH", os.defpath))
    if program is None:
        if named:
            raise AgentUnavailable(f"MARATHON_PI names {named!r}, which is not a program. Correct or unset it.")
        raise AgentUnavailable(f"pi was not found. Install it ({INSTALL}), or name it with MARATHON_PI=/path/to/pi.")
    pi = Pi(program, _version(program, environ))
    if pi.version < OLDEST:
        found = ".".join(map(str, pi.version))
        raise AgentUnavailable(f"{program} is pi {found}, but 0.74 or newer is needed. Update it: {INSTALL}")
    return pi


def check_login(pi: Pi, args: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raise AgentUnavailable if pi has no model. A key given in the arguments is not checked."""
    if "--api-key" in args:
        return
    done = _ask(pi.program, "--list-models", environ)
    if done.stdout.startswith(NO_MODELS) or done.stderr.startswith(NO_MODELS):
        raise AgentUnavailable(f"pi is not logged in to any provider. Start it by hand ({pi.program}) and type /login.")


def _version(program: str, environ: Mapping[str, str]) -> Version:
    done = _ask(program, "--version", environ)
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", done.stdout + done.stderr)
    if done.returncode or not found:
        old_node = "node:" in done.stderr or "SyntaxError" in done.stderr
        hint = "pi needs Node 22.19 or newer" if old_node else "try it by hand"
        raise AgentUnavailable(f"{program} does not run ({hint}): {program} --version")
    return int(found[1]), int(found[2]), int(found[3])


def _ask(program: str, question: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [program, question],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
            env={**environ, "PI_SKIP_VERSION_CHECK": "1"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise AgentUnavailable(f"{program} does not run: {error}. Try it by hand: {program} {question}") from error
