"""What Claude Code's hooks cost it at every stop and start, in bare Python starts."""

from __future__ import annotations

import json

from bench.counts import Counts
from bench.row import Row, Target
from bench.scratch import BARE, DIRECT, Scratch, least_work


def measure(scratch: Scratch, counts: Counts) -> list[Row]:
    _make_loop(scratch)
    commands = {
        "bare": BARE,
        "hook stop": _asked(scratch, "stop", hook_event_name="Stop", stop_hook_active=True),
        "hook session-start": _asked(scratch, "session-start", hook_event_name="SessionStart", source="startup"),
    }
    least = {name: 1000 * seconds for name, seconds in least_work(scratch, commands, counts.starts).items()}
    names = [name for name in commands if name != "bare"]
    return [Row(name, least[name], "ms cpu", least["bare"], "python -c pass", Target("ratio", 8)) for name in names]


def _make_loop(scratch: Scratch) -> None:
    """One that is not done, so that all of the work is: the transcript is read, the answer remembered."""
    folder = scratch.project / ".loop"
    folder.mkdir()
    state = {
        "criteria": ["tests pass"],
        "criteriaStatus": {"tests pass": True},
        "status": "in_progress",
        "iteration": 2,
    }
    (folder / "state.json").write_text(json.dumps(state))
    asked = {"type": "user", "message": {"role": "user", "content": "go on " * 200}}
    said = {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "Not yet. " * 200}]}}
    turn = f"{json.dumps(asked)}\n{json.dumps(said)}\n"
    (scratch.project / "transcript.jsonl").write_text(turn * 1000)


def _asked(scratch: Scratch, event: str, **more: object) -> tuple[str, ...]:
    """By way of a shell that hands over the input, as Claude Code does; its own little work is counted too."""
    common = {
        "session_id": "s",
        "cwd": str(scratch.project),
        "transcript_path": str(scratch.project / "transcript.jsonl"),
    }
    asked = scratch.project / f"{event}.json"
    asked.write_text(json.dumps({**common, **more}))
    return ("sh", "-c", f'exec "$@" < {event}.json', "sh", *DIRECT, "hook", event)
