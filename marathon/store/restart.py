"""Restart with feedback: the artifacts of the last run move aside as a set, and a crash in the middle is completed."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

from marathon.store.files import disk_errors, sync_directory
from marathon.store.task import Task


def archive_names(task: Task, outputs: Iterable[str], now: datetime) -> list[tuple[str, str]]:
    """(file, its archive name) for those that exist, under one common time stamp that none of them has used."""
    present = [name for name in dict.fromkeys(outputs) if os.path.lexists(task.folder / name)]
    moment = now
    while True:
        stamp = moment.strftime("%Y%m%d-%H%M%S")
        names = [(name, f"{Path(name).stem}.{stamp}{Path(name).suffix}") for name in present]
        if not any(os.path.lexists(task.folder / archived) for _, archived in names):
            return names
        moment += timedelta(seconds=1)


def archive(task: Task, files: Iterable[tuple[str, str]]) -> None:
    """Move each file to its archive name, never over another; what an earlier, interrupted try did is left as it is."""
    for name, archived in files:
        source, target = task.folder / name, task.folder / archived
        with disk_errors("archive", source):
            if os.path.lexists(source) and (not os.path.lexists(target) or _same_file(source, target)):
                _move(source, target)
    with disk_errors("archive files in", task.folder):
        sync_directory(task.folder)


def _move(source: Path, target: Path) -> None:
    """A hard link and an unlink: unlike rename, it cannot replace a file that appears in between."""
    try:
        with contextlib.suppress(FileExistsError):
            os.link(source, target, follow_symlinks=False)
        if _same_file(source, target):
            os.unlink(source)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS):
            raise
        os.rename(source, target)  # no hard links here; the caller has just seen that the name is free


def _same_file(one: Path, other: Path) -> bool:
    return os.path.lexists(other) and os.path.samestat(one.lstat(), other.lstat())
