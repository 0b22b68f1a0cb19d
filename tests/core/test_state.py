"""STATE.json read with suspicion: whatever an agent left there is a proposal or a reason, never a crash."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon.core.state import MAX_BYTES, StateInvalid, TaskState, parse_state, rating_in
from marathon.core.text import utc
from tests.core.making import thorough

GOOD = {"state": "paused", "phase": "plan", "iteration": 3, "updatedAt": "2026-02-02T14:30:00Z", "note": "ready"}
NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)


def _bytes(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def _with(raw: str) -> bytes:
    """A good state with one more member, as it would be typed."""
    return (json.dumps(GOOD)[:-1] + ", " + raw + "}").encode()


def _without(field: str) -> bytes:
    return json.dumps({name: value for name, value in GOOD.items() if name != field}).encode()


def _iteration(raw: bytes) -> bytes:
    return _without("iteration")[:-1] + b', "iteration": ' + raw + b"}"


def test_a_state_is_read_as_it_stands() -> None:
    assert parse_state(_bytes()).model_dump() == GOOD


def test_only_state_and_phase_are_needed() -> None:
    state = parse_state(b'{"state": "running", "phase": "research"}')
    assert (state.iteration, state.updatedAt, state.note) == (0, None, None)


CORRUPT: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "only white space": (b" \n\t ", "empty"),
    "NUL bytes": (b"\0" * 64, "not JSON"),
    "a NUL inside": (_bytes().replace(b"ready", b"rea\0dy"), "not JSON"),
    "words": (b"phase: plan, done!", "not JSON"),
    "in a Markdown fence": (b"```json\n" + _bytes() + b"\n```\n", "Markdown fence"),
    "half written": (_bytes()[:-20], "not JSON"),
    "two objects": (_bytes() + _bytes(), "not JSON"),
    "a comment": (b"// state\n" + _bytes(), "not JSON"),
    "larger than 1 MiB": (_bytes(note="x" * MAX_BYTES), "larger than"),
    "UTF-16": (_bytes().decode().encode("utf-16"), "not UTF-8"),
    "UTF-16 without a mark": (_bytes().decode().encode("utf-16-le"), "not JSON"),
    "Latin-1": (b'{"state": "paused", "phase": "plan", "note": "\xfcber"}', "not UTF-8"),
    "a byte order mark": (b"\xef\xbb\xbf" + _bytes(), "not JSON"),
    "a lone surrogate in a value": (_with(r'"other": "\ud800"'), "hex escape"),
    "a lone surrogate in a known field": (_bytes(note="\udfff"), "hex escape"),
    "a lone surrogate in a name": (_with(r'"\udc00": 1'), "hex escape"),
    "a key twice": (_with('"state": "completed"'), "'state' is there twice"),
    "an unknown key twice": (_with('"x": 1, "x": 2'), "'x' is there twice"),
    "a key twice further in": (_with('"x": {"y": 1, "y": 2}'), "'y' is there twice"),
    "NaN": (_with('"x": NaN'), "not JSON"),
    "NaN as the iteration": (_iteration(b"NaN"), "not JSON"),
    "Infinity": (_with('"x": [-Infinity]'), "not JSON"),
    "a number too large to be written back": (_with('"x": 1e999'), "not JSON"),
    "true as a number": (_bytes(iteration=True), "field iteration"),
    "a number as text": (_bytes(iteration="3"), "field iteration"),
    "a fraction": (_bytes(iteration=1.5), "field iteration"),
    "a negative iteration": (_bytes(iteration=-1), "field iteration"),
    "a number of 5,000 digits": (_iteration(b"9" * 5000), "out of range"),
    "a number of 4,000 digits": (_iteration(b"9" * 4000), "field iteration"),
    "10,000 lists deep": (_with('"x": ' + "[" * 10_000 + "]" * 10_000), "recursion limit"),
    "10,000 objects deep": (_with('"x": ' + '{"y":' * 10_000 + "1" + "}" * 10_000), "recursion limit"),
    "lists never closed": (b"[" * 200_000, "recursion limit"),
    "a list": (b"[1, 2]", "not a JSON object"),
    "null": (b"null", "not a JSON object"),
    "a string": (b'"running"', "not a JSON object"),
    "no state": (_without("state"), "field state"),
    "no phase": (_without("phase"), "field phase"),
    "an unknown state": (_bytes(state="approved"), "field state"),
    "a state in capitals": (_bytes(state="Paused"), "field state"),
    "a list as the state": (_bytes(state=["paused"]), "field state"),
    "an empty phase": (_bytes(phase=""), "field phase"),
    "an endless phase": (_bytes(phase="p" * 101), "field phase"),
    "null as the phase": (_bytes(phase=None), "field phase"),
    "a number as the note": (_bytes(note=7), "field note"),
    "a list as the note": (_bytes(note=["ready"]), "field note"),
    "a number as the time": (_bytes(updatedAt=1770042600), "field updatedAt"),
    "no time": (_bytes(updatedAt="soon " * 1000), "field updatedAt"),
}


@pytest.mark.parametrize("case", CORRUPT)
def test_a_corrupt_state_names_the_field_or_the_reason(case: str) -> None:
    data, reason = CORRUPT[case]
    with pytest.raises(StateInvalid) as refused:
        parse_state(data)
    assert reason in str(refused.value)
    assert len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("depth", [1, 100, 300, 900, 5000])
def test_however_deep_it_is_nested_it_is_refused_or_can_be_written_back(depth: int) -> None:
    data = _with('"x": ' + "[" * depth + "]" * depth)
    if depth <= 100:
        assert parse_state(parse_state(data).to_bytes()).phase == "plan"
    else:
        with pytest.raises(StateInvalid):
            parse_state(data)


@thorough
@given(st.binary(max_size=2000))
def test_arbitrary_bytes_are_a_state_or_a_reason(data: bytes) -> None:
    with contextlib.suppress(StateInvalid):
        parse_state(data)


@thorough
@given(st.data())
def test_a_damaged_state_is_a_state_or_a_reason(data: st.DataObject) -> None:
    """Bytes like the right ones, cut, doubled and overwritten somewhere."""
    good = _bytes(other={"a": [1, 2, {"b": None}]})
    start, end = sorted((data.draw(st.integers(0, len(good))), data.draw(st.integers(0, len(good)))))
    wrong = [b"", good[start:end] * 2, b"\0", b"\xff", b"NaN", b'"', b"\\ud800", b"[" * 500]
    middle = data.draw(st.sampled_from(wrong))
    with contextlib.suppress(StateInvalid):
        parse_state(good[:start] + middle + good[end:])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@thorough
@given(st.dictionaries(st.sampled_from([*GOOD, "other"]), _JSON))
def test_any_object_is_a_state_or_a_reason(value: dict[str, Any]) -> None:
    with contextlib.suppress(StateInvalid):
        assert parse_state(json.dumps(value).encode()).state == value["state"]


@thorough
@given(
    unknown=st.dictionaries(
        st.text() | st.sampled_from(["written", "to_bytes", "model_config", "model_dump", "__class__", "self"]), _JSON
    ),
    changes=st.fixed_dictionaries({}, optional={"note": st.none() | st.text(), "iteration": st.integers(0, 10**9)}),
)
def test_unknown_fields_survive_a_rewrite(unknown: dict[str, Any], changes: dict[str, Any]) -> None:
    before = {**unknown, **GOOD}
    rewritten = parse_state(json.dumps(before).encode()).written(NOW, **changes).to_bytes()
    after = parse_state(rewritten).model_dump()
    assert after == {**before, "updatedAt": "2026-02-03T04:05:06Z", **changes}
    assert json.loads(rewritten) == after
    assert rewritten.decode() == json.dumps(json.loads(rewritten), indent=2, ensure_ascii=False) + "\n"


def test_a_state_is_written_for_other_tools() -> None:
    data = TaskState(state="paused", phase="research", iteration=1, note="größer 🔍").written(NOW).to_bytes()
    assert data.decode() == (
        "{\n"
        '  "state": "paused",\n'
        '  "phase": "research",\n'
        '  "iteration": 1,\n'
        '  "updatedAt": "2026-02-03T04:05:06Z",\n'
        '  "note": "größer 🔍"\n'
        "}\n"
    )


def test_rewriting_leaves_the_value_it_was_made_from_alone() -> None:
    before = parse_state(_bytes(other=[1]))
    before.written(NOW, phase="implement", other=[2])
    assert before.model_dump() == {**GOOD, "other": [1]}


def test_times_are_written_in_utc() -> None:
    assert utc(datetime(2026, 2, 3, 1, 0, 0, 999, tzinfo=timezone(timedelta(hours=2)))) == "2026-02-02T23:00:00Z"


@pytest.mark.parametrize(
    ("points", "read"), [(0, 0), (10, 10), (7.4, 7), (-1, None), (10.1, None), (True, None), ("7", None), (None, None)]
)
def test_a_rating_is_from_0_to_10(points: object, read: int | None) -> None:
    found = rating_in({"points": points, "missing": ["a\nb", 3]})
    assert (found.points if found else None) == read
    assert found is None or found.missing == ["a b"]
