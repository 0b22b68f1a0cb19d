"""A task's home: the folder outside of every project where the runner keeps all that it reads back.

`.marathon` in the task's folder is a link to it, for people and for tools that read the events. None of our own code
follows that link, so a link that was replaced, or a folder in its place, changes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from marathon.errors import DiskFailed, MarathonError, NotAdopted, TaskBusy, WrongUsage
from marathon.store.files import (
    SHARED_FILE,
    disk_errors,
    make_private_directory,
    opened,
    read_regular,
    refuse_link,
    unused_name,
    write_all,
    write_atomic,
)
from marathon.store.lock import holder_of
from marathon.store.places import tasks_folder

LINK = ".marathon"
INSTRUCTIONS = "instructions.md"
STATE = "STATE.json"
_IGNORED = b"/.marathon\n/.gitignore\n"
_REVIEWS = "Documents that are not those you reviewed are asked again."
_NOT_TAKEN = ("journal.jsonl", "lock", "summary.json", ".gitignore")  # of an older version's folder


class Home:
    """Found by the real path of the task's folder."""

    def __init__(self, task: Path) -> None:
        self.task = Path(os.path.realpath(task))
        self.folder = tasks_folder() / hashlib.sha256(os.fsencode(self.task)).hexdigest()[:32]
        self.journal = self.folder / "journal.jsonl"
        self.lock = self.folder / "lock"
        self.note = self.folder / "home.json"

    def exists(self) -> bool:
        """Whether a runner has had the task here."""
        return self.journal.exists()

    @property
    def is_settled(self) -> bool:
        return self.note.exists()

    def settle(self, shown: Path, *, adopt: bool) -> str:
        """Make the home, or take over what is known of a folder that came from elsewhere. Says so if it did."""
        if self.is_settled:
            return ""
        make_private_directory(self.folder)
        if moved := self._moved_from():
            if not adopt:
                raise NotAdopted(f"This task was at {moved.task} before. Take its record to {shown}?")
            moved._move_to(self)
            return f"This task was moved here from {moved.task}. Its record came with it. {_REVIEWS}"
        taken = self._take_from_folder(shown, adopt)
        self._sign()
        if not taken:
            return ""
        self.show("")
        return "An older version began this task. Its record lies outside of the project now."

    def _sign(self, moved_from: str = "") -> None:
        facts = {"task": str(self.task), **({"from": moved_from} if moved_from else {})}
        write_atomic(self.note, json.dumps(facts).encode())

    @property
    def came_from(self) -> str:
        """Where the task's folder was before, until someone has compared its documents with what was reviewed."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            return str(json.loads(read_regular(self.note) or b"").get("from", ""))
        return ""

    def compared(self) -> None:
        self._sign()

    def set_aside(self, stamp: str) -> Path:
        """The task begins anew. Its record so far is kept."""
        kept = unused_name(self.folder.with_name(f"{self.folder.name}.before-{stamp}"))
        with disk_errors("set aside", self.folder):
            os.rename(self.folder, kept)
        return kept

    def bytes(self) -> int:
        """What all of it takes, without what links lead to."""
        return bytes_below(self.folder)

    # What lies here, as people and the journal name it: by the link

    def shown(self, path: Path) -> str:
        return f"{LINK}/{path.relative_to(self.folder)}"

    def path(self, shown: str) -> Path:
        return self.folder / shown.removeprefix(f"{LINK}/")

    # The link

    def show(self, stamp: str) -> str:
        """Make the link in the task's folder. The answer tells what something else had put in its place."""
        link, told = self.task / LINK, ""
        with contextlib.suppress(OSError):
            if os.readlink(link) == str(self.folder):
                return ""
        with contextlib.suppress(OSError):  # no links there, or a folder of others: nothing of ours rests on the link
            if link.is_symlink():
                link.unlink()  # what is behind it stays
                told = f"{link} led elsewhere. It leads to the task's record again, which was not touched."
            elif os.path.lexists(link):
                kept = unused_name(link.with_name(f"{LINK}.found-{stamp}"))
                os.rename(link, kept)
                told = f"Something put {link} in the place of a link. Nothing in it counts; it is kept as {kept.name}."
            os.symlink(self.folder, link)
            self._ignore()
            if not told and self.journal.exists():
                told = f"{link} was gone. It leads to the task's record again, which was not touched."
        return told

    def hide(self) -> None:
        """Take the link away again."""
        with contextlib.suppress(OSError):
            if os.readlink(self.task / LINK) == str(self.folder):
                (self.task / LINK).unlink()
                if read_regular(self.task / ".gitignore", 1000) == _IGNORED:
                    (self.task / ".gitignore").unlink()

    def _ignore(self) -> None:
        """Keep the link out of git, unless a human has a .gitignore there."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with contextlib.suppress(FileExistsError), opened(self.task / ".gitignore", flags, SHARED_FILE) as fd:
            write_all(fd, _IGNORED)

    # A task's folder that was somewhere else before

    def _moved_from(self) -> Home | None:
        """The home of this task's folder while it had another path. None if the link tells of none."""
        with contextlib.suppress(OSError):
            key = os.path.basename(os.readlink(self.task / LINK))
            for other in homes():
                if other.folder.name == key and not os.path.lexists(other.task):
                    return other
        return None

    def move_to(self, task: Path) -> None:
        """The task's folder was moved by us."""
        if self.folder.is_dir():
            self._move_to(Home(task))

    def forget(self) -> None:
        with disk_errors("remove", self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _move_to(self, new: Home) -> None:
        """What lies there belongs to a task that is gone, but for messages that a human has just sent."""
        with disk_errors("move", self.folder):
            for message in (new.folder / "inbox").glob("[!.]*.json") if not new.note.exists() else ():
                make_private_directory(self.folder / "inbox")
                os.rename(message, self.folder / "inbox" / message.name)
            shutil.rmtree(new.folder, ignore_errors=True)
            os.rename(self.folder, new.folder)
        new._sign(moved_from=str(self.task))

    # A task's folder in which an older version kept the record

    def _take_from_folder(self, shown: Path, adopt: bool) -> bool:
        """Move the record out of the folder, if it is the one of which that version kept a copy here.

        The copy is the journal from now on. A kill on the way is completed by the next start. Where the two do not
        fit, neither counts.
        """
        old, (found, copy) = self.task / LINK, _older_records(self, shown)
        if not found or not copy:
            return False
        if not _is_copy(copy, found):
            if not adopt:
                raise NotAdopted(
                    f"The record in the folder of {shown} and the one kept outside of it do not fit, so neither "
                    f"counts, and what was reviewed is asked again. Go on from what its folder says?"
                )
            with disk_errors("set aside", self.journal):
                os.rename(self.journal, unused_name(self.journal.with_name(f"{self.journal.name}.not-adopted")))
            return False
        for folder, folders, names in os.walk(old):
            for name in (*folders, *names):
                refuse_link(Path(folder, name))
        with disk_errors("move", old):
            entries = [*os.listdir(old), *(f"inbox/{each.name}" for each in (old / "inbox").glob("*.json"))]
            for entry in entries:  # the inbox may be here already, with other messages
                if entry not in _NOT_TAKEN and not os.path.lexists(self.folder / entry):
                    shutil.move(old / entry, self.folder / entry)
            self._sign()
            shutil.rmtree(old)
        return True

    def require_record(self, shown: Path) -> None:
        """Before something is said to a task: its record must be here, or be one that the next start takes over."""
        found, copy = _older_records(self, shown)
        if found and not (copy and _is_copy(copy, found)):
            start = f"pi-marathon --task {shlex.quote(str(shown))}"
            why = "does not fit the one kept outside of it" if copy else "is not on record here"
            raise WrongUsage(
                f"What an older version noted in the folder of {shown} {why}. Nothing was changed. "
                f"Start it first, to say what it goes on from: {start}"
            )


def require_homes() -> None:
    """Before anything is changed: no task can be worked on where its record cannot be kept."""
    folder = tasks_folder()
    there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return
    why = "Permission denied" if there.is_dir() else f"{there} is not a directory"
    cure = "Make it writable, or name another folder outside of every project: export XDG_STATE_HOME=FOLDER"
    raise DiskFailed(f"What is known of tasks cannot be kept in {folder}: {why}. Nothing was started. {cure}")


def home_of(task: Path) -> Path:
    """The folder in which the runner keeps what it knows of a task."""
    return Home(task).folder


def is_task(folder: Path) -> bool:
    """Whether a folder looks like a task, or a runner has had it as one."""
    return any(os.path.lexists(folder / name) for name in (INSTRUCTIONS, STATE)) or Home(folder).exists()


def bytes_below(folder: Path) -> int:
    found = (os.path.join(top, name) for top, _, names in os.walk(folder) for name in names)
    total = 0
    for each in found:
        with contextlib.suppress(FileNotFoundError):  # a runner may be at work
            total += os.lstat(each).st_size
    return total


def homes() -> Iterator[Home]:
    """Every home on this machine, also of tasks whose folder is gone."""
    for note in sorted(tasks_folder().glob("*/home.json")):
        with contextlib.suppress(OSError, MarathonError, ValueError, TypeError, KeyError):
            home = Home(Path(json.loads(read_regular(note) or b"")["task"]))
            if home.folder == note.parent:
                yield home


def _regular(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except OSError:
        return None


def _older_records(home: Home, shown: Path) -> tuple[bytes, bytes]:
    """The journal that an older version kept in the folder, and its copy here. TaskBusy if its runner lives."""
    old = home.task / LINK
    found = b"" if old.is_symlink() or home.is_settled else _regular(old / "journal.jsonl") or b""
    copy = (_regular(home.journal) or b"") if found else b""
    if copy and holder_of(old / "lock"):
        raise TaskBusy(f"A runner of an older version has {shown}. To end it: pi-marathon stop {shown}")
    return found, copy


def _is_copy(copy: bytes, found: bytes) -> bool:
    """The copy was written first, so a kill left it at most one record ahead of the journal in the folder."""
    whole = copy[: copy.rfind(b"\n") + 1]
    return found in (copy, whole) or (whole.startswith(found) and whole[len(found) :].count(b"\n") == 1)
