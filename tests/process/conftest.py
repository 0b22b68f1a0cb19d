"""A session runs in a fresh directory, and leaves no process of its own behind whatever the test did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from marathon.process import tree
from tests.process.driver import Session, marked


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    used = Session(tmp_path)
    yield used
    tree.end(marked(used.mark), 0.2)
