"""Reads values from files into dataclasses with pydantic. Mistakes are named in plain words, as `field: reason`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from pydantic import AfterValidator, TypeAdapter, ValidationError

from marathon.core.text import clean

T = TypeVar("T")

# The types of mistakes that pydantic knows, and our words for them. Our own checks (value_error) bring their words.
_REASONS = {
    "missing": "it is missing",
    "extra_forbidden": "there is no such setting",
    "unexpected_keyword_argument": "there is no such setting",
    "string_type": "it is not text",
    "string_unicode": "it is not valid text",
    "bool_type": "it is not true or false",
    "int_type": "it is not a whole number",
    "float_type": "it is not a number",
    "finite_number": "it is not a finite number",
    "list_type": "it is not a list",
    "tuple_type": "it is not a list",
    "dict_type": "it is not a table",
    "dataclass_type": "it is not a table",
    "model_type": "it is not a table",
    "too_short": "it is empty",
    "string_too_short": "it is empty",
    "string_too_long": "it is longer than {max_length} characters",
    "literal_error": "it is not {expected}",
    "greater_than_equal": "it is less than {ge}",
    "less_than_equal": "it is more than {le}",
    "value_error": "{error}",
}


class Invalid(ValueError):
    """A value cannot be used. The text is `field: reason`, or the reason alone if it is about the whole value."""


def read(kind: type[T], value: object) -> T:
    """A value of a type that pydantic knows, such as a dataclass. Invalid names the first mistake."""
    try:
        found: T = _adapter(cast("Any", kind)).validate_python(value)
        return found
    except ValidationError as error:
        raise Invalid(first_mistake(error)) from None


def must(hold: Callable[[Any], object], otherwise: str) -> AfterValidator:
    """A validator for Annotated that refuses a value for which `hold` is false. `{}` in the reason is the value."""

    def check(value: T) -> T:
        if not hold(value):
            raise ValueError(otherwise.format(value))
        return value

    return AfterValidator(check)


# A file that a repository brings must not act on the terminal, nor show a line that looks like one of ours.
SHOWN = must(lambda value: clean(value) == value, "it holds control characters")
SHOWN_ON_ONE_LINE = must(
    lambda value: clean(value) == value and not {"\n", "\t"} & set(value), "it holds control characters"
)


def first_mistake(error: ValidationError) -> str:
    """Such as `phases.1.id: it is not text`. Parts in <angles> are tags of a union, which no file contains."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"] if not str(part).startswith("<"))
    template = _REASONS.get(first["type"])
    reason = template.format_map(first.get("ctx", {})) if template else first["msg"].lower()
    return f"{place}: {reason}" if place else reason


@functools.cache  # building one takes longer than using it
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
