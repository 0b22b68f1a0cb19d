"""doctor's look at pi: the program, its Node, a login, the extension and the skills."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from marathon._bundled import bundled
from marathon.agents.pi.find import EXTENSION, INSTALL, Pi, agent_folder, check_login, find_pi
from marathon.cli.finding import Finding
from marathon.errors import MarathonError


def pi_findings() -> list[Finding]:
    """pi is one agent of several, so nothing of it is more than a note."""
    try:
        pi = find_pi(os.environ)
    except MarathonError as error:
        return [_node(), Finding("pi", "note", str(error), INSTALL)]
    version = ".".join(map(str, pi.version))
    settles = "" if pi.settles else " (before 0.80.4: sessions end a little earlier than they should)"
    found = Finding("pi", "good", f"{version} ({pi.program}){settles}", "" if pi.settles else INSTALL)
    return [_node(), found, _login(pi), *_installed()]


def _node() -> Finding:
    node = shutil.which("node")
    if node is None:
        return Finding("node", "note", "not found", "pi needs Node 22.19 or newer.")
    try:
        version = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
        numbers = tuple(int(part) for part in version.strip().lstrip("v").split(".")[:2])
    except (OSError, ValueError, subprocess.SubprocessError):
        return Finding("node", "note", f"{node} does not run", "pi needs Node 22.19 or newer.")
    cure = "" if numbers >= (22, 19) else "pi 0.75 and newer need Node 22.19 or newer."
    return Finding("node", "good" if not cure else "note", f"{version.strip()} ({node})", cure)


def _login(pi: Pi) -> Finding:
    try:
        check_login(pi, (), os.environ)
    except MarathonError as error:
        return Finding("pi's login", "note", str(error), f"{pi.program}, then /login")
    return Finding("pi's login", "good", "a model can be used")


def _installed() -> list[Finding]:
    folder = agent_folder(os.environ)
    return [
        _same("pi's extension", EXTENSION, folder / "extensions" / EXTENSION.name),
        _same("pi's skills", bundled("skills/loop/SKILL.md"), folder / "skills" / "loop" / "SKILL.md"),
    ]


def _same(name: str, ours: Path, theirs: Path) -> Finding:
    install = "pi-marathon install"
    if not theirs.is_file():
        return Finding(name, "note", "not installed (--task brings what it needs)", f"For every pi session: {install}")
    if theirs.read_bytes() != ours.read_bytes():
        return Finding(name, "note", f"{theirs} is another version", install)
    return Finding(name, "good", str(theirs))
