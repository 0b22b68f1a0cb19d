"""The real pi, installed once for all tests of this room."""

from __future__ import annotations

import pytest

from tests.real.install import PiInstall, ensure_pi


@pytest.fixture(scope="session")
def pi_install() -> PiInstall:
    return ensure_pi()
