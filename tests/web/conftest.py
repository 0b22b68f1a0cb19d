"""Fixtures of this room."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from selenium import webdriver

from tests.support.fixtures import in_background as in_background
from tests.support.world import World
from tests.web import chromium
from tests.web.site import Site


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    started = chromium.start(tmp_path_factory.mktemp("profile"))
    yield started
    started.quit()


@pytest.fixture
def web(world: World) -> Iterator[Callable[..., Site]]:
    """Starts the page; whatever still runs afterwards is ended."""
    started: list[Site] = []

    def start(*args: str, typed: bytes = b"", **env: str) -> Site:
        started.append(Site(world, *args, typed=typed, **env))
        return started[-1]

    yield start
    for site in started:
        site.terminal.close()
