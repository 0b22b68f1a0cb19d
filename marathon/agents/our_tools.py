"""Our tools for an agent that starts the MCP servers it is given: `pi-marathon mcp`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from marathon.agents.permissions import Request
from marathon.core.text import one_line
from marathon.process import tree
from marathon.process.sandbox import WRAP

NEEDED = "The server needs one more package: pip install 'pi-marathon[mcp]'"
_OURS = ("MARATHON_", "PI_MARATHON_", "XDG_")  # a client may hand down nothing but PATH and HOME
_SERVES = "MARATHON_SERVES"  # in a server's environment: the runner that it is for
_PATIENCE = 180  # seconds
_GRACE = 1.0
# Agents put the server's name before a tool's name, or behind it in words.
_NAMES = re.compile(r"(mcp_+)?(marathon_+)?(marathon_(wait|status)|human_feedback|multiloop_[a-z]+)( \(marathon .*\))?")


def server(env: Mapping[str, str]) -> dict[str, Any]:
    """Our server as the Agent Client Protocol names one. Its environment names the runner of the session."""
    given = {name: value for name, value in env.items() if name.startswith(_OURS) and name != WRAP}
    given[_SERVES] = env["MARATHON_RUNNER_ID"]
    named = [{"name": name, "value": value} for name, value in given.items()]
    return {"name": "marathon", "command": sys.executable, "args": ["-P", "-m", "marathon", "mcp"], "env": named}


def end_servers(env: Mapping[str, str]) -> None:
    """A program that lives on may keep the server of each session, and the next session gets a new one."""
    tree.end(tree.find_by_environ(_SERVES, env["MARATHON_RUNNER_ID"]), _GRACE)


def is_ours(request: Request) -> bool:
    """Whether an agent asks to call one of our tools. None of them answers a gate."""
    return request.kind == "other" and not request.paths and bool(_NAMES.fullmatch(request.command))


def is_installed() -> bool:
    invalidate_caches()
    return find_spec("mcp") is not None


def prepare(tell: Callable[[str], None]) -> bool:
    """Whether the server can start here; the human is told if not. A checkout's command installs what it needs."""
    command, why = Path(sys.prefix, "bin", "pi-marathon"), NEEDED
    if not is_installed() and command.is_symlink():  # into the checkout
        tell("Installing what our tools over MCP need, once…")
        with suppress(OSError, subprocess.SubprocessError):
            nothing = subprocess.DEVNULL  # the server ends with its input
            tried = subprocess.run((command, "mcp"), stdin=nothing, capture_output=True, timeout=_PATIENCE, check=False)
            why = one_line(tried.stderr.decode(errors="replace"), 300)
    if is_installed():
        return True
    tell(f"The agent works without our tools over MCP. {why}")
    return False
