"""A home directory of its own for the real pi: its settings, and the scripted model as its only model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.real.install import PiInstall

EXTENSION = Path(__file__).resolve().parents[2] / "marathon" / "agents" / "pi" / "extension" / "marathon-loop.ts"

QUICK: dict[str, Any] = {
    "defaultProvider": "lab",
    "defaultModel": "scripted",
    "defaultThinkingLevel": "off",
    "quietStartup": True,
    "enableInstallTelemetry": False,
    "retry": {"enabled": True, "maxRetries": 2, "baseDelayMs": 100},
    "httpIdleTimeoutMs": 3000,
}


class PiHome:
    """Everything pi reads and writes lies below one folder; nothing of the user's is seen or touched."""

    def __init__(self, folder: Path, install: PiInstall, model_url: str, **settings: Any) -> None:
        self.install = install
        self.home = folder / "home"
        self.states = folder / "states"
        self.path = ""  # the search path, if it is not ours
        self.agent_folder = self.home / ".pi" / "agent"
        self.agent_folder.mkdir(parents=True)
        self.states.mkdir(mode=0o700)
        self.model: dict[str, Any] = {
            "id": "scripted",
            "name": "Scripted",
            "reasoning": True,
            "input": ["text"],
            "contextWindow": 128_000,
            "maxTokens": 4096,
            "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 0},
        }
        self._url = model_url
        self.has_model()
        self._write("settings.json", {**QUICK, **settings})

    def has_model(self, **changes: Any) -> None:
        """The one model, with other facts about it than usual."""
        models = [{**self.model, **changes}]
        provider = {"baseUrl": self._url, "api": "openai-completions", "apiKey": "no-secret", "models": models}
        self._write("models.json", {"providers": {"lab": provider}})

    def env(self, **more: str) -> dict[str, str]:
        """The whole environment of a pi: nothing of ours but what programs need to run."""
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL", "TMPDIR")}
        return {
            "LANG": "C.UTF-8",
            **kept,
            **({"PATH": self.path} if self.path else {}),
            "HOME": str(self.home),
            "TERM": "xterm-256color",
            "PI_CODING_AGENT_DIR": str(self.agent_folder),
            "PI_MARATHON_STATES": str(self.states),
            "PI_OFFLINE": "1",
            "PI_TELEMETRY": "0",
            "PI_SKIP_VERSION_CHECK": "1",
            **more,
        }

    def argv(self, *args: str) -> list[str]:
        """pi with our extensions, but not with those of measured loops."""
        inside = str(EXTENSION.with_name("inside.ts"))
        return [*self.install.command, "-e", str(EXTENSION), "-e", inside, *args]

    def session_name(self, id: str) -> str:
        """What `pi -r` calls a session."""
        (file,) = self.agent_folder.glob(f"sessions/*/*_{id}.jsonl")
        entries = map(json.loads, file.read_text().splitlines())
        return str([entry["name"] for entry in entries if entry["type"] == "session_info"][-1])

    def has_settings(self, **changes: Any) -> None:
        self._write("settings.json", {**self.settings(), **changes})

    def settings(self) -> dict[str, Any]:
        value = json.loads((self.agent_folder / "settings.json").read_text())
        assert isinstance(value, dict)
        return value

    def _write(self, name: str, value: dict[str, Any]) -> None:
        (self.agent_folder / name).write_text(json.dumps(value, indent=2))
