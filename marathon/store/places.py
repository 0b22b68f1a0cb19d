"""Where files outside of the project lie: our settings and state, and the folders of pi and Claude Code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import platformdirs

_NAME = "pi-marathon"


def config_folder() -> Path:
    """Our settings and the user's workflows: ~/.config/pi-marathon, or as XDG_CONFIG_HOME says."""
    return platformdirs.user_config_path(_NAME)


def trusted_folder() -> Path:
    """What the human agreed to run: ~/.local/state/pi-marathon/agreed, or as XDG_STATE_HOME says."""
    return platformdirs.user_state_path(_NAME) / "agreed"


def codes_folder() -> Path:
    """Hashes of the codes of open gates: ~/.local/state/pi-marathon/codes, or as XDG_STATE_HOME says."""
    return platformdirs.user_state_path(_NAME) / "codes"


def index_folder() -> Path:
    """Which tasks there are on this machine: ~/.local/state/pi-marathon/index, or as XDG_STATE_HOME says."""
    return platformdirs.user_state_path(_NAME) / "index"


def background_folder() -> Path:
    """Which tasks run in the background: ~/.local/state/pi-marathon/background, or as XDG_STATE_HOME says."""
    return platformdirs.user_state_path(_NAME) / "background"


def tasks_folder() -> Path:
    """The homes of all tasks: ~/.local/state/pi-marathon/tasks, or as XDG_STATE_HOME says."""
    return platformdirs.user_state_path(_NAME) / "tasks"


def worktrees_folder() -> Path:
    """The worktrees of tasks: ~/.local/state/pi-marathon/worktrees, or as XDG_STATE_HOME says."""
    return platformdirs.user_state_path(_NAME) / "worktrees"


def page_port() -> Path:
    """The port that the page had last: what a browser keeps for a page, it keeps for its port."""
    return platformdirs.user_state_path(_NAME) / "page-port"


def measuring_lock() -> Path:
    """Held by the measured loop whose turn it is: one at a time on a machine."""
    return platformdirs.user_state_path(_NAME) / "measuring.lock"


def written_by_many() -> list[Path]:
    """The folders of this user's state where more than one process writes."""
    ours = [tasks_folder().parent, trusted_folder(), codes_folder(), index_folder(), background_folder()]
    return [*ours, *tasks_folder().glob("*"), states_folder()]


def state_home(environ: Mapping[str, str]) -> str:
    """Where a process with this environment keeps its state; empty if that does not tell."""
    folder = environ.get("XDG_STATE_HOME") or (f"{environ['HOME']}/.local/state" if environ.get("HOME") else "")
    return os.path.realpath(folder) if folder else ""


def states_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The runner state files: PI_MARATHON_STATES, else ~/.pi/marathon-states."""
    return _chosen_or_home(environ, "PI_MARATHON_STATES", ".pi/marathon-states")


def pi_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """pi's own folder: PI_CODING_AGENT_DIR, else ~/.pi/agent."""
    return _chosen_or_home(environ, "PI_CODING_AGENT_DIR", ".pi/agent")


def claude_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Claude Code's own folder: CLAUDE_CONFIG_DIR, else ~/.claude."""
    return _chosen_or_home(environ, "CLAUDE_CONFIG_DIR", ".claude")


def _chosen_or_home(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    chosen = environ.get(variable)
    return Path(chosen) if chosen else Path(environ.get("HOME") or "~").expanduser() / below_home
