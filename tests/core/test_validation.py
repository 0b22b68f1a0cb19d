"""What is wrong with a value is said in plain words, with the way to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from pydantic import ConfigDict, Field, StrictBool, StrictFloat, StrictInt

from marathon.core.validation import Invalid, must, read


@dataclass(frozen=True)
class Inner:
    word: Annotated[str, must(str.islower, "'{}' is not in small letters")]


@dataclass(frozen=True)
class Outer:
    __pydantic_config__ = ConfigDict(extra="forbid")

    name: str
    on: StrictBool = False
    number: Annotated[StrictInt, Field(ge=0, le=9)] = 0
    seconds: StrictFloat = 0
    mode: Literal["a", "b"] = "a"
    inner: tuple[Inner, ...] = ()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "name: it is missing"),
        ({"name": 3}, "name: it is not text"),
        ({"name": "n", "nmae": "n"}, "nmae: there is no such setting"),
        ({"name": "n", "on": "yes"}, "on: it is not true or false"),
        ({"name": "n", "on": 1}, "on: it is not true or false"),
        ({"name": "n", "number": "1"}, "number: it is not a whole number"),
        ({"name": "n", "number": True}, "number: it is not a whole number"),
        ({"name": "n", "number": -1}, "number: it is less than 0"),
        ({"name": "n", "number": 10}, "number: it is more than 9"),
        ({"name": "n", "seconds": "1"}, "seconds: it is not a number"),
        ({"name": "n", "mode": "c"}, "mode: it is not 'a' or 'b'"),
        ({"name": "n", "inner": "x"}, "inner: it is not a list"),
        ({"name": "n", "inner": ["x"]}, "inner.0: it is not a table"),
        ({"name": "n", "inner": [{"word": "a"}, {"word": "A{0}"}]}, "inner.1.word: 'A{0}' is not in small letters"),
        ("name", "it is not a table"),
        (None, "it is not a table"),
    ],
    ids=str,
)
def test_a_mistake_is_named_by_its_field_and_in_plain_words(value: object, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        read(Outer, value)
    assert str(refused.value) == said


def test_what_fits_is_read() -> None:
    read_back = read(Outer, {"name": "n", "seconds": 3, "inner": [{"word": "a"}]})
    assert read_back == Outer(name="n", seconds=3, inner=(Inner("a"),))
    assert read(Inner, {"word": "a", "unknown": 1}) == Inner("a")
