"""Copies shipped files into a user's folder: again and again without harm, and never over somebody's own version."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from marathon.store.files import SHARED_FILE, disk_errors, read_regular, write_atomic


def copy_all(files: Iterable[tuple[Path, Path]], now: datetime) -> list[str]:
    """(from, to) for each; a line for each that was written. A different file that is there is kept beside it."""
    done = []
    for source, target in files:
        with disk_errors("install", target):
            data = source.read_bytes()
            if target.is_file() and target.read_bytes() == data:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            kept = _keep(target, now) if os.path.lexists(target) else ""
        write_atomic(target, data, mode=SHARED_FILE)
        done.append(f"{target}{kept}")
    return done


def files_below(source: Path, target: Path) -> list[tuple[Path, Path]]:
    return [(path, target / path.relative_to(source)) for path in sorted(source.rglob("*")) if path.is_file()]


def rewrite(path: Path, change: Callable[[str], str], now: datetime) -> str:
    """A user's text file by a change of its text; a link is followed. A line if it was written, and a copy is kept."""
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


def _keep(target: Path, now: datetime) -> str:
    kept = _free_name(target, now)
    os.rename(target, kept)
    return _told(kept)


def _told(kept: Path) -> str:
    return f" (what was there is kept as {kept.name})"


def _free_name(target: Path, now: datetime) -> Path:
    stamp = now.strftime("%Y%m%d-%H%M%S")
    kept = target.with_name(f"{target.name}.before-{stamp}")
    number = 1
    while os.path.lexists(kept):
        number += 1
        kept = target.with_name(f"{target.name}.before-{stamp}-{number}")
    return kept
