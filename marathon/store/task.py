"""A task directory: what is in it, who may write what, and what is refused."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from marathon.core.human_note import TITLE, HumanNote
from marathon.core.records import HumanMark
from marathon.core.sections import boxes
from marathon.core.state import StateInvalid
from marathon.errors import TaskInvalid
from marathon.store.files import (
    SHARED_FILE,
    append_durable,
    disk_errors,
    make_private_directory,
    mark_of,
    read_regular,
    sync_directory,
    write_atomic,
)
from marathon.store.inbox import Inbox
from marathon.store.runs import Runs

if TYPE_CHECKING:
    from marathon.core.state import TaskState

INSTRUCTIONS = "instructions.md"
CHECKS = "checks.toml"
REFLECT = "reflect.md"
PLAN = "plan.md"
LONGEST_TEXT = 1024 * 1024
STATE = "STATE.json"
SET_ASIDE = f"{STATE}.invalid-"
_OURS = (f"{STATE}.", f".{STATE}.", ".nfs")  # set aside, being written, and on NFS: replaced but still held
HUMAN = "human.md"
OWN = ".marathon"


class Task:
    """The files of one task. Reading needs no lock; everything else is for the lock's holder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.own = folder / OWN
        self.inbox = Inbox(self.own / "inbox")
        self.runs = Runs(self.own)
        self.journal_path = self.own / "journal.jsonl"
        self.lock_path = self.own / "lock"
        # Joined once: these are looked at between any two sessions.
        self._state, self._human = folder / STATE, folder / HUMAN
        self._checks, self._instructions = folder / CHECKS, folder / INSTRUCTIONS

    @classmethod
    def open(cls, path: Path) -> Task:
        """A task that can be worked on; TaskInvalid says what is wrong with it. Changes nothing."""
        folder = _existing_directory(path)
        task = cls(folder)
        _check_instructions(folder / INSTRUCTIONS, path)
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(SET_ASIDE):
                    continue  # a link may lie here, but nobody follows it
                if entry.is_symlink() and (entry.name in (STATE, OWN, HUMAN) or _leads_out(folder, entry.path)):
                    raise TaskInvalid(
                        f"{path / entry.name} is a symlink out of the task directory. Replace it by a real file."
                    )
        if os.path.lexists(folder / CHECKS) and not (folder / CHECKS).is_file():
            raise TaskInvalid(f"{path / CHECKS} is not a file. Replace it by one, or remove it.")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise TaskInvalid(f"{path} cannot be written. Check its permissions: ls -ld {path}")
        if task.own.exists() and not task.own.is_dir():
            raise TaskInvalid(f"{path / OWN} is not a directory. Move it aside: it is where the runner keeps its own.")
        if task.own.exists() and not os.access(task.own, os.W_OK | os.X_OK):
            raise TaskInvalid(f"{path / OWN} cannot be written. Check its permissions: ls -ld {path / OWN}")
        return task

    @classmethod
    def look(cls, path: Path) -> Task:
        """A task to be looked at: it has instructions or a state."""
        task = cls(_existing_directory(path))
        if not any((task.folder / name).exists() for name in (INSTRUCTIONS, STATE, OWN)):
            raise TaskInvalid(
                f"{path} is not a task directory: it has no {INSTRUCTIONS}. Make one with: pi-marathon new"
            )
        return task

    def prepare(self) -> None:
        """The runner's own folder, kept out of git."""
        make_private_directory(self.own)
        if not (self.own / ".gitignore").exists():
            write_atomic(self.own / ".gitignore", b"*\n")

    # STATE.json

    def read_state(self) -> TaskState | None:
        """What STATE.json says, None if it is not there, StateInvalid if it cannot be trusted."""
        from marathon.core.state import MAX_BYTES, parse_state

        try:
            data = read_regular(self._state, MAX_BYTES)
        except OSError as error:
            link = self._state.is_symlink()
            raise StateInvalid("it is a symlink" if link else (error.strerror or str(error))) from error
        return None if data is None else parse_state(data)

    def state_mark(self) -> str | None:
        """Changes whenever STATE.json is written."""
        return mark_of(self._state)

    def write_state(self, state: TaskState) -> None:
        write_atomic(self._state, state.to_bytes(), mode=SHARED_FILE)

    def set_state_aside(self, now: datetime) -> str | None:
        """Keep an invalid STATE.json under a name of its own; returns that name, None if there is no file."""
        if not os.path.lexists(self._state):
            return None
        stamp = now.strftime("%Y%m%d-%H%M%S")
        for number in range(1, 10_000):
            name = f"{SET_ASIDE}{stamp}" + (f"-{number}" if number > 1 else "")
            if not os.path.lexists(self.folder / name):
                break
        with disk_errors("set aside", self._state):
            os.rename(self._state, self.folder / name)
            sync_directory(self.folder)
        return name

    def remove_leftovers(self) -> None:
        """What a runner that was killed while it wrote STATE.json left beside it; only for the lock's holder."""
        for path in self.folder.glob(f".{STATE}.{'[0-9a-f]' * 12}.tmp"):
            path.unlink(missing_ok=True)

    # The agent's artifacts

    def output_mark(self, name: str | None) -> str | None:
        """The mark of an output file; a link out of the task directory does not count as one."""
        path = os.path.join(self.folder, name or "")
        return None if name is None or _leads_out(self.folder, path) else mark_of(path)

    def artifacts(self) -> set[str]:
        """The names of what lies in the task directory, the runner's own and STATE.json aside."""
        return {name for name in os.listdir(self.folder) if name not in (OWN, STATE) and not name.startswith(_OURS)}

    def plan_steps(self) -> tuple[int, int] | None:
        """How many boxes of the plan are ticked, and how many there are."""
        text = self._text(PLAN)
        return boxes(text) if text else None

    def reflection(self) -> str:
        """The human's own words for looking back; empty if there are none."""
        return self._text(REFLECT) or ""

    def criteria_texts(self) -> tuple[str | None, str]:
        """The two files that say what has to be true in the end: checks.toml, if it is there, and the instructions."""
        return self._text(CHECKS), self._text(INSTRUCTIONS) or ""

    def criteria_marks(self) -> tuple[str | None, ...]:
        """Change whenever one of the two does."""
        return mark_of(self._checks), mark_of(self._instructions)

    @property
    def asks_in(self) -> str:
        """The file in which a human says what has to be true in the end."""
        return CHECKS if self._checks.is_file() else INSTRUCTIONS

    def _text(self, name: str) -> str | None:
        """A file of the task's as text; None if it is not there or leads elsewhere."""
        path = os.path.join(self.folder, name)
        if _leads_out(self.folder, path) or not os.path.isfile(path):
            return None
        with disk_errors("read", path), open(path, "rb") as file:
            return file.read(LONGEST_TEXT).decode("utf-8", "replace")

    # human.md

    def human_text(self) -> bytes:
        with disk_errors("read", self._human):
            return read_regular(self._human) or b""

    def new_from_human(self, delivered: HumanMark) -> tuple[str, HumanMark]:
        """What human.md holds beyond what was delivered, and the mark that says all of it was."""
        data = self.human_text()
        known = data[: delivered.size]
        if len(data) < delivered.size or (delivered.size and _digest(known) != delivered.digest):
            known = b""  # edited by hand before the mark: better twice than never
        return data[len(known) :].decode("utf-8", "replace"), HumanMark(size=len(data), digest=_digest(data))

    def append_human(self, note: HumanNote) -> None:
        """Add what a human said, once: if it stands there already, under a heading with its time, nothing happens."""
        data = self.human_text()
        block = note.block.encode()
        if block in data:
            return
        before = f"{TITLE}\n\n".encode() if not data.strip() else (b"\n" if data.endswith(b"\n") else b"\n\n")
        append_durable(self._human, before + block, mode=SHARED_FILE)

    def save_round(self, run: int, phase: str, number: int, output: str | None) -> None:
        """Keep what a human is about to review, so that the next round can be compared with it."""
        if output and self.output_mark(output):
            self.runs.save_round(run, phase, number, self.folder / output)

    def exists(self) -> bool:
        return os.path.isdir(self.folder)


