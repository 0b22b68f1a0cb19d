"""Runs a program under bubblewrap: it can write where it is allowed to, and reads the rest of the machine.

The arguments travel in the environment of a Command, so that whatever an agent starts is wrapped in one place, `start`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

WRAP = "MARATHON_WRAP"  # in the environment of a Command, and never in that of its process
INSTALL = "Install bubblewrap (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap)."
# A process table of its own: through /proc another process of the user would lead out. No sockets of the session in
# /run, where a service manager or a container engine would start anything; names are still looked up.
_BASE = (
    *("bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--ro-bind", "/", "/"),
    *("--dev-bind", "/dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--setenv", "TMPDIR", "/tmp"),
    *("--tmpfs", "/run", "--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve"),
    *("--ro-bind-try", "/run/current-system", "/run/current-system"),  # NixOS has its programs there
)


def arguments(writable: Iterable[Path], read_only: Iterable[Path], *, offline: bool) -> list[str]:
    """bubblewrap's command line. A later path wins over an earlier one, and one that is not there is left out."""
    words = [*_BASE, *(("--unshare-net",) if offline else ())]
    ours = (Path(sys.prefix), Path(__file__).parents[2])  # they may lie in /tmp, and the agent runs our commands
    for option, paths in (("--ro-bind-try", ours), ("--bind-try", writable), ("--ro-bind-try", read_only)):
        words += [word for path in paths for word in (option, str(path), str(path))]
    return words


def wrapped(argv: tuple[str, ...], env: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """What is really started, and its environment."""
    rest = dict(env)
    sandbox = json.loads(rest.pop(WRAP, "[]"))
    return ((*sandbox, "--", *argv) if sandbox else argv), rest


def problem() -> str:
    """Why bubblewrap cannot be used here; empty if it can."""
    if shutil.which("bwrap") is None:
        return f"bwrap was not found. {INSTALL}"
    try:
        tried = subprocess.run([*_BASE, "--", "true"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"bwrap does not run: {error}."
    said = tried.stderr.strip().partition("\n")[0]
    return f"bwrap does not work here: {said}. User namespaces may be switched off." if tried.returncode else ""
