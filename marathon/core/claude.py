"""Claude Code's settings.json with our hooks in it: as text, everything else and its order kept."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from typing import Any

EVENTS = {"Stop": "hook stop", "SessionStart": "hook session-start"}
TIMEOUT = 30  # seconds; a tenth of one is what it takes


class SettingsUnexpected(ValueError):
    """The settings are not of the form Claude Code reads; str() says what is wrong."""


def with_hooks(text: str, program: str) -> str:
    """The settings with a hook of `program` (as a shell reads it) for each event; the same text if all are there."""
    settings = _read(text) if text.strip() else {}
    hooks = settings.setdefault("hooks", {})
    if not isinstance(hooks, dict):
        raise SettingsUnexpected('"hooks" is not an object')
    changed = [_add(hooks, event, program, words) for event, words in EVENTS.items()]
    return _written(settings, text) if any(changed) else text


def _add(hooks: dict[str, Any], event: str, program: str, words: str) -> bool:
    """Put the command in, or mend its program where we had put it in before; False where all is as it should be."""
    ours = [hook for hook in _commands(hooks.setdefault(event, []), event) if _is_ours(hook, words)]
    wanted = f"{program} {words}"
    if not ours:
        hooks[event].append({"hooks": [{"type": "command", "command": wanted, "timeout": TIMEOUT}]})
        return True
    stale = [hook for hook in ours if hook["command"] != wanted and _is_plain(hook["command"])]
    for hook in stale:
        hook["command"] = wanted
    return bool(stale)


def _commands(groups: object, event: str) -> list[dict[str, Any]]:
    if not isinstance(groups, list):
        raise SettingsUnexpected(f'"hooks.{event}" is not a list')
    found = []
    for group in groups:
        hooks = group.get("hooks") if isinstance(group, dict) else None
        if not isinstance(hooks, list) or not all(isinstance(hook, dict) for hook in hooks):
            raise SettingsUnexpected(f'"hooks.{event}" holds something else than {{"hooks": [...]}}')
        found += hooks
    return found


def _is_ours(hook: dict[str, Any], words: str) -> bool:
    command = hook.get("command")
    return isinstance(command, str) and "marathon" in command and f" {words}" in command


def _is_plain(command: str) -> bool:
    """Nothing but the program and its words: what somebody built around it is theirs."""
    try:
        program = shlex.split(command)[:-2]
    except ValueError:
        return False
    by_module = program[-2:] == ["-m", "marathon"]
    return by_module or (len(program) == 1 and program[0].rsplit("/", 1)[-1] == "pi-marathon")


def _read(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except SettingsUnexpected:
        raise
    except (ValueError, RecursionError) as error:
        raise SettingsUnexpected("it is not JSON") from error
    if not isinstance(value, dict):
        raise SettingsUnexpected("it is not a JSON object")
    return value


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise SettingsUnexpected(f'"{key[:60]}" is there twice')
        seen[key] = value
    return seen


def _no_constant(name: str) -> Any:
    raise SettingsUnexpected(f"{name} is not a JSON value")


def _written(settings: dict[str, Any], before: str) -> str:
    indented = re.search(r"^([ \t]+)\S", before, re.MULTILINE)
    try:
        text = json.dumps(settings, indent=indented[1] if indented else 2, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(settings, indent=2)
    except ValueError as error:
        raise SettingsUnexpected("it holds a number that is too large") from error
    return text + "\n"
