"""Writing so that a crash, a full disk or a power cut leaves the old file or the new one, never half of one."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from math import inf
from pathlib import Path
from types import TracebackType

from marathon.errors import DiskFailed

PRIVATE_FILE = 0o600
PRIVATE_DIR = 0o700
SHARED_FILE = 0o644
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class disk_errors:
    """Turns what the operating system says inside `with` into a sentence that names the file."""

    def __init__(self, doing: str, path: Path | str) -> None:
        self._doing = doing
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            said = f"Could not {self._doing} {self._path}: {reason}. What was there before is intact."
            raise DiskFailed(said) from error


def write_atomic(path: Path, data: bytes, *, mode: int = PRIVATE_FILE, durable: bool = True) -> None:
    """Replace a file as a whole; its mode is kept, a new one's follows the umask.

    Without `durable` a power cut may bring the old one back.
    """
    with disk_errors("write", path):
        folder, name = os.path.split(path)
        temporary = os.path.join(folder, f".{name}.{os.urandom(6).hex()}.tmp")
        kept = _mode_of(path)
        fd = os.open(temporary, _NEW, mode if kept is None else 0)
        try:
            try:
                if kept is not None:
                    os.fchmod(fd, kept)
                write_all(fd, data)
                if durable:
                    os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        if durable:
            sync_directory(folder or ".")


def write_new(path: Path | str, data: bytes) -> None:
    """A file that nobody reads before it is complete; one that an interrupted try left is replaced."""
    with disk_errors("write", path):
        try:
            fd = os.open(path, _NEW, PRIVATE_FILE)
        except FileExistsError:
            os.unlink(path)
            fd = os.open(path, _NEW, PRIVATE_FILE)
        try:
            write_all(fd, data)
        except OSError:
            os.unlink(path)
            raise
        finally:
            os.close(fd)


def _mode_of(path: Path) -> int | None:
    """The mode of a file that is to be replaced; a link's own means nothing."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return stat.S_IMODE(found.st_mode) if stat.S_ISREG(found.st_mode) else None


def write_all(fd: int, data: bytes) -> None:
    """Every byte, or an OSError: os.write alone may write less."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def append_durable(path: Path, data: bytes, *, mode: int) -> None:
    """Add to the end of a file in one piece; on failure the file is cut back to what it was."""
    with disk_errors("append to", path):
        existed = path.exists()
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        try:
            before = os.fstat(fd).st_size
            try:
                write_all(fd, data)
            except OSError:
                os.ftruncate(fd, before)
                raise
            os.fsync(fd)
        finally:
            os.close(fd)
        if not existed:
            sync_directory(path.parent)


def sync_directory(path: Path | str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_private_directory(path: Path) -> None:
    """The directory and its missing parents, for this user only."""
    if os.path.isdir(path):
        return
    with disk_errors("create", path):
        for parent in [*reversed(path.parents), path]:
            if not parent.exists():
                with contextlib.suppress(FileExistsError):
                    parent.mkdir(mode=PRIVATE_DIR)
                    sync_directory(parent.parent)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "there is a file of that name", str(path))


def read_regular(path: Path | str, limit: int | None = None) -> bytes | None:
    """The bytes of a regular file that is not a symlink (at most limit + 1 of them), or None if there is no file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is not a regular file", str(path))
        return _read_all(fd, found.st_size, inf if limit is None else limit + 1)
    finally:
        os.close(fd)


def _read_all(fd: int, expected: int, limit: float) -> bytes:
    """To the end of the file, by its size at first: a buffer as large as the limit takes longer than the reading."""
    data = os.read(fd, int(min(expected + 1, limit)))
    if len(data) == expected:
        return data
    while len(data) < limit and (more := os.read(fd, int(min(max(expected, 65536), limit - len(data))))):
        data += more
    return data


def mark_of(path: Path | str) -> str | None:
    """What tells whether a file was written again: identity, size and time; None if there is none or it is empty."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode) or found.st_size == 0:
        return None
    return f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"
