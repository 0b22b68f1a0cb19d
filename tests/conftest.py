"""Fixtures for every room."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.process.driver import Pty
from tests.support.deadline import at_most, default_signals
from tests.support.world import World

default_signals()
# The same examples each time, so that a red run says something of the change. The full sweep looks for others.
settings.register_profile("steady", derandomize=True)
if not os.environ.get("MARATHON_FULL_SWEEP"):
    settings.load_profile("steady")

# The tests of these files share something that takes long to make. The mark for it (xdist_group) has no effect with
# this pytest, because xdist sets a name that pytest no longer reads.
TOGETHER = (
    "tests/packaging/test_ready_checkout.py",
    "tests/packaging/test_wheel.py",
    "tests/web/test_in_a_browser.py",
)


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Each test on its own, but all tests of such a file on one worker, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return file if file in TOGETHER else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    return Together(config, log)


LONGEST_TEST = 600.0
LONGEST_FIXTURE = 900.0  # seconds; the first one may install a pi or a browser


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    with at_most(LONGEST_TEST):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    with at_most(LONGEST_FIXTURE):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None]:
    with at_most(LONGEST_FIXTURE):
        return (yield)


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
