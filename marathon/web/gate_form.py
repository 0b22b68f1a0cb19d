"""The gate of a task with everything that it offers, as forms."""

from __future__ import annotations

import shlex

from marathon.core.gates import POLICIES, Offer
from marathon.core.life import total_of
from marathon.core.records import Choice, Gate
from marathon.core.text import counted, one_line
from marathon.runner.code_socket import handed_over
from marathon.runner.review import not_sent, summary_line
from marathon.show.status import check_line
from marathon.surfaces.gate_text import rating_lines
from marathon.web.html import Html, Part, h
from marathon.web.view import View
from marathon.web.views import Session, joined

SENT: tuple[Choice, ...] = ("continue", "redo", "loop", "answer", "accept", "cancel")  # from outside of the runner


def gate_form(session: Session, view: View, gate: Gate, words: str) -> Html:
    """`words`: those that were not taken the last time."""
    question, task = view.known.offers[0].choice == "answer", shlex.quote(str(view.known.shown))
    whole = question or POLICIES[gate.reason].whole_message
    waits = one_line(view.status.waits_for, 200)
    waits = "your answer is needed" if waits.startswith("you: ") else waits  # the message says why
    rating, new = view.known.life.rating, not_sent(view.known)
    ids = ", ".join(f"{each.id} ({each.kind})" for each in new)
    told = f"With any answer the agent gets {counted(len(new), 'comment')} of yours: {ids}."
    return h(
        "section",
        h("h2", "The agent asks" if question else waits[:1].upper() + waits[1:]),
        h(
            "p",
            h("small", joined(summary_line(view.known, gate, view.standings), f"total: {total_of(view.known.life)}")),
        ),
        h("pre" if whole else "p", gate.message, class_="message") if gate.message else None,
        [h("p", one_line(line, 900)) for line in gate.writes],
        h("p", "To undo some of it: ", h("code", f"pi-marathon undo {task} FILE…")) if gate.undoable else None,
        [h("p", "If it was your own work, put it back: ", h("code", each)) for each in gate.put_back],
        h("p", "Note: ", one_line(gate.note, 600)) if gate.note else None,
        h("ul", [h("li", check_line(each)) for each in view.status.checks], class_="plain"),
        h("p", "\n".join(rating_lines(rating)), class_="message") if rating else None,
        h("p", told) if new else None,
        _verdicts(session, view, gate, words, any(each.kind == "must" for each in new)),
        id="verdict",
        class_="gate",
    )


def _verdicts(session: Session, view: View, gate: Gate, words: str, wants_answers: bool) -> Part:
    """A button for each answer that the gate offers. The same answer with and without words shares a button."""
    if gate.answers == "here":
        return h("p", "This gate takes answers only at its own terminal (--answers-here).")
    offered = [each for each in view.known.offers if each.choice in SENT]
    answers = list({_answer(each): each for each in reversed(offered)}.values())[::-1]
    usual = [each for each in answers if not each.heavy]
    question = usual and usual[0].choice == "answer"
    ask = f"{usual[0].ask} (empty: the agent decides)" if question else "Your words, if you have any, for human.md:"
    field = [h("label", ask, for_="words"), h("textarea", words, id="words", name="words", rows=4)]
    takes = any(each.words != "none" and not each.heavy for each in offered)
    back = [each for each in usual if wants_answers and (each.choice, each.phase) == ("redo", gate.phase)]
    buttons = [_button(each, "main" if each is [*back, *usual][0] else None) for each in usual]
    heavy = [_heavy(session, view, gate, each, nth) for nth, each in enumerate(answers) if each.heavy]
    return [
        _form(session, view, gate, "p", field if takes else None, buttons) if usual else None,
        h("details", h("summary", "Other answers"), heavy) if heavy else None,
    ]


def _heavy(session: Session, view: View, gate: Gate, offer: Offer, nth: int) -> Html:
    """Rare and hard to take back, so it wants a tick."""
    ask = h("label", offer.ask, for_=f"why{nth}")
    why = h("textarea", id=f"why{nth}", name="words", rows=2, required=offer.words == "required")
    sure = h("label", h("input", type="checkbox", name="sure", required=True), " I am sure", class_="sure")
    return _form(session, view, gate, f"p{nth}", [ask, why] if offer.words != "none" else None, sure, _button(offer))


def _form(session: Session, view: View, gate: Gate, secret: str, *parts: Part) -> Html:
    token = h("input", type="hidden", name="gate", value=gate.token)
    field = h("input", type="password", id=secret, name="passphrase", required=True, autocomplete="off")
    passphrase = [h("label", "Passphrase", for_=secret), field] if session.passphrase else None
    return session.form(f"{view.path}/verdict", token, _code(view, gate, f"code-{secret}"), passphrase, *parts)


def _code(view: View, gate: Gate, name: str) -> Part:
    """Asked for where no living runner hands it over."""
    if gate.answers != "code" or handed_over(view.known.task.own, gate.token):
        return None
    said = "The gate's code, as it was printed where the marathon was started"
    return [h("label", said, for_=name), h("input", id=name, name="code", required=True, autocomplete="off")]


def _button(offer: Offer, kind: str | None = None) -> Html:
    return h("button", offer.label.removesuffix(" (asks once more)"), name="answer", value=_answer(offer), class_=kind)


def _answer(offer: Offer) -> str:
    return f"{offer.choice} {offer.phase or ''}".rstrip()
