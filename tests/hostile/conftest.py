"""Fixtures of this room."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fixtures import in_background, typed
from tests.support.world import World

__all__ = ["in_background", "typed"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world")
