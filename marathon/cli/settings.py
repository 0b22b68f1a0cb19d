"""Defaults from files: the project's .marathon/config.toml over the user's; neither can name a program to run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marathon.errors import WrongUsage

KNOWN: dict[str, type] = {
    "agent": str,
    "mode": str,
    "workflow": str,
    "auto_approve": bool,
    "shape": str,
    "max_iterations": int,
    "max_time": str,
    "max_cost": float,
    "max_tokens": int,
    "reflect_every": int,
    "breakers": list,
    "session_timeout": str,
    "retries": int,
    "retry_wait": str,
    "keep_events": int,
    "notify": bool,
}
# What a repository must not decide for whoever checks it out.
NOT_FOR_PROJECTS = {"auto_approve", "shape"}


def load_settings(project: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """The settings of both files; an unknown or ill-typed one is named, not ignored."""
    home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".config")
    user = _read(Path(home) / "pi-marathon" / "config.toml", KNOWN)
    allowed = {name: kind for name, kind in KNOWN.items() if name not in NOT_FOR_PROJECTS}
    return {**user, **_read(Path(project) / ".marathon" / "config.toml", allowed)}


def _read(path: Path, known: Mapping[str, type]) -> dict[str, Any]:
    if not path.is_file():
        return {}
    import tomllib

    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise WrongUsage(f"{path} cannot be read: {error}. Mend or remove it.") from error
    settings = {}
    for name, value in raw.items():
        key = name.replace("-", "_")
        if key not in known:
            raise WrongUsage(f"{path}: {name!r} cannot be set here. Known: {', '.join(sorted(known))}.")
        if type(value) is int and known[key] is float:
            value = float(value)
        if type(value) is not known[key]:
            raise WrongUsage(f"{path}: {name} must be a {known[key].__name__}.")
        settings[key] = value
    return settings
