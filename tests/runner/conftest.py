"""Fixtures of this room."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.sweep import Sweeper, sweeper
from tests.support.fixtures import in_background as in_background
from tests.support.fixtures import typed as typed
from tests.support.world import World


class ForkedWorld(World):
    """A world whose commands without a terminal are forks of one Python: most tests here type several of them."""

    def __init__(self, folder: Path, forks: Sweeper) -> None:
        super().__init__(folder)
        self._forks = forks

    def cli(self, *args: str, timeout: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
        out, err = (self.project.parent / name for name in ("stdout", "stderr"))
        for printed in (out, err):
            printed.write_text("")
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
