"""Fixtures for every room."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.process.driver import Pty
from tests.support.world import World

# A shell without job control starts what runs in the background with SIGINT ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The tests of these files share something that takes long to make. The mark for it (xdist_group) has no effect with
# this pytest, because xdist sets a name that pytest no longer reads.
TOGETHER = ("tests/packaging/test_wheel.py", "tests/web/test_in_a_browser.py")


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Each test on its own, but all tests of such a file on one worker, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return file if file in TOGETHER else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    return Together(config, log)


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
