"""Atomically writing the few files a session touches, STATE.json among them."""

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from marathon.agents.rehearsal.session import Session


def write_text(path: Path, text: str) -> None:
    """Put a whole new file in the old one's place, with the old one's mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(text.encode("utf-8"))
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o7777)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def leave_state(
    session: Session, state: str, phase: str, note: str, more: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Propose how the task goes on; fields we do not know are kept."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    try:
        before = json.loads(session.read("STATE.json") or "{}")
    except ValueError:
        before = {}
    kept = before if isinstance(before, dict) else {}
    proposal = {
        **kept,
        **more,
        "state": state,
        "phase": phase,
        "iteration": session.iteration,
        "updatedAt": now,
        "note": note,
    }
    session.say(f"{state}: {note}")
    write_text(session.task / "STATE.json", json.dumps(proposal, indent=2, ensure_ascii=False) + "\n")
