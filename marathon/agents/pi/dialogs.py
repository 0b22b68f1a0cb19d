"""Dialogs of other extensions, asked as a line in the terminal: what to show, and what to send back. Pure."""

from __future__ import annotations

import json
from typing import Any

from marathon.core.text import one_line

_YES = ("y", "yes")


def question_of(dialog: dict[str, Any]) -> str:
    """The dialog as lines; the next typed line answers it, Esc cancels it."""
    title = one_line(str(dialog.get("title") or dialog.get("message") or "?"), 300)
    match dialog.get("method"):
        case "select":
            options = [
                f"  {number}. {one_line(option, 120)}" for number, option in enumerate(_options(dialog), start=1)
            ]
            return "\n".join([f"? {title}", *options, "  (type a number, then Enter; Esc cancels)"])
        case "confirm":
            message = one_line(str(dialog.get("message") or ""), 300)
            return f"? {title} {message} (y or n, then Enter; Esc cancels)"
    return f"? {title} (type it, then Enter; Esc cancels)"


def answer_to(dialog: dict[str, Any], text: str) -> bytes:
    """The response to a typed line; a choice that is none of the options cancels."""
    match dialog.get("method"):
        case "confirm":
            return _response(dialog, confirmed=text.strip().lower() in _YES)
        case "select":
            options = _options(dialog)
            numbered = {str(number): option for number, option in enumerate(options, start=1)}
            chosen = numbered.get(text, text)
            return _response(dialog, value=chosen) if chosen in options else cancelled(dialog)
    return _response(dialog, value=text)


def cancelled(dialog: dict[str, Any]) -> bytes:
    return _response(dialog, cancelled=True)


def _options(dialog: dict[str, Any]) -> list[str]:
    options = dialog.get("options")
    return [str(option) for option in options] if isinstance(options, list) else []


def _response(dialog: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"type": "extension_ui_response", "id": dialog.get("id"), **fields}).encode() + b"\n"
