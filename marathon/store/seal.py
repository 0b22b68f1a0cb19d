"""Marks what we wrote into a task directory, so that a reader knows it from what an agent wrote there.

The key lies outside of every project. A process of the same user that may read it there can make a seal as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marathon.errors import MarathonError
from marathon.store.files import PRIVATE_FILE, make_private_directory, opened, read_regular, write_all
from marathon.store.places import trusted_folder

_KEY_BYTES = 32


def seal(place: Path, facts: Mapping[str, Any]) -> str:
    """The seal of these facts at this place. Empty where no key can be kept: then no one believes the facts."""
    with contextlib.suppress(OSError, MarathonError):
        return _seal(_read_key() or _make_key(), place, facts)
    return ""


def is_sealed(place: Path, facts: Mapping[str, Any], mark: object) -> bool:
    with contextlib.suppress(OSError):
        key = _read_key()
        return key is not None and isinstance(mark, str) and hmac.compare_digest(_seal(key, place, facts), mark)
    return False


def _seal(key: bytes, place: Path, facts: Mapping[str, Any]) -> str:
    """The place is part of it, so that what is true of one task cannot be copied to another."""
    text = json.dumps([os.path.realpath(place), facts], sort_keys=True)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _key_file() -> Path:
    return trusted_folder().parent / "key"


def _read_key() -> bytes | None:
    key = read_regular(_key_file(), _KEY_BYTES)
    return key if key is not None and len(key) == _KEY_BYTES else None


def _make_key() -> bytes:
    """A new key, unless another runner makes one at the same moment: then the one that came first."""
    path = _key_file()
    make_private_directory(path.parent)
    temporary = path.with_name(f".key.{os.urandom(6).hex()}.tmp")
    try:
        with opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE) as fd:
            write_all(fd, os.urandom(_KEY_BYTES))
            os.fsync(fd)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return _read_key() or b""
