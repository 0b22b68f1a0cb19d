"""Fixtures of this room."""

from __future__ import annotations

from tests.support.fixtures import in_background as in_background
from tests.support.fixtures import typed as typed
from tests.support.forked import forks as forks
from tests.support.forked import world as world
