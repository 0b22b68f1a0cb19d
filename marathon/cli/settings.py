"""Reads settings from files. The project's .marathon/config.toml may tighten the user's; neither names a program."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from marathon.core.tighten import Tightened, tightened
from marathon.core.validation import Invalid, read
from marathon.errors import WrongUsage
from marathon.runner.notify import Ways
from marathon.store.places import config_folder

MAX_BYTES = 1024 * 1024
_ALIASES = {"shape": "oversight"}  # the name in version 0.1


class ProjectSettings(BaseModel):
    """What a repository may set for everyone who checks it out."""

    model_config = ConfigDict(strict=True, extra="forbid", defer_build=True)

    agent: str = ""
    mode: Literal["tui", "stream"] = "tui"
    workflow: str = ""
    max_iterations: int = 0
    max_time: str = ""
    max_cost: float = 0
    max_tokens: int = 0
    reflect_every: int = 0
    breakers: list[str] = []
    session_timeout: str = ""
    retries: int = 0
    retry_wait: str = ""
    outage: str = ""
    keep_events: int = 0
    notify: bool = True


class UserSettings(ProjectSettings):
    """What only the user may set."""

    auto_approve: bool = False
    oversight: Literal["tool", "colleague"] = "tool"
    hours: str = ""
    allow_sleep: bool = False
    notify_command: str | list[str] = ""
    notify_webhook: str = ""


def load_settings(project: str) -> Tightened:
    """The settings of both files. An unknown or wrong setting is refused by name."""
    own = config_folder() / "config.toml"
    return tightened(_read(own, UserSettings), project_settings(project), str(own))


def notifications() -> Ways:
    """How the user wants to be called. A project's file cannot say it."""
    user = _read(config_folder() / "config.toml", UserSettings)
    command, webhook = user.get("notify_command", []), user.get("notify_webhook", "")
    try:
        return Ways(tuple(shlex.split(command) if isinstance(command, str) else command), webhook)
    except ValueError as error:
        raise WrongUsage(f"{config_folder() / 'config.toml'}: notify_command cannot be read: {error}.") from error


def project_settings(project: str) -> dict[str, Any]:
    """What the repository sets."""
    return _read(Path(project) / ".marathon" / "config.toml", ProjectSettings)


def _read(path: Path, kind: type[ProjectSettings]) -> dict[str, Any]:
    if not path.is_file():
        return {}
    if path.stat().st_size > MAX_BYTES:
        raise WrongUsage(f"{path} is too large to be settings. Fix or remove it.")
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise WrongUsage(f"{path} cannot be read: {error}. Fix or remove it.") from error
    try:
        settings = read(kind, {_ALIASES.get(name, name.replace("-", "_")): value for name, value in raw.items()})
    except Invalid as error:
        known = ", ".join(sorted(kind.model_fields))
        raise WrongUsage(f"{path}: {error}. What can be set here: {known}.") from error
    return settings.model_dump(exclude_unset=True)
