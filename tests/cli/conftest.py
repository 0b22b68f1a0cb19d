"""Fixtures of this room."""

from __future__ import annotations

from tests.support.fixtures import typed as typed
