"""On what, and beside what, the figures were taken: without it they say little."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def facts(scratch: Path) -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load": load(),
        "filesystem": filesystem_of(scratch),
    }


def load() -> list[float]:
    return [round(average, 2) for average in os.getloadavg()]


def filesystem_of(path: Path) -> str:
    """The type of the filesystem a path lies on, by the longest mount point above it."""
    found = ("", "unknown")
    for line in Path("/proc/self/mounts").read_text(errors="replace").splitlines():
        _, point, kind, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        if path.resolve().is_relative_to(point) and len(point) >= len(found[0]):
            found = (point, kind)
    return found[1]
