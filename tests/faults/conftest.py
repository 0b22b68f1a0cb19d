"""Fixtures of this room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.sweep import Sweeper, sweeper
from tests.support.fixtures import in_background, typed

__all__ = ["in_background", "typed"]


@pytest.fixture(scope="session")
def cli() -> Iterator[Sweeper]:
    """The command line without a terminal, started so cheaply that a table of forty rows does not hurt."""
    with sweeper() as started:
        yield started
