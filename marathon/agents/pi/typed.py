"""Dialogs of pi's extensions: the question as lines, and the typed line that answers it."""

from __future__ import annotations

import json
from typing import Any

from marathon.core.text import one_line


def question_of(dialog: dict[str, Any]) -> str:
    """The dialog as lines. The next typed line answers it."""
    title = one_line(str(dialog.get("title") or dialog.get("message") or "?"), 300)
    match dialog.get("method"):
        case "select":
            options = [f"  {number}. {one_line(option, 120)}" for number, option in _options(dialog).items()]
            return "\n".join([f"? {title}", *options, "  (type a number, then Enter; Esc cancels)"])
        case "confirm":
            message = one_line(str(dialog.get("message") or ""), 300)
            return f"? {title} {message} (y or n, then Enter; Esc cancels)"
    return f"? {title} (type it, then Enter; Esc cancels)"


def answer_to(dialog: dict[str, Any], text: str) -> bytes:
    """pi's response to a typed line. A choice that is not among the options cancels the dialog."""
    match dialog.get("method"):
        case "confirm":
            return _response(dialog, confirmed=text.strip().lower() in ("y", "yes"))
        case "select":
            options = _options(dialog)
            chosen = options.get(text, text)
            return _response(dialog, value=chosen) if chosen in options.values() else cancelled(dialog)
    return _response(dialog, value=text)


def cancelled(dialog: dict[str, Any]) -> bytes:
    return _response(dialog, cancelled=True)


def _options(dialog: dict[str, Any]) -> dict[str, str]:
    options = dialog.get("options")
    return {str(number): str(each) for number, each in enumerate(options if isinstance(options, list) else [], start=1)}


def _response(dialog: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"type": "extension_ui_response", "id": dialog.get("id"), **fields}).encode() + b"\n"
