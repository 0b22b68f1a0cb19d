"""Makes HTML. Whatever is not HTML already is text, and text is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from marathon.core.text import clean

_ALONE = ("input", "meta", "link", "br", "hr")


class Html(str):
    """HTML that was made here, so that it is not escaped again."""

    __slots__ = ()


Part = str | int | Iterable["Part"] | None


def text(value: Part) -> Html:
    """Text as HTML, or parts one after the other."""
    if isinstance(value, Html):
        return value
    if value is None:
        return Html()
    if isinstance(value, str | int):
        return Html(escape(clean(str(value))))
    return Html("".join(map(text, value)))


def h(name: str, /, *parts: Part, **attributes: str | int | bool | None) -> Html:
    """An element. class_ and for_ stand for class and for, data_line for data-line."""
    given = "".join(_attribute(each, value) for each, value in attributes.items())
    return Html(f"<{name}{given}>" if name in _ALONE else f"<{name}{given}>{text(parts)}</{name}>")


def _attribute(name: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(clean(str(value)))}"'
