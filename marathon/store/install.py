"""Copies shipped files into a user's folder. Copying can be repeated, and the user's own versions are kept."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from marathon.store.files import SHARED_FILE, disk_errors, read_regular, unused_name, write_atomic


def copy_all(files: Iterable[tuple[Path, Path]], now: datetime) -> list[str]:
    """Copy each (source, target) and return a line for each file written. A different file at the target is kept."""
    done = []
    for source, target in files:
        kept = None
        with disk_errors("install", target):
            data = source.read_bytes()
            if target.is_file() and target.read_bytes() == data:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(target):
                kept = _name_for_old(target, now)
                os.rename(target, kept)
        write_atomic(target, data, mode=SHARED_FILE)
        done.append(_line(target, kept))
    return done


def remove_all(files: Iterable[tuple[Path, Path]]) -> list[str]:
    """Remove each target that is still as its source, and its folder if that is empty then. Returns a line for each."""
    done = []
    for source, target in files:
        with disk_errors("remove", target):
            if not target.is_file():
                continue
            if target.read_bytes() != source.read_bytes():
                done.append(f"Kept {target}, because you changed it")
                continue
            target.unlink()
            done.append(f"Removed {target}")
        with contextlib.suppress(OSError):
            target.parent.rmdir()
    return done


def replace_renamed(skills: Path, bundled: Path, names: Iterable[str], now: datetime) -> list[str]:
    """Skills of ours that a folder still holds by an older name, which other skills may have too. A copy is kept."""
    done = []
    for name in names:
        old, new = skills / name / "SKILL.md", f"marathon-{name}"
        text = read_regular(old) or b""
        if not text.startswith(f"---\nname: {name}\n".encode()) or b"pi-marathon" not in text:
            continue
        copy_all(files_below(bundled / new, skills / new), now)
        kept = _name_for_old(old, now)
        with disk_errors("rename", old):
            os.rename(old, kept)
        done.append(f"The skill {name} is called {new} now, in {skills / new}. The old one is kept as {kept}.")
    return done


def files_below(source: Path, target: Path) -> list[tuple[Path, Path]]:
    return [(path, target / path.relative_to(source)) for path in sorted(source.rglob("*")) if path.is_file()]


def rewrite(path: Path, change: Callable[[str], str], now: datetime) -> str:
    """Change the text of a user's file (through a link) and keep a copy. Returns a line if the file was written."""
    target = Path(os.path.realpath(path))
    with disk_errors("read", target):
        before = read_regular(target)
    text = (before or b"").decode("utf-8-sig")
    after = change(text)
    if before is not None and after == text:
        return ""
    kept = None
    with disk_errors("write", target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if before:
            kept = _name_for_old(target, now)
            write_atomic(kept, before, mode=stat.S_IMODE(target.stat().st_mode))
    write_atomic(target, after.encode(), mode=SHARED_FILE)
    return _line(path, kept)


def _name_for_old(target: Path, now: datetime) -> Path:
    return unused_name(target.with_name(f"{target.name}.before-{now:%Y%m%d-%H%M%S}"))


def _line(path: Path, kept: Path | None) -> str:
    return f"{path} (the version before is kept as {kept.name})" if kept else str(path)
