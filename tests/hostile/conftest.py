"""Fixtures of the hostile room: quick commands, and a folder that is none of the agent's business."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fixtures import in_background as in_background
from tests.support.fixtures import typed as typed
from tests.support.forked import forks as forks
from tests.support.forked import world as world


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder
