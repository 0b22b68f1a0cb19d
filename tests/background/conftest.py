"""Fixtures of this room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from marathon.process import tree
from tests.faults.sweep import Sweeper
from tests.support.fixtures import typed as typed
from tests.support.forked import ForkedWorld
from tests.support.forked import forks as forks
from tests.support.world import World


@pytest.fixture
def world(tmp_path: Path, forks: Sweeper) -> Iterator[World]:
    """A world in which nothing lives on after the test, also not what went into the background."""
    made = ForkedWorld(tmp_path / "world", forks)
    yield made
    tree.end(tree.find_by_environ("HOME", str(made.home)), 0.2)
