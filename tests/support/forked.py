"""A world whose commands are forks of one Python that has imported everything: most tests type several of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.faults.sweep import Sweeper, sweeper
from tests.support.world import World


class ForkedWorld(World):
    """Commands on a terminal and marathons in the background are programs of their own here too."""

    def __init__(self, folder: Path, forks: Sweeper) -> None:
        super().__init__(folder)
        self._forks = forks
        self._printed = folder.with_name(f"{folder.name}-printed")
        self._printed.mkdir()
        self._numbers = count()

    def cli(self, *args: str, timeout: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
        if any(name.startswith("PYTHON") for name in env):  # which Python reads as it starts
            return super().cli(*args, timeout=timeout, **env)
        number = next(self._numbers)
        out, err = (self._printed / f"{number}.{stream}" for stream in ("out", "err"))
        pid = self._forks.fork(args, self.project, self.env(**env), out, err)
        code = self._forks.wait(pid, timeout)
        return subprocess.CompletedProcess(args, code, out.read_text(), err.read_text())


@pytest.fixture(scope="session")
def forks() -> Iterator[Sweeper]:
    with sweeper() as started:
        yield started


@pytest.fixture
def world(tmp_path: Path, forks: Sweeper) -> World:
    return ForkedWorld(tmp_path / "world", forks)
