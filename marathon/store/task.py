"""A task directory: what is in it, who may write what, and what is refused."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from marathon.core.human_note import TITLE, HumanNote
from marathon.core.records import HumanMark
from marathon.core.sections import boxes, says_nothing
from marathon.core.state import StateInvalid
from marathon.core.text import size
from marathon.errors import MarathonError, TaskInvalid
from marathon.store.files import (
    LARGEST_DOCUMENT,
    SHARED_FILE,
    append_durable,
    beginning_of,
    digest_of,
    disk_errors,
    mark_of,
    read_patiently,
    read_regular,
    sync_directory,
    unused_name,
    write_atomic,
)
from marathon.store.home import INSTRUCTIONS, LINK, STATE, Home, is_task
from marathon.store.inbox import Inbox
from marathon.store.runs import Runs

if TYPE_CHECKING:
    from marathon.core.state import TaskState

CHECKS = "checks.toml"
REFLECT = "reflect.md"
PLAN = "plan.md"
WORK = "work.md"
HUMAN = "human.md"
OWN = LINK
SET_ASIDE = f"{STATE}.invalid-"
LONGEST_TEXT = 1_000_000
LONGEST_DOCUMENT = 256 * 1024
_OURS = (f"{STATE}.", f".{STATE}.", ".nfs")  # set aside, being written, and on NFS: replaced but still held
_STAMP = "%Y%m%d-%H%M%S"


class Task:
    """The files of one task. Reading needs no lock. Everything else is for the holder of the lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = Home(folder)
        self.own = self.home.folder
        self.inbox = Inbox(self.own / "inbox")
        self.runs = Runs(self.own)
        self.journal_path = self.home.journal
        self.lock_path = self.home.lock
        self.output_log = self.own / "output.log"  # of a runner that `run` has started
        self._state = folder / STATE
        self._human = folder / HUMAN
        self._checks = folder / CHECKS
        self._instructions = folder / INSTRUCTIONS
        self._blank: dict[str, tuple[str, bool]] = {}  # each output with its mark, and whether it was blank then

    @classmethod
    def open(cls, path: Path) -> Task:
        """A task that can be worked on. TaskInvalid says what is wrong with it. Changes nothing."""
        task = cls(_existing_directory(path))
        _check_instructions(task._instructions, path)
        for entry in task.folder.iterdir():
            if entry.name.startswith(SET_ASIDE):
                continue  # this may be a link, but no one follows it
            if entry.name == OWN:
                continue  # a link to the home, or anything: no one reads it
            if entry.is_symlink() and (entry.name in (STATE, HUMAN) or _leads_out(task.folder, entry)):
                raise TaskInvalid(
                    f"{path / entry.name} is a symlink out of the task directory. Replace it by a real file."
                )
        if os.path.lexists(task._checks) and not task._checks.is_file():
            raise TaskInvalid(f"{path / CHECKS} is not a file. Replace it by a file, or remove it.")
        for folder, shown in ((task.folder, path), (task.own, task.own)):
            if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
                raise TaskInvalid(f"{shown} cannot be written. Check its permissions: ls -ld {shown}")
        return task

    @classmethod
    def look(cls, path: Path) -> Task:
        """A task to be looked at. It has instructions, a state or a journal."""
        task = cls(_existing_directory(path))
        if not is_task(task.folder):
            raise TaskInvalid(
                f"{path} is not a task directory: it has no {INSTRUCTIONS}. Make one with: pi-marathon new"
            )
        return task

    def exists(self) -> bool:
        return self.folder.is_dir()

    # STATE.json

    def read_state(self) -> TaskState | None:
        """What STATE.json says. None if there is no file, StateInvalid if it cannot be trusted."""
        from marathon.core.state import MAX_BYTES, parse_state

        try:
            data = read_patiently(self._state, MAX_BYTES)
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
        """Keep an invalid STATE.json under a name of its own and return that name. None if there is no file."""
        if not os.path.lexists(self._state):
            return None
        kept = unused_name(self.folder / f"{SET_ASIDE}{now.strftime(_STAMP)}")
        with disk_errors("set aside", self._state):
            os.rename(self._state, kept)
            sync_directory(self.folder)
        return kept.name

    def remove_leftovers(self) -> None:
        """Remove what a runner left that was killed while it wrote STATE.json. Only for the holder of the lock."""
        for path in self.folder.glob(f".{STATE}.{'[0-9a-f]' * 12}.tmp"):
            path.unlink(missing_ok=True)
        self.runs.remove_leftovers()

    # The agent's artifacts

    def output_mark(self, name: str | None) -> str | None:
        """The mark of an output file. A link out of the task directory, or a blank file, is not an output."""
        if name is None or _leads_out(self.folder, self.folder / name):
            return None
        mark = mark_of(self.folder / name)
        return mark if mark and not self._is_blank(name, mark) else None

    def _is_blank(self, name: str, mark: str) -> bool:
        """Whether a file holds white space only, or in Markdown headings only. Read again only when it changed."""
        known = self._blank.get(name)
        if known is None or known[0] != mark:
            text = ""
            with contextlib.suppress(MarathonError):  # what cannot be read says nothing
                text = self._text(name) or ""
            known = self._blank[name] = mark, says_nothing(text) if name.endswith(".md") else not text.strip()
        return known[1]

    def has_instructions(self) -> bool:
        """Whether the instructions are there and say something. A title alone may be all there is to say."""
        return bool((self._text(INSTRUCTIONS) or "").strip())

    def artifacts(self) -> set[str]:
        """The names in the task directory, without STATE.json and what the runner keeps there."""
        return {
            name
            for name in os.listdir(self.folder)
            if name not in (OWN, STATE, ".gitignore") and not name.startswith(_OURS)
        }

    def steps(self, checklist: str | None) -> tuple[int, int] | None:
        """How many boxes of a checklist, usually the plan, are ticked, and how many there are."""
        text = self._text(checklist or PLAN)
        return boxes(text) if text else None

    def working_memory(self, checklist: str | None) -> str:
        """The text of a phase's checklist. Empty if there is none."""
        return (self._text(checklist) or "") if checklist else ""

    def reflection(self) -> str:
        """The human's own words for looking back. Empty if there are none."""
        return self._text(REFLECT) or ""

    def criteria_texts(self) -> tuple[str | None, str]:
        """The two files that say what has to be true in the end: checks.toml, if it is there, and the instructions."""
        return self._text(CHECKS), self._text(INSTRUCTIONS) or ""

    def criteria_marks(self) -> tuple[str | None, ...]:
        """Change whenever one of these two files is written."""
        return mark_of(self._checks), mark_of(self._instructions)

    @property
    def asks_in(self) -> str:
        """The file in which a human says what has to be true in the end."""
        return CHECKS if self._checks.is_file() else INSTRUCTIONS

    def save_round(self, run: int, phase: str, number: int, output: str | None) -> None:
        """Keep what a human is about to review, so that the next round can be compared with it."""
        if output and self.output_mark(output):
            self.runs.save_round(run, phase, number, self.folder / output)

    def document(self, name: str) -> bytes | None:
        """The contents of a document. None if it is not there, leads elsewhere, or is too long to compare."""
        path = self.folder / name
        if _leads_out(self.folder, path) or not path.is_file():
            return None
        with disk_errors("read", path), path.open("rb") as file:
            data = file.read(LONGEST_DOCUMENT + 1)
        return data if len(data) <= LONGEST_DOCUMENT else None

    def digest(self, name: str) -> str:
        """Of a document's contents. Empty if it is not there, or leads elsewhere."""
        path = self.folder / name
        if _leads_out(self.folder, path) or not path.is_file():
            return ""
        with disk_errors("read", path):
            return digest_of(beginning_of(path))

    def archive_names(self, outputs: Iterable[str], now: datetime) -> list[tuple[str, str]]:
        """(file, archive name) for each output that exists. All names have the same time, and none of them is taken."""
        present = [Path(name) for name in dict.fromkeys(outputs) if os.path.lexists(self.folder / name)]
        while True:
            names = [(str(path), f"{path.stem}.{now.strftime(_STAMP)}{path.suffix}") for path in present]
            if not any(os.path.lexists(self.folder / archived) for _, archived in names):
                return names
            now += timedelta(seconds=1)

    def archive(self, files: Iterable[tuple[str, str]]) -> None:
        """Move each file to its archive name. Files that an interrupted try has moved stay where they are."""
        for name, archived in files:
            source, target = self.folder / name, self.folder / archived
            with disk_errors("archive", source):
                if os.path.lexists(source) and not os.path.lexists(target):
                    os.rename(source, target)
        with disk_errors("archive files in", self.folder):
            sync_directory(self.folder)

    def _text(self, name: str) -> str | None:
        """The text of a file in the task. None if the file is not there or leads elsewhere."""
        path = self.folder / name
        if _leads_out(self.folder, path) or not path.is_file():
            return None
        with disk_errors("read", path), path.open("rb") as file:
            return file.read(LONGEST_TEXT).decode("utf-8", "replace")

    # human.md

    def human_text(self) -> bytes:
        with disk_errors("read", self._human):
            data = read_regular(self._human, LARGEST_DOCUMENT) or b""
        if len(data) > LARGEST_DOCUMENT:
            raise _too_large(self._human, self._human, LARGEST_DOCUMENT)
        return data

    def new_from_human(self, delivered: HumanMark) -> tuple[str, HumanMark]:
        """What human.md holds beyond what was delivered, and the mark for all of human.md."""
        data = self.human_text()
        known = data[: delivered.size]
        if len(data) < delivered.size or (delivered.size and digest_of(known) != delivered.digest):
            known = b""  # someone edited the delivered part: better to deliver it twice than never
        return data[len(known) :].decode("utf-8", "replace"), HumanMark(size=len(data), digest=digest_of(data))

    def append_human(self, note: HumanNote) -> None:
        """Add what a human said. The heading holds the time, so a note that is there already is not added again."""
        data = self.human_text()
        block = note.block.encode()
        if block in data:
            return
        before = f"{TITLE}\n\n".encode() if not data.strip() else (b"\n" if data.endswith(b"\n") else b"\n\n")
        append_durable(self._human, before + block, mode=SHARED_FILE)


