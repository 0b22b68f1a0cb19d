"""Dialogs of pi's other extensions: the question as lines, and the answer as pi's RPC wants it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from marathon.agents.pi.typed import answer_to, cancelled, question_of

Dialog = dict[str, Any]


def dialog(method: str, **more: Any) -> Dialog:
    return {"type": "extension_ui_request", "id": "u1", "method": method, "title": "Which database?", **more}


SELECT = dialog("select", options=["postgres", "sqlite", "none of them"])
CONFIRM = dialog("confirm", message="Really?")
INPUT = dialog("input", placeholder="name")
EDITOR = dialog("editor", prefill="text")


def sent(response: bytes) -> dict[str, Any]:
    """What the line says beside the fields every response has."""
    assert response.endswith(b"\n")
    assert response.count(b"\n") == 1
    fields: dict[str, Any] = json.loads(response)
    assert (fields.pop("type"), fields.pop("id")) == ("extension_ui_response", "u1")
    return fields


@pytest.mark.parametrize(
    ("asked", "text", "answer"),
    [
        (SELECT, "1", {"value": "postgres"}),
        (SELECT, "3", {"value": "none of them"}),
        (SELECT, "sqlite", {"value": "sqlite"}),
        (SELECT, "0", {"cancelled": True}),
        (SELECT, "4", {"cancelled": True}),
        (SELECT, "-1", {"cancelled": True}),
        (SELECT, "²", {"cancelled": True}),
        (SELECT, "9" * 5000, {"cancelled": True}),
        (SELECT, "oracle", {"cancelled": True}),
        (SELECT, "", {"cancelled": True}),
        (dialog("select", options=[7, None]), "1", {"value": "7"}),
        (dialog("select", options="abc"), "1", {"cancelled": True}),
        (dialog("select"), "1", {"cancelled": True}),
        (CONFIRM, "y", {"confirmed": True}),
        (CONFIRM, "Yes", {"confirmed": True}),
        (CONFIRM, " y ", {"confirmed": True}),
        (CONFIRM, "n", {"confirmed": False}),
        (CONFIRM, "", {"confirmed": False}),
        (CONFIRM, "yes, but not now", {"confirmed": False}),
        (INPUT, "größer", {"value": "größer"}),
        (INPUT, "", {"value": ""}),
        (EDITOR, "two\nlines", {"value": "two\nlines"}),
    ],
)
def test_a_typed_line_answers(asked: Dialog, text: str, answer: dict[str, Any]) -> None:
    assert sent(answer_to(asked, text)) == answer


@pytest.mark.parametrize("asked", [SELECT, CONFIRM, INPUT, EDITOR])
def test_a_cancelled_dialog_is_no_answer(asked: Dialog) -> None:
    assert sent(cancelled(asked)) == {"cancelled": True}


def test_a_choice_is_shown_with_its_numbers() -> None:
    lines = question_of(SELECT).splitlines()
    assert lines[0] == "? Which database?"
    assert lines[1:4] == ["  1. postgres", "  2. sqlite", "  3. none of them"]
    assert "number" in lines[4]


@pytest.mark.parametrize(
    ("asked", "said"), [(CONFIRM, ["Which database?", "Really?", "y or n"]), (INPUT, ["Which database?", "Enter"])]
)
def test_the_question_says_how_to_answer_it(asked: Dialog, said: list[str]) -> None:
    question = question_of(asked)
    assert all(part in question for part in said)
    assert "Esc cancels" in question


@pytest.mark.parametrize("method", ["select", "confirm", "input", "editor"])
@pytest.mark.parametrize("title", ["evil\x1b]0;title\x07\x1b[2J\nname", None, 7, "x" * 10_000, ""])
def test_nothing_in_a_question_is_acted_on_by_a_terminal(method: str, title: Any) -> None:
    evil = "\x1b[31mred\n\r"
    question = question_of(dialog(method, title=title, message=evil, options=[evil, "\x07"]))
    assert "\x1b" not in question
    assert "\x07" not in question
    assert "\r" not in question
    assert all(len(line) < 700 for line in question.splitlines())
