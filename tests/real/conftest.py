"""The real pi, installed once: 0.87.1, or the one that a module names with PI ("newest" or "oldest").

MARATHON_REAL_PI=newest (or oldest) runs the modules that name none with that one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.install import HERE, PiInstall, ensure_pi
from tests.real.real_world import RealWorld


@pytest.fixture(scope="module")
def pi_install(request: pytest.FixtureRequest) -> PiInstall:
    return ensure_pi(HERE / getattr(request.module, "PI", os.environ.get("MARATHON_REAL_PI", "")))


@pytest.fixture
def real(tmp_path: Path, pi_install: PiInstall) -> Iterator[RealWorld]:
    """The whole program with the real pi."""
    world = RealWorld(tmp_path / "world", pi_install)
    yield world
    world.close()
