"""Copies shipped files into a user's folder: again and again without harm, and never over somebody's own version."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from marathon.disk.files import SHARED_FILE, disk_errors, write_atomic


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


def _keep(target: Path, now: datetime) -> str:
    stamp = now.strftime("%Y%m%d-%H%M%S")
    kept = target.with_name(f"{target.name}.before-{stamp}")
    number = 1
    while os.path.lexists(kept):
        number += 1
        kept = target.with_name(f"{target.name}.before-{stamp}-{number}")
    os.rename(target, kept)
    return f" (what was there is kept as {kept.name})"
