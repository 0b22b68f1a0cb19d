"""The runner's own files about each run: sessions, reviewed rounds, the report. Only the holder of the lock writes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marathon.store.files import (
    LARGEST_DOCUMENT,
    PRIVATE_DIR,
    SHARED_FILE,
    UNFINISHED,
    beginning_of,
    digest_of,
    disk_errors,
    make_private_directory,
    read_regular,
    write_atomic,
)

if TYPE_CHECKING:
    from marathon.core.rounds import Round


class Runs:
    """What lies below runs/001 and so on in the task's home, and the summary beside the journal."""

    def __init__(self, own: Path) -> None:
        self._own = own

    def folder(self, run: int) -> Path:
        return self._own / "runs" / f"{run:03d}"

    def session_path(self, run: int, kind: str, iteration: int, suffix: str) -> str:
        """runs/001/KIND/001.SUFFIX"""
        return str(self.folder(run) / kind / f"{iteration:03d}.{suffix}")

    def make_room(self, run: int, iteration: int, keep: int) -> None:
        """Make the folders of a session's files. Only the last `keep` logs of a run stay; 0 keeps all of them."""
        for kind in ("events", "prompts"):
            make_private_directory(self.folder(run) / kind)
        if keep and iteration > keep:
            from marathon.store.events import remove_log  # as below

            remove_log(self.session_path(run, "events", iteration - keep, "jsonl"))

    def worked(self, run: int, iteration: int, started: str) -> float:
        """Seconds from a session's start to the last sign of its agent, for a session whose end no one saw."""
        from marathon.store.events import last_activity  # `list` and `status` do not need it

        last = last_activity(self.session_path(run, "events", iteration, "jsonl"))
        return max(0.0, last - datetime.fromisoformat(started).timestamp())

    def write_iteration(self, facts: Mapping[str, Any]) -> None:
        """What is known of a session. This file is for readers; the runner goes by the journal."""
        path, text = self._iteration(facts), json.dumps(facts, indent=1, ensure_ascii=False)
        make_private_directory(path.parent)
        write_atomic(path, f"{text}\n".encode("utf-8", "replace"), durable=False)

    def unfiled(self, sessions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The sessions that have no whole file, because their runner was killed or the power was cut."""
        return [facts for facts in sessions if not self._is_filed(facts)]

    def _is_filed(self, facts: Mapping[str, Any]) -> bool:
        try:
            return isinstance(json.loads(read_regular(self._iteration(facts)) or b""), dict)
        except (OSError, ValueError, RecursionError):
            return False

    def remove_leftovers(self) -> None:
        """Remove what a runner left that was killed while it wrote. Only for the holder of the lock."""
        folders = (self._own / "code.git").glob(UNFINISHED), (self._own / "runs").rglob(UNFINISHED)
        for path in (*self._own.glob(UNFINISHED), *folders[0], *folders[1]):
            path.unlink(missing_ok=True)

    def _iteration(self, facts: Mapping[str, Any]) -> Path:
        return Path(self.session_path(facts["run"], "iterations", facts["iteration"], "json"))

    def write_report(self, run: int, text: str) -> None:
        """summary.md of a run, for a human who was not there. A task that was removed does not come back."""
        if self._own.is_dir():
            make_private_directory(self.folder(run))
            write_atomic(self.folder(run) / "summary.md", text.encode("utf-8", "replace"), durable=False)

    def write_report_to(self, path: Path, text: str) -> None:
        write_atomic(path, text.encode("utf-8", "replace"), mode=SHARED_FILE, durable=False)

    def write_summary(self, facts: dict[str, Any], by: str = "") -> None:
        """What `status` and `list` tell of a task at rest. The journal's size says for which journal this is true.

        `by` is the runner, if it came to an end of its own.
        """
        facts = {**facts, "journal": self.journal_size(), "by": by}
        write_atomic(self._own / "summary.json", json.dumps(facts).encode(), durable=False)

    def summary(self) -> dict[str, Any] | None:
        """The summary, unless the journal has grown since, or a message has come."""
        facts = self._last_summary()
        facts.pop("by", "")
        return facts if self.unchanged_since(facts.pop("journal", None)) else None

    def unchanged_since(self, journal_size: object) -> bool:
        """Whether the journal is still so long, and no message has come."""
        own = str(self._own)
        try:
            if os.stat(f"{own}/journal.jsonl").st_size != journal_size:
                return False
            return not os.listdir(f"{own}/inbox")
        except FileNotFoundError as missing:
            return bool(missing.filename == f"{own}/inbox")
        except OSError:
            return False

    def left_by(self) -> str:
        """The runner that came to an end of its own last. Empty if that is not known."""
        return str(self._last_summary().get("by", ""))

    def _last_summary(self) -> dict[str, Any]:
        try:
            facts = json.loads(read_regular(self._own / "summary.json", LARGEST_DOCUMENT) or b"")
        except (OSError, ValueError):
            return {}
        return facts if isinstance(facts, dict) else {}

    def journal_size(self) -> int:
        return (self._own / "journal.jsonl").stat().st_size

    def save_round(self, run: int, phase: str, number: int, output: Path) -> None:
        target = self.round_path(run, phase, number)
        make_private_directory(target.parent)
        with disk_errors("copy", target):
            write_atomic(target, beginning_of(output), durable=False)

    def round_path(self, run: int, phase: str, number: int) -> Path:
        return self.folder(run) / "rounds" / f"{phase}-{number}.md"

    def save_human_round(self, run: int, name: str, number: int, data: bytes) -> Path:
        """Keep a document as the human left it, beside what the agent wrote. The same contents are kept once."""
        stem = Path(name).stem
        make_private_directory(self.folder(run) / "rounds")
        for nth in count(1):
            path = self.human_round_path(run, stem, number, nth)
            if not path.exists():
                write_atomic(path, data)
            if path.read_bytes() == data:
                break
        return path

    def human_round_path(self, run: int, stem: str, number: int, nth: int = 1) -> Path:
        more = f"-{nth}" if nth > 1 else ""
        return self.folder(run) / "rounds" / f"{stem}-{number}.human{more}.md"

    def round_file(self, each: Round) -> Path | None:
        """The copy of a round. None if it was not kept, or is another text than the one in the journal."""
        kept = each.kept.removeprefix(".marathon/")
        path = self._own / kept if kept else self.round_path(each.run, each.phase, each.number)
        if not path.is_file() or path.is_symlink():
            return None
        return path if each.digest in ("", digest_of(path.read_bytes())) else None

    # The documents as they were when a gate opened. Only those of the last gate are kept.

    def save_at_gate(self, run: int, token: str, documents: Mapping[str, bytes]) -> None:
        top = self.folder(run) / "gate"
        shutil.rmtree(top, ignore_errors=True)
        make_private_directory(top.parent)
        for folder in (top, top / token, *((top / token / name).parent for name in documents)):
            with disk_errors("create", folder):
                folder.mkdir(PRIVATE_DIR, parents=True, exist_ok=True)
        for name, data in documents.items():
            write_atomic(top / token / name, data, durable=False)

    def saved_at_gate(self, run: int, token: str) -> Path | None:
        """The folder with these documents. None for a gate that an older version opened."""
        folder = self.folder(run) / "gate" / token
        return folder if token and folder.is_dir() else None
