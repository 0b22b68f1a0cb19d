"""The real pi, installed once for all tests of this room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.install import PiInstall, ensure_pi
from tests.real.real_world import RealWorld


@pytest.fixture(scope="session")
def pi_install() -> PiInstall:
    return ensure_pi()


@pytest.fixture
def real(tmp_path: Path, pi_install: PiInstall) -> Iterator[RealWorld]:
    """The whole program with the real pi."""
    world = RealWorld(tmp_path / "world", pi_install)
    yield world
    world.close()
