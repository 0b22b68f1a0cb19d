"""The number in verify's output: exactly one, or none."""

from __future__ import annotations

from typing import Any

import pytest

from marathon.core.lanes.reading import NoMetric, read_metric, regex_mistake


@pytest.mark.parametrize(
    ("output", "options", "metric"),
    [
        ("12.5\n", {}, 12.5),
        (" -3e-2 ", {}, -0.03),
        ("0", {}, 0),
        ("building…\nMETRIC seconds=1.5e-3\r\ndone in 3 s\n", {}, 0.0015),
        ("METRIC seconds = .5\nMETRIC memory=7\n", {"name": "seconds"}, 0.5),
        ("4.2", {"name": "seconds"}, 4.2),
        ('{"a": {"b": [1, 2.5]}}', {"json_path": "a.b.1"}, 2.5),
        ('{"ms": 3}', {"json_path": "$.ms"}, 3),
        ("12 passed in 3.2 seconds", {"regex": r"in ([\d.]+) seconds"}, 3.2),
        ("score 7\n", {"regex": r"\d+"}, 7),
    ],
)
def test_a_number_that_is_meant(output: str, options: dict[str, Any], metric: float) -> None:
    assert read_metric(output, **options).metric == metric


@pytest.mark.parametrize(
    ("output", "options", "said"),
    [
        ("", {}, "nothing"),
        ("12 13", {}, "more than a number"),
        ("12 passed in 3.2 seconds", {}, "more than a number"),
        ("nan", {}, "'nan' is not a number"),
        ("inf", {}, "not a number"),
        ("1e999", {}, "not a finite number"),
        ("1,234", {}, "not a number"),
        ("1_000", {}, "not a number"),
        ("٣", {}, "not a number"),
        ("METRIC a=1\nMETRIC a=2\n", {}, "printed twice, as 1 and as 2"),
        ("METRIC a=1\nMETRIC b=1\n", {}, "--metric says"),
        ("METRIC a=1\n", {"name": "b"}, "no METRIC b, only a"),
        ("METRIC a=NaN\n", {"name": "a"}, "not a number"),
        ("METRIC a=1\nMETRIC b=x\n", {"name": "a"}, "'x'"),
        ("oops", {"json_path": "a"}, "not print JSON"),
        ('{"a": NaN}', {"json_path": "a"}, "not print JSON"),
        ('{"a": true}', {"json_path": "a"}, "not a number"),
        ('{"a": "3"}', {"json_path": "a"}, "not a number"),
        ('{"a": [1]}', {"json_path": "a.1"}, "has no a.1"),
        ("a 1 a 2", {"regex": r"a (\d)"}, "matches 2 times"),
        ("none", {"regex": r"a (\d)"}, "matches 0 times"),
        ("time: fast", {"regex": r"time: (\w+)"}, "not a number"),
    ],
)
def test_anything_else_is_no_number(output: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(NoMetric, match=said):
        read_metric(output, **options)


def test_other_metrics_stand_beside_it() -> None:
    assert read_metric("METRIC a=1\nMETRIC b=2\n", "b").others == {"a": 1}


def test_a_regex_has_one_group_at_most() -> None:
    assert regex_mistake(r"(\d+)") == ""
    assert "regular expression" in regex_mistake("(")
    assert "2 groups" in regex_mistake("(a)(b)")
