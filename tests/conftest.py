"""Fixtures for every room."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.process.driver import Pty
from tests.support.world import World

# A shell without job control starts what runs in the background with SIGINT ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is kept outside of projects, by code that a test runs in this process."""
    folder = tmp_path_factory.getbasetemp() / f"state-{os.urandom(6).hex()}"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


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
