"""Puts our hooks into the text of Claude Code's settings.json. Everything else in it stays, in its order."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

EVENTS = {"Stop": "hook stop", "SessionStart": "hook session-start"}
TIMEOUT = 30  # seconds; a hook takes a tenth of one


class SettingsUnexpected(ValueError):
    """The settings do not have the form that Claude Code reads. The text says what is wrong."""


def with_hooks(text: str, program: str) -> str:
    """The settings with a hook of `program` (quoted for a shell) for each event. The same text if nothing changes."""
    settings = _read(text) if text.strip() else {}
    hooks = settings.setdefault("hooks", {})
    if not isinstance(hooks, dict):
        raise SettingsUnexpected('"hooks" is not an object')
    changed = [_add(hooks, event, program, words) for event, words in EVENTS.items()]
    if not any(changed):
        return text
    return _text(settings, text)


def without_hooks(text: str) -> str:
    """The settings without our hooks. A command with more around it belongs to the user and stays."""
    settings = _read(text) if text.strip() else {}
    hooks = settings.get("hooks")
    if not isinstance(hooks, dict):
        return text
    before = json.dumps(settings)
    for event, words in EVENTS.items():
        _hooks_of(hooks.get(event, []), event)
        for group in hooks.get(event, []):
            ours = [
                each for each in group["hooks"] if _is_ours(each.get("command"), words) and _is_plain(each["command"])
            ]
            group["hooks"] = [each for each in group["hooks"] if each not in ours]
        hooks[event] = [group for group in hooks.get(event, []) if group["hooks"]]
    settings["hooks"] = {event: groups for event, groups in hooks.items() if groups}
    if not settings["hooks"]:
        del settings["hooks"]
    return text if json.dumps(settings) == before else _text(settings, text)


def has_hooks(text: str) -> bool:
    """Whether these settings hold our hooks already."""
    return "marathon" in text and all(f" {words}" in text for words in EVENTS.values())


def _add(hooks: dict[str, Any], event: str, program: str, words: str) -> bool:
    """Add the command, or correct its program if we added it earlier. False if nothing changed."""
    ours = [hook for hook in _hooks_of(hooks.setdefault(event, []), event) if _is_ours(hook.get("command"), words)]
    wanted = f"{program} {words}"
    if not ours:
        hooks[event].append({"hooks": [{"type": "command", "command": wanted, "timeout": TIMEOUT}]})
        return True
    stale = [hook for hook in ours if hook["command"] != wanted and _is_plain(hook["command"])]
    for hook in stale:
        hook["command"] = wanted
    return bool(stale)


def _hooks_of(groups: object, event: str) -> list[dict[str, Any]]:
    if not isinstance(groups, list):
        raise SettingsUnexpected(f'"hooks.{event}" is not a list')
    found = []
    for group in groups:
        hooks = group.get("hooks") if isinstance(group, dict) else None
        if not isinstance(hooks, list) or not all(isinstance(hook, dict) for hook in hooks):
            raise SettingsUnexpected(f'"hooks.{event}" holds something other than {{"hooks": [...]}}')
        found += hooks
    return found


def _is_ours(command: object, words: str) -> bool:
    return isinstance(command, str) and "marathon" in command and f" {words}" in command


def _is_plain(command: str) -> bool:
    """Only the program and its two words. A command with more around it belongs to the user."""
    try:
        program = shlex.split(command)[:-2]
    except ValueError:
        return False
    return program[-2:] == ["-m", "marathon"] or [part.rsplit("/", 1)[-1] for part in program] == ["pi-marathon"]


def _text(settings: dict[str, Any], before: str) -> str:
    """Indented as it was before."""
    indented = re.search(r"^([ \t]+)\S", before, re.MULTILINE)
    return json.dumps(settings, indent=indented[1] if indented else 2, ensure_ascii=False) + "\n"


def _read(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsUnexpected("it is not JSON") from error
    if not isinstance(value, dict):
        raise SettingsUnexpected("it is not a JSON object")
    return value
