"""The runner's own records of each run: sessions, what was reviewed, how it ended. Only the lock's holder writes."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from marathon.errors import DiskFailed
from marathon.store.files import disk_errors, make_private_directory, write_atomic, write_new


class Runs:
    """What lies below .marathon/runs/001 and so on, and the summary beside the journal."""

    def __init__(self, own: Path) -> None:
        self._own = own

    def folder(self, run: int) -> Path:
        return Path(f"{self._own}/runs/{run:03d}")

    def session_path(self, run: int, kind: str, iteration: int, suffix: str) -> str:
        """runs/001/KIND/001.SUFFIX"""
        return f"{self._own}/runs/{run:03d}/{kind}/{iteration:03d}.{suffix}"

    def make_room(self, run: int, iteration: int, keep: int) -> None:
        """The folders of a session's files. Of the logs only the last `keep` of a run stay; 0 keeps all."""
        self._make_folder(run, "events")
        self._make_folder(run, "prompts")
        with contextlib.suppress(DiskFailed):  # what goes there is only for readers
            self._make_folder(run, "iterations")
        if keep and iteration > keep:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.session_path(run, "events", iteration - keep, "jsonl"))

    def _make_folder(self, run: int, kind: str) -> None:
        folder = f"{self._own}/runs/{run:03d}/{kind}"
        if not os.path.isdir(folder):
            make_private_directory(Path(folder))

    def worked(self, run: int, iteration: int, started: str) -> float:
        """Seconds from the start of a session nobody saw the end of to the last thing it printed."""
        from marathon.store.events import last_activity  # `list` and `status` do not need it

        try:
            began = datetime.fromisoformat(started).timestamp()
            log = self.session_path(run, "events", iteration, "jsonl")
            written = os.stat(log).st_mtime
            last = min(last_activity(log) or written, written)  # no event is later than its file
        except (OSError, ValueError):
            return 0.0
        return max(0.0, last - began)

    def write_iteration(self, facts: Mapping[str, Any]) -> None:
        """What is known of a session, for whoever wants to read it; we go by the journal."""
        # Not `indent`: that is several times as slow, and an agent is starting.
        text = json.dumps(facts, separators=(",\n ", ": "), ensure_ascii=False)
        write_new(self._iteration(facts), f"{text}\n".encode("utf-8", "replace"))

    def unfiled(self, sessions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Those at the end that have no file, or an empty one: their runner was killed before it was written."""

        def has_none(facts: Mapping[str, Any]) -> bool:
            try:
                return os.stat(self._iteration(facts)).st_size == 0
            except OSError:
                return True

        return list(takewhile(has_none, reversed(sessions)))[::-1]

    def _iteration(self, facts: Mapping[str, Any]) -> str:
        return self.session_path(facts["run"], "iterations", facts["iteration"], "json")

    def write_report(self, run: int, text: str) -> None:
        """summary.md of a run: what a human wants to know who was not there. A task that was removed stays so."""
        if self._own.is_dir():
            make_private_directory(self.folder(run))
            write_atomic(self.folder(run) / "summary.md", text.encode("utf-8", "replace"), durable=False)

    def write_summary(self, facts: dict[str, Any]) -> None:
        """What `status` and `list` tell of a task at rest, good for exactly this journal."""
        size = (self._own / "journal.jsonl").stat().st_size
        write_atomic(self._own / "summary.json", json.dumps({**facts, "journal": size}).encode(), durable=False)

    def summary(self) -> dict[str, Any] | None:
        """The summary, unless the journal has grown since or a message has come."""
        try:
            facts: dict[str, Any] = json.loads((self._own / "summary.json").read_bytes())
            current = facts.pop("journal") == (self._own / "journal.jsonl").stat().st_size
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        inbox = self._own / "inbox"
        return facts if current and not (inbox.is_dir() and any(inbox.iterdir())) else None

    def save_round(self, run: int, phase: str, number: int, output: Path) -> None:
        target = self.round_path(run, phase, number)
        make_private_directory(target.parent)
        with disk_errors("copy", target):
            write_atomic(target, output.read_bytes(), durable=False)

    def round_path(self, run: int, phase: str, number: int) -> Path:
        return self.folder(run) / "rounds" / f"{phase}-{number}.md"
