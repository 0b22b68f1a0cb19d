"""Our hooks go into Claude Code's settings beside the rest, once. An unexpected form is refused, never guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon.agents.claude.settings import SettingsUnexpected, with_hooks, without_hooks
from tests.core.making import thorough

STOP, START = "pi-marathon hook stop", "pi-marathon hook session-start"
OTHER = {"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh", "timeout": 5}]}
TEXTS = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def added(settings: Any, program: str = "pi-marathon") -> dict[str, Any]:
    value = json.loads(with_hooks(json.dumps(settings), program))
    assert isinstance(value, dict)
    return value


def commands(settings: dict[str, Any], event: str) -> list[str]:
    return [hook["command"] for group in settings["hooks"][event] for hook in group["hooks"]]


@pytest.mark.parametrize("text", ["", "  \n", "{}", '{"hooks": {}}', '{"hooks": {"Stop": []}}'])
def test_both_hooks_are_added_where_there_are_none(text: str) -> None:
    settings = json.loads(with_hooks(text, "pi-marathon"))
    assert list(settings) == ["hooks"]
    assert (commands(settings, "Stop"), commands(settings, "SessionStart")) == ([STOP], [START])
    (hook,) = settings["hooks"]["Stop"][0]["hooks"]
    assert hook["type"] == "command"
    assert hook["timeout"] >= 10


def test_everything_else_stays_in_its_order() -> None:
    before = {
        "zeta": 1,
        "env": {"B": "ü", "A": "2"},
        "hooks": {"PreToolUse": [OTHER], "Stop": [OTHER]},
        "permissions": {"allow": ["Bash(ls:*)"], "deny": []},
        "alpha": 1.5,
    }
    after = added(before)
    assert list(after) == list(before)
    assert list(after["hooks"]) == ["PreToolUse", "Stop", "SessionStart"]
    assert after["hooks"]["Stop"][0] == OTHER
    assert after["hooks"]["PreToolUse"] == [OTHER]
    assert {**after, "hooks": 0} == {**before, "hooks": 0}


def test_taken_back_it_is_as_it_was_before() -> None:
    for before in ({}, {"model": "x"}, {"hooks": {"PreToolUse": [OTHER], "Stop": [OTHER]}, "alpha": 1}):
        text = json.dumps(before, indent=4) + "\n"
        assert without_hooks(with_hooks(text, "'/opt/my tools/pi-marathon'")) == text
        assert without_hooks(text) is text
    own = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "cd x && pi-marathon hook stop"}]}]}}
    assert json.loads(without_hooks(with_hooks(json.dumps(own), "pi-marathon"))) == own


@pytest.mark.parametrize("indent", [2, 4, "\t"])
def test_the_way_it_is_written_is_kept(indent: int | str) -> None:
    before = json.dumps({"model": "größer", "env": {"A": "1"}}, indent=indent, ensure_ascii=False) + "\n"
    after = with_hooks(before, "pi-marathon")
    assert after.startswith(before.removesuffix("\n}\n"))
    assert after == json.dumps(json.loads(after), indent=indent, ensure_ascii=False) + "\n"


def test_again_it_is_the_same_text_however_it_is_written() -> None:
    odd = json.dumps(added({"a": 1, "b": [1, 2]}), separators=(" ,", " :"))
    assert with_hooks(odd, "pi-marathon") == odd


def test_a_program_that_has_moved_is_corrected_in_its_place() -> None:
    old = added({"hooks": {"Stop": [OTHER]}}, "'/old place/bin/pi-marathon'")
    old["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "./last.sh"}]})
    old["hooks"]["Stop"][1]["hooks"][0]["timeout"] = 99
    after = added(old)
    assert commands(after, "Stop") == ["./check.sh", STOP, "./last.sh"]
    assert commands(after, "SessionStart") == [START]
    assert after["hooks"]["Stop"][1]["hooks"][0]["timeout"] == 99


@pytest.mark.parametrize("program", ["/usr/bin/python3 -P -m marathon", "/opt/x/bin/pi-marathon", "pi-marathon"])
def test_however_it_was_called_before_it_is_there_once(program: str) -> None:
    assert commands(added(added({}, program)), "Stop") == [STOP]


@pytest.mark.parametrize(
    "own", ["cd /x && pi-marathon hook stop", "pi-marathon hook stop || true", "X=1 'pi-marathon hook stop"]
)
def test_what_the_user_built_around_it_is_left_alone(own: str) -> None:
    after = added({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": own}]}]}})
    assert commands(after, "Stop") == [own]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "not a JSON object"),
        ("7", "not a JSON object"),
        ("{", "not JSON"),
        ('// a comment\n{"a": 1}', "not JSON"),
        ('{"a": 1,}', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"hooks": []}', '"hooks" is not an object'),
        ('{"hooks": null}', '"hooks" is not an object'),
        ('{"hooks": {"Stop": {}}}', '"hooks.Stop" is not a list'),
        ('{"hooks": {"SessionStart": "x"}}', '"hooks.SessionStart" is not a list'),
        ('{"hooks": {"Stop": ["x"]}}', '"hooks.Stop" holds'),
        ('{"hooks": {"Stop": [{"command": "x"}]}}', '"hooks.Stop" holds'),
        ('{"hooks": {"Stop": [{"hooks": ["x"]}]}}', '"hooks.Stop" holds'),
    ],
)
def test_a_strange_form_is_refused_and_named(text: str, said: str) -> None:
    with pytest.raises(SettingsUnexpected) as refused:
        with_hooks(text, "pi-marathon")
    assert said in str(refused.value)


@thorough
@given(st.dictionaries(TEXTS.filter(lambda key: key != "hooks"), JSON, max_size=4))
def test_any_other_settings_are_kept_as_they_are(settings: dict[str, Any]) -> None:
    after = added(settings)
    hooks = after.pop("hooks")
    assert json.dumps(after) == json.dumps(settings)
    assert set(hooks) == {"Stop", "SessionStart"}
    with_hooks(json.dumps(settings), "pi-marathon").encode()
