"""Copies shipped files into a user's folder. It can be repeated, and the user's own versions are kept."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from marathon.store.files import SHARED_FILE, disk_errors, read_regular, write_atomic


def copy_all(files: Iterable[tuple[Path, Path]], now: datetime) -> list[str]:
    """Copy each (source, target). Returns a line for each file written; a different file there is kept beside it."""
    done = []
    for source, target in files:
        with disk_errors("install", target):
            data = source.read_bytes()
            if target.is_file() and target.read_bytes() == data:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            kept = ""
            if os.path.lexists(target):
                copy = _free_name(target, now)
                os.rename(target, copy)
                kept = _told(copy)
        write_atomic(target, data, mode=SHARED_FILE)
        done.append(f"{target}{kept}")
    return done


def files_below(source: Path, target: Path) -> list[tuple[Path, Path]]:
    return [(path, target / path.relative_to(source)) for path in sorted(source.rglob("*")) if path.is_file()]


def rewrite(path: Path, change: Callable[[str], str], now: datetime) -> str:
    """Change the text of a user's file (through a link) and keep a copy. Returns a line if it was written."""
    target = Path(os.path.realpath(path))
    with disk_errors("read", target):
        before = read_regular(target)
    text = (before or b"").decode("utf-8-sig")
    after = change(text)
    if before is not None and after == text:
        return ""
    kept = ""
    with disk_errors("write", target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if before:
            copy = _free_name(target, now)
            write_atomic(copy, before, mode=stat.S_IMODE(target.stat().st_mode))
            kept = _told(copy)
    write_atomic(target, after.encode(), mode=SHARED_FILE)
    return f"{path}{kept}"


def _told(copy: Path) -> str:
    return f" (the version before is kept as {copy.name})"


def _free_name(target: Path, now: datetime) -> Path:
    """A name that no file has, with the time in it."""
    kept, number = target.with_name(f"{target.name}.before-{now:%Y%m%d-%H%M%S}"), 1
    while os.path.lexists(kept):
        number += 1
        kept = target.with_name(f"{target.name}.before-{now:%Y%m%d-%H%M%S}-{number}")
    return kept
