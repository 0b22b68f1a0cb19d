"""Programs that Debian's packages bring, for tests that need the real thing. Installed when missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from marathon.process.sandbox import problem

SANDBOX = "--sandbox"


def ensure(programs: Sequence[str], packages: Sequence[str], what: str) -> None:
    """By apt as root or with sudo. Where that cannot be, these tests say loudly that they did not run."""
    if all(map(shutil.which, programs)):
        return
    apt = ["apt-get", "-q"] if os.geteuid() == 0 else ["sudo", "-n", "apt-get", "-q"]
    with open(Path(tempfile.gettempdir(), "pi-marathon-tests.lock"), "w") as alone:  # other workers of pytest
        fcntl.flock(alone, fcntl.LOCK_EX)
        for args in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
            if shutil.which(apt[0]):
                subprocess.run([*apt, *args], stdin=subprocess.DEVNULL, capture_output=True, timeout=600)
    if not all(map(shutil.which, programs)):
        do_without(what, f"{' and '.join(packages)} could not be installed by apt-get")


def do_without(what: str, reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"The tests of {what} did not run: {reason}.")
    warnings.warn(f"THE TESTS OF {what.upper()} ARE SKIPPED: {reason}.", stacklevel=2)
    pytest.skip(reason)


def need_bubblewrap() -> None:
    ensure(("bwrap",), ("bubblewrap",), SANDBOX)
    if why := problem():
        do_without(SANDBOX, why)
