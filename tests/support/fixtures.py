"""Fixtures some rooms take into their conftest: commands on a terminal, and a marathon in the background."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest

from marathon.process import tree
from tests.process.driver import Pty
from tests.support.world import World


@pytest.fixture
def typed(world: World) -> Iterator[Callable[..., Pty]]:
    """Starts any command on a terminal; whatever still runs afterwards is ended."""
    opened: list[Pty] = []

    def start(*args: str, **env: str) -> Pty:
        opened.append(world.typed(*args, **env))
        return opened[-1]

    yield start
    for pty in opened:
        pty.close()


@pytest.fixture
def in_background(world: World) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the marathon without a terminal and comes back at once; whatever still runs afterwards is ended."""
    started: list[subprocess.Popen[str]] = []

    def start(*args: str, **env: str) -> subprocess.Popen[str]:
        started.append(world.start(*args, **env))
        return started[-1]

    yield start
    for runner in started:
        if runner.poll() is None:
            below = tree.descendants(runner.pid)
            runner.kill()
            tree.end(below, 0.2)
        runner.communicate()
