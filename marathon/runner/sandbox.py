"""What a sandboxed session may write: the project with its repository, the task, and the agent's own folder."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from marathon.git.worktree import GitFailed, git
from marathon.process.sandbox import arguments
from marathon.store.places import claude_folder, pi_folder

if TYPE_CHECKING:
    from marathon.runner.marathon import Marathon


def wrap(marathon: Marathon, agent: str, usage_file: str) -> str:
    """The sandbox of the next session, as `process.start` reads it. What no agent may write comes last."""
    task, project, run = marathon.task, marathon.project, marathon.life.run
    repository: list[Path] = []
    with contextlib.suppress(GitFailed):
        repository.append(Path(git(project, "rev-parse", "--path-format=absolute", "--git-common-dir")))
    Path(usage_file).touch(mode=0o600)
    writable = [project, *repository, task.folder, *of_agent(agent, marathon.environ)]
    state = platformdirs.user_state_path("pi-marathon")
    closed = [*(each / name for each in repository for name in ("hooks", "config"))]
    if not project.is_relative_to(state):
        closed.append(state)
    words = arguments([*writable, marathon.channel.folder], closed, offline=marathon.options.sandbox == "offline")
    open_again = [usage_file, str(task.runs.folder(run) / "events")] if agent == "pi" else [usage_file]
    return json.dumps([*words, *(word for path in open_again for word in ("--bind-try", path, path))])


def of_agent(name: str, environ: Mapping[str, str]) -> list[Path]:
    """The folders in which an agent keeps its sessions and its login."""
    home, usual = environ.get("HOME") or "/", {"DATA": ".local/share", "STATE": ".local/state", "CONFIG": ".config"}
    known = {
        "pi": [pi_folder(environ)],
        "claude": [claude_folder(environ), Path(home, ".claude.json")],
        "codex": [Path(environ.get("CODEX_HOME") or Path(home, ".codex"))],
        "gemini": [Path(environ.get("GEMINI_CLI_HOME") or home, ".gemini")],
        "opencode": [
            Path(environ.get(f"XDG_{kind}_HOME") or Path(home, below), "opencode")
            for kind, below in {**usual, "CACHE": ".cache"}.items()
        ],
    }
    return known.get(name, [])
