"""Fixtures of this room."""

from __future__ import annotations

import pytest

from tests.faults.sweep import Sweeper
from tests.support.fixtures import in_background, typed
from tests.support.forked import forks as forks

__all__ = ["in_background", "typed"]


@pytest.fixture(scope="session")
def cli(forks: Sweeper) -> Sweeper:
    """The command line without a terminal, started so cheaply that a table of forty rows does not hurt."""
    return forks
