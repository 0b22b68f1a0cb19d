"""Reads and writes files so that a crash, a full disk or a power cut leaves the old file or the new one, never half."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from marathon.core.text import size
from marathon.errors import DiskFailed, TaskInvalid

PRIVATE_FILE = 0o600
PRIVATE_DIR = 0o700
SHARED_FILE = 0o644
_PASSING = (errno.EIO, errno.EACCES, errno.ESTALE, errno.EAGAIN, errno.ETIMEDOUT)  # may be over in a moment
UNFINISHED = f".*.{'[0-9a-f]' * 12}.tmp"  # what a file is called until it is whole
_UNFINISHED_FOR = 3600.0  # seconds; no one writes a file for so long
LARGEST_DOCUMENT = 16_000_000  # bytes that are held in memory at most


@contextlib.contextmanager
def disk_errors(doing: str, path: Path | str) -> Iterator[None]:
    """Turns what the operating system says inside `with` into a sentence that names the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DiskFailed(f"Could not {doing} {path}: {reason}. What was there before is intact.") from error


@contextlib.contextmanager
def opened(path: Path | str, flags: int, mode: int = PRIVATE_FILE) -> Iterator[int]:
    """A file descriptor for as long as the `with` lasts."""
    fd = os.open(path, flags, mode)
    try:
        yield fd
    finally:
        os.close(fd)


def write_atomic(path: Path, data: bytes, *, mode: int = PRIVATE_FILE, durable: bool = True) -> None:
    """Replace a file as a whole. The file keeps its mode; the mode of a new file follows the umask.

    Without `durable` a power cut may bring the old file back.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    with disk_errors("write", path):
        kept = _mode_of(path)
        try:
            with opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode if kept is None else 0) as fd:
                if kept is not None:
                    os.fchmod(fd, kept)
                write_all(fd, data)
                if durable:
                    os.fsync(fd)
            os.rename(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        if durable:
            sync_directory(path.parent)


def _mode_of(path: Path) -> int | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return stat.S_IMODE(found.st_mode) if stat.S_ISREG(found.st_mode) else None  # the mode of a link means nothing


def write_all(fd: int, data: bytes) -> None:
    """Write every byte. os.write alone may write fewer."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def append_durable(path: Path, data: bytes, *, mode: int) -> None:
    """Add to the end of a file in one piece. If that fails, the file is cut back to what it was."""
    with disk_errors("append to", path):
        existed = path.exists()
        with opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, mode) as fd:
            before = os.fstat(fd).st_size
            try:
                write_all(fd, data)
                os.fsync(fd)
            except OSError:
                os.ftruncate(fd, before)
                raise
        if not existed:
            sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    with opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
        os.fsync(fd)


def sweep_unfinished(folders: Iterable[Path], now: float) -> None:
    """Remove what someone was killed over while they wrote. Many write here, so what is young is left to them."""
    for folder in folders:
        with contextlib.suppress(OSError):
            for path in folder.glob(UNFINISHED):
                if now - path.stat().st_mtime > _UNFINISHED_FOR:
                    path.unlink(missing_ok=True)


def make_private_directory(path: Path) -> None:
    """Make the directory and its missing parents, for this user only."""
    with disk_errors("create", path):
        for folder in reversed([path, *path.parents]):
            if not folder.is_dir():
                folder.mkdir(PRIVATE_DIR, exist_ok=True)
                sync_directory(folder.parent)


def read_regular(path: Path | str, limit: int | None = None, offset: int = 0) -> bytes | None:
    """The bytes of a regular file that is not a symlink, at most limit + 1 of them. None if there is no file."""
    try:
        with opened(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK) as fd:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file", str(path))
            with open(fd, "rb", closefd=False) as file:
                file.seek(offset)
                return file.read(-1 if limit is None else limit + 1)
    except FileNotFoundError:
        return None


def read_patiently(path: Path, limit: int) -> bytes | None:
    """As read_regular, but a disk or a network that refuses for a moment is asked again."""
    try:
        return read_regular(path, limit)
    except OSError as error:
        if error.errno not in _PASSING:
            raise
    from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_exponential

    passing = retry_if_exception(lambda error: isinstance(error, OSError) and error.errno in _PASSING)
    again = Retrying(retry=passing, reraise=True, stop=stop_after_delay(2), wait=wait_exponential(0.05, max=0.5))
    return again(read_regular, path, limit)


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def beginning_of(path: Path, limit: int = LARGEST_DOCUMENT) -> bytes:
    """A document as far as it can be held in memory. Its last line says where it was cut."""
    with path.open("rb") as file:
        data = file.read(limit + 1)
        if len(data) <= limit:
            return data
        whole = size(os.fstat(file.fileno()).st_size)
    return data[:limit] + f"\n[Cut here by pi-marathon. The document has {whole}.]\n".encode()


def refuse_link(path: Path) -> None:
    """What is ours is never a link. An agent that makes one leads us out of the task directory."""
    if path.is_symlink():
        look = "Nothing was written behind it. Look where it leads, then remove it:"
        raise TaskInvalid(f"{path} is a link. {look} rm {shlex.quote(str(path))}")


def mark_of(path: Path | str) -> str | None:
    """A text that changes whenever the file is written: identity, size and time. None if it is missing or empty."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode) or found.st_size == 0:
        return None
    return f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"


def unused_name(path: Path) -> Path:
    """This path if nothing has it yet, else the first free one of path-2, path-3 and so on."""
    number = count(2)
    free = path
    while os.path.lexists(free):
        free = path.with_name(f"{path.name}-{next(number)}")
    return free