def create_task(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Make a new task directory with these files. A directory that is there already is refused."""
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
    raise TaskInvalid(f"{path} does not exist. To see your tasks: pi-marathon list   To make one: pi-marathon new")


def _check_instructions(path: Path, shown: Path) -> None:
    advice = f"Write what is to be done into {shown / INSTRUCTIONS}."
    if not path.exists():
        raise TaskInvalid(f"{shown} has no {INSTRUCTIONS}. {advice}")
    if not path.is_file():
        raise TaskInvalid(f"{shown / INSTRUCTIONS} is not a file. {advice}")
    if path.stat().st_size > LONGEST_TEXT:
        raise _too_large(path, shown / INSTRUCTIONS, LONGEST_TEXT)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise TaskInvalid(f"{shown / INSTRUCTIONS} cannot be read: {error.strerror}. {advice}") from error
    if not text.strip():
        raise TaskInvalid(f"{shown / INSTRUCTIONS} is empty. {advice}")


def _too_large(path: Path, shown: Path, limit: int) -> TaskInvalid:
    found = size(path.stat().st_size)
    return TaskInvalid(f"{shown} has {found}. pi-marathon reads at most {size(limit)} of it. Shorten the file.")


def _leads_out(folder: Path, path: Path) -> bool:
    return path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(folder)
