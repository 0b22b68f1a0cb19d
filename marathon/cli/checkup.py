"""The checks behind `doctor`, each a small look at the real thing."""

from __future__ import annotations

import fcntl
import locale
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from marathon import __version__
from marathon._bundled import bundled
from marathon.agents.table import AGENTS
from marathon.cli.checkup_pi import pi_findings
from marathon.cli.finding import Finding
from marathon.errors import MarathonError
from marathon.process.terminal import interactive
from marathon.store.agent_channel import states_folder
from marathon.store.definitions import load_workflows
from marathon.store.files import make_private_directory


def checkup() -> list[Finding]:
    return [*(check() for check in CHECKS), *pi_findings()]


def _version() -> Finding:
    return Finding("pi-marathon", "good", f"{__version__} on Python {platform.python_version()} ({sys.executable})")


def _system() -> Finding:
    if sys.platform == "linux" and Path("/proc/self/stat").exists():
        return Finding("system", "good", platform.platform())
    return Finding("system", "bad", platform.platform(), "Run it on Linux: it ends stray processes by /proc.")


def _terminal() -> Finding:
    if not interactive():
        return Finding("terminal", "note", "none: gates are printed and answered with approve, redo, answer")
    return Finding("terminal", "good", f"TERM={os.environ.get('TERM', '')}, {os.get_terminal_size().columns} columns")


def _encoding() -> Finding:
    found = locale.getpreferredencoding(False)
    if found.lower().replace("-", "") == "utf8":
        return Finding("encoding", "good", found)
    return Finding("encoding", "note", found, "Set a UTF-8 locale, for example: export LANG=C.UTF-8")


def _git() -> Finding:
    found = shutil.which("git")
    if found:
        return Finding("git", "good", found)
    return Finding("git", "note", "not found", "Install git: agents commit their work with it.")


def _locks() -> Finding:
    with tempfile.TemporaryFile(dir=".") if os.access(".", os.W_OK) else tempfile.TemporaryFile() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return Finding(
                "locks", "bad", f"flock does not work here: {error.strerror}", "Use a local disk for your project."
            )
    return Finding("locks", "good", "flock works")


def _states() -> Finding:
    folder = states_folder(os.environ)
    try:
        make_private_directory(folder)
    except MarathonError as error:
        return Finding("runner states", "bad", str(error), "Set PI_MARATHON_STATES to a folder you can write.")
    if not os.access(folder, os.W_OK):
        return Finding(
            "runner states", "bad", f"{folder} cannot be written", "Set PI_MARATHON_STATES to another folder."
        )
    return Finding("runner states", "good", str(folder))


def _agents() -> Finding:
    return Finding("agents", "good", ", ".join(sorted(AGENTS)))


def _workflows() -> Finding:
    library = load_workflows(Path.cwd(), os.environ)
    if library.refused:
        return Finding(
            "workflows", "bad", f"refused: {', '.join(sorted(library.refused))}", "See: pi-marathon workflow check"
        )
    return Finding("workflows", "good", ", ".join(sorted(library.workflows)))


def _shipped() -> Finding:
    missing = [name for name in ("skills", "task-template") if not bundled(name).is_dir()]
    if missing:
        return Finding("shipped files", "bad", f"missing: {', '.join(missing)}", "Install pi-marathon again.")
    return Finding("shipped files", "good", "skills, task-template")


CHECKS: list[Callable[[], Finding]] = [
    _version,
    _system,
    _terminal,
    _encoding,
    _git,
    _locks,
    _states,
    _agents,
    _workflows,
    _shipped,
]
