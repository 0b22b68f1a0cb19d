"""Claude Code as its hooks see it: the input of several of its versions, and the hook's answer."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.world import World

Json = dict[str, Any]
SESSION = "135af469-0e52-451f-bbe6-60eaceefdbfe"


class Claude:
    """A session in the project of a world."""

    def __init__(self, world: World) -> None:
        self.world = world

    # What it says to a hook, as recorded from its versions

    def stop_2_1(self, **more: Any) -> Json:
        return {
            **self._common(),
            "prompt_id": "40e039df-98e6-4aae-881d-23a76f5475d2",
            "permission_mode": "default",
            "effort": {"level": "high"},
            "hook_event_name": "Stop",
            "stop_hook_active": False,
            "last_assistant_message": "I think I am done.",
            "background_tasks": [],
            "session_crons": [],
            **more,
        }

    def stop_1_0(self, **more: Any) -> Json:
        return {**self._common(), "hook_event_name": "Stop", "stop_hook_active": False, **more}

    def stop_first(self, **more: Any) -> Json:
        """Its first versions did not say where they are; the hook is started there."""
        return {name: value for name, value in self.stop_1_0(**more).items() if name != "cwd"}

    def start(self, **more: Any) -> Json:
        return {**self._common(), "hook_event_name": "SessionStart", "source": "startup", **more}

    def _common(self) -> Json:
        transcript = self.world.home / ".claude" / "projects" / "-project" / f"{SESSION}.jsonl"
        return {"session_id": SESSION, "transcript_path": str(transcript), "cwd": str(self.world.project)}

    # The loop of its project

    def loop(self, **status: Any) -> Path:
        state = {"spec": "do it", "criteria": list(status), "criteriaStatus": status, "status": "in_progress"}
        return self.leave(json.dumps(state).encode())

    def leave(self, data: bytes) -> Path:
        folder = self.world.project / ".loop"
        folder.mkdir(exist_ok=True)
        (folder / "state.json").write_bytes(data)
        return folder

    # The hook

    def hook(self, event: str, asked: Json | bytes, **env: str) -> Json:
        data = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
        done = subprocess.run(
            self.world.argv("hook", event),
            cwd=self.world.project,
            env=self.world.env(**env),
            input=data,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return answered(done.returncode, done.stdout, done.stderr)


def answered(code: int, stdout: bytes, stderr: bytes = b"") -> Json:
    """What every answer must be: one line, a JSON object and nothing else, exit code 0."""
    assert (code, stderr) == (0, b"")
    assert stdout.count(b"\n") == 1
    value = json.loads(stdout)
    assert isinstance(value, dict)
    return value
