"""Reading and atomically writing the few files a session touches, STATE.json among them."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def read_text(path: Path) -> str | None:
    """The file's text with its line ends as they are, or None where there is no such file."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_text(path: Path, text: str) -> None:
    """Put a whole new file in the old one's place, with the old one's mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        with open(temporary, "xb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            if path.exists():
                os.fchmod(file.fileno(), path.stat().st_mode & 0o7777)
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_state(task: Path) -> dict[str, Any]:
    """STATE.json as it stands; what cannot be read counts as empty, the runner deals with it."""
    try:
        state = json.loads(read_text(task / "STATE.json") or "{}")
    except (ValueError, RecursionError):
        return {}
    return state if isinstance(state, dict) else {}


def leave_state(task: Path, state: str, phase: str, iteration: int, note: str) -> None:
    """Propose how the task goes on; fields we do not know are kept."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    proposal = read_state(task) | {
        "state": state,
        "phase": phase,
        "iteration": iteration,
        "updatedAt": now,
        "note": note,
    }
    write_text(task / "STATE.json", json.dumps(proposal, indent=2, ensure_ascii=False) + "\n")
