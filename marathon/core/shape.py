"""Frozen dataclasses out of JSON and TOML tables, every field checked against its annotation.

Our own records and the workflow definitions are read this way: `status` and `list` would wait longer for a large
validation library to load than for everything they do.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
Check = Callable[[Any], None]


class Unshaped(ValueError):
    """A value does not fit; str() begins with the way to it."""

    def __init__(self, reason: str, *way: str) -> None:
        super().__init__(": ".join(part for part in (".".join(way), reason) if part))
        self.reason = reason
        self.way = way


def build(kind: type[T], raw: Any, *, strict: bool = False) -> T:
    """An instance from a table. Fields it does not know are ignored, or with `strict` refused."""
    if isinstance(raw, kind):
        return raw
    if not isinstance(raw, Mapping):
        raise Unshaped("it is not a table")
    readers: dict[str, tuple[Reader, bool]] = _readers(cast("Any", kind))
    for name in raw:
        if strict and name not in readers:
            raise Unshaped("there is no such setting", str(name))
    values = {}
    for name, (read, needed) in readers.items():
        if name in raw:
            values[name] = _within(name, read, raw[name], strict)
        elif needed:
            raise Unshaped("it is missing", name)
    try:
        return kind(**values)
    except Unshaped:
        raise
    except ValueError as refused:
        raise Unshaped(str(refused)) from refused


Reader = Callable[[Any, bool], Any]


@functools.cache
def _readers(kind: Any) -> dict[str, tuple[Reader, bool]]:
    """For each field how to read it, and whether it is needed; made when a kind is first met."""
    hints = get_type_hints(kind, include_extras=True)
    return {each.name: (_reader(hints[each.name]), _is_needed(each)) for each in fields(kind)}


def _is_needed(each: Field[Any]) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def _reader(hint: Any) -> Reader:
    origin, arguments = get_origin(hint), get_args(hint)
    if hasattr(hint, "__metadata__"):
        # Only functions: other marks are for pydantic, which reads these fields elsewhere.
        return _checked(_reader(arguments[0]), tuple(mark for mark in hint.__metadata__ if callable(mark)))
    if origin in (Union, types.UnionType):
        return _one_of(arguments)
    if origin is Literal:
        return _exactly(arguments)
    if origin is list:
        return lambda value, strict: _items(value, _reader(arguments[0]), strict)
    if origin is tuple and arguments[-1] is Ellipsis:
        return lambda value, strict: tuple(_items(value, _reader(arguments[0]), strict))
    if origin is tuple:
        return _fixed([_reader(argument) for argument in arguments])
    if is_dataclass(hint) and isinstance(hint, type):
        return lambda value, strict: build(hint, value, strict=strict)
    return _plain(hint)


def _plain(kind: Any) -> Reader:
    accepted = (int, float) if kind is float else (kind,)

    def read(value: Any, strict: bool) -> Any:
        if type(value) not in accepted:
            raise Unshaped(f"it is not {'null' if kind is type(None) else f'a {kind.__name__}'}")
        return value

    return read


def _exactly(allowed: tuple[Any, ...]) -> Reader:
    def read(value: Any, strict: bool) -> Any:
        if type(value) is not str or value not in allowed:
            raise Unshaped(f"it is not one of {', '.join(map(str, allowed))}")
        return value

    return read


def _one_of(kinds: tuple[Any, ...]) -> Reader:
    """The first that fits. A table is read as the simplest kind whose needs it meets, so only its mistakes count."""
    tables: list[Any] = sorted((kind for kind in kinds if is_dataclass(kind)), key=lambda kind: len(_needs(kind)))
    others = [_reader(kind) for kind in kinds if not is_dataclass(kind)]

    def read(value: Any, strict: bool) -> Any:
        if tables and (isinstance(value, Mapping) or not others):
            known = value if isinstance(value, Mapping) else {}
            fitting = next((kind for kind in tables if _needs(kind) <= known.keys()), tables[-1])
            return build(fitting, value, strict=strict)
        for reader in others[:-1]:
            try:
                return reader(value, strict)
            except Unshaped:
                continue
        return others[-1](value, strict)

    return read


def _needs(kind: Any) -> set[str]:
    return {name for name, (_, needed) in _readers(kind).items() if needed}


def _checked(reader: Reader, checks: tuple[Check, ...]) -> Reader:
    def read(value: Any, strict: bool) -> Any:
        found = reader(value, strict)
        for check in checks:
            try:
                check(found)
            except ValueError as refused:
                raise Unshaped(str(refused)) from refused
        return found

    return read


def _fixed(readers: list[Reader]) -> Reader:
    def read(value: Any, strict: bool) -> Any:
        if not isinstance(value, list | tuple) or len(value) != len(readers):
            raise Unshaped(f"it is not a list of {len(readers)}")
        pairs = enumerate(zip(readers, value, strict=True))
        return tuple(_within(str(number), reader, item, strict) for number, (reader, item) in pairs)

    return read


def _items(value: Any, reader: Reader, strict: bool) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise Unshaped("it is not a list")
    return [_within(str(number), reader, item, strict) for number, item in enumerate(value)]


def _within(name: str, reader: Reader, value: Any, strict: bool) -> Any:
    try:
        return reader(value, strict)
    except Unshaped as inner:
        raise Unshaped(inner.reason, name, *inner.way) from inner
