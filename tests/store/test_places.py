"""Where our files and those of other programs lie: the defaults, and what moves them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from marathon.store.places import claude_folder, config_folder, pi_folder, states_folder, trusted_folder


@pytest.mark.parametrize(
    ("folder", "variable", "default"),
    [
        (states_folder, "PI_MARATHON_STATES", "/h/.pi/marathon-states"),
        (pi_folder, "PI_CODING_AGENT_DIR", "/h/.pi/agent"),
        (claude_folder, "CLAUDE_CONFIG_DIR", "/h/.claude"),
    ],
)
def test_a_folder_below_home_unless_a_variable_names_another(
    folder: Callable[[Mapping[str, str]], Path], variable: str, default: str
) -> None:
    assert folder({"HOME": "/h"}) == Path(default)
    assert folder({"HOME": "/h", variable: ""}) == Path(default)
    assert folder({"HOME": "/h", variable: "/elsewhere"}) == Path("/elsewhere")


def test_settings_and_state_lie_where_xdg_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h")
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    assert config_folder() == Path("/h/.config/pi-marathon")
    assert trusted_folder() == Path("/h/.local/state/pi-marathon/agreed")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/c")
    monkeypatch.setenv("XDG_STATE_HOME", "/s")
    assert config_folder() == Path("/c/pi-marathon")
    assert trusted_folder() == Path("/s/pi-marathon/agreed")
