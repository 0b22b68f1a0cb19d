"""Fixtures of the hostile room: quick commands, and a folder that is none of the agent's business."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runner.conftest import forks as forks
from tests.runner.conftest import world as world
from tests.support.fixtures import in_background as in_background
from tests.support.fixtures import typed as typed


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder
