"""Fixtures for every room."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.process.driver import Pty
from tests.support.world import World

# A shell without job control starts what runs in the background with SIGINT ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What we keep outside of every project does not come into the home of whoever runs the tests."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world")


@pytest.fixture
def on_terminal(world: World) -> Iterator[Callable[..., Pty]]:
    """Starts the marathon on a terminal; whatever still runs afterwards is ended."""
    opened: list[Pty] = []

    def start(*args: str, **env: str) -> Pty:
        opened.append(world.terminal(*args, **env))
        return opened[-1]

    yield start
    for pty in opened:
        pty.close()
