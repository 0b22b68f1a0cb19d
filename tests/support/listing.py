"""Everything below a folder, to show that a command changed nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def listing(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Path -> mode, time of the last change, contents."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        seen = path.lstat()
        regular = stat.S_ISREG(seen.st_mode) and os.access(path, os.R_OK)
        data = path.read_bytes() if regular else b""
        found[str(path.relative_to(folder))] = (seen.st_mode, seen.st_mtime_ns, data)
    return found