def create_task(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """A new task directory with these files; refuses one that is there."""
    with disk_errors("create", folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        for name, data in files:
            write_atomic(folder / name, data, mode=SHARED_FILE)
        sync_directory(folder.parent)


def template_files(template: Path) -> list[tuple[str, bytes]]:
    with disk_errors("read", template):
        return [(path.name, path.read_bytes()) for path in sorted(template.iterdir()) if path.is_file()]


def _existing_directory(path: Path) -> Path:
    try:
        folder = path.resolve()
        if folder.is_dir():
            return folder
        exists = folder.exists()
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise TaskInvalid(f"{str(path)[:200]!r} cannot be used as a task directory: {reason}") from error
    if exists:
        raise TaskInvalid(f"{path} is a file, not a task directory. Give the directory that holds {INSTRUCTIONS}.")
    raise TaskInvalid(f"{path} does not exist. Make a task with: pi-marathon new")


def _check_instructions(path: Path, shown: Path) -> None:
    advice = f"Write what is to be done into {shown / INSTRUCTIONS}."
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise TaskInvalid(f"{shown / INSTRUCTIONS} is not a file. {advice}")
        text = path.read_bytes()
    except FileNotFoundError:
        raise TaskInvalid(f"{shown} has no {INSTRUCTIONS}. {advice}") from None
    except OSError as error:
        raise TaskInvalid(f"{shown / INSTRUCTIONS} cannot be read: {error.strerror}. {advice}") from error
    if not text.strip():
        raise TaskInvalid(f"{shown / INSTRUCTIONS} is empty. {advice}")


def _leads_out(folder: Path, path: str) -> bool:
    return os.path.islink(path) and not Path(os.path.realpath(path)).is_relative_to(folder)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
