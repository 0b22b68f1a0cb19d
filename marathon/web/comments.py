"""Comments beside the document: each with its answer, and the forms to make and to withdraw one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from marathon.core.comments import Standing
from marathon.core.text import one_line
from marathon.web.html import Html, h, text
from marathon.web.render import Beside
from marathon.web.view import View, lines_in, quoted
from marathon.web.views import Session, joined


def beside(session: Session, view: View, name: str, plain: bool, lines: range) -> Beside:
    """A link to comment on some lines, and the comments that begin in them, or before them where nothing is drawn."""
    found = [each for each in view.standings if line_of(each, name) in lines]
    here = deque(sorted(found, key=lambda each: line_of(each, name)))
    address = f"{session.base}/{view.path}?doc={quoted(name)}{'&as=lines' if plain else ''}&on="

    def drawn(first: int, last: int) -> tuple[Html, Html]:
        label = f"Comment on line {first}"
        link = Html(f'<a class="at" href="{address}{first}-{last}#say" aria-label="{label}">{first}</a>')
        below = []
        while here and line_of(here[0], name) <= last:
            below.append(here.popleft())
        return link, text(_cards(session, view, below))

    return drawn


def line_of(each: Standing, name: str) -> int:
    """Where a comment stands in a document. 0 if it does not."""
    return each.lines[0] if each.comment.file == name and each.lines else 0


def _cards(session: Session, view: View, found: Iterable[Standing]) -> list[Html]:
    cards = []
    for each in found:
        hidden = h("input", type="hidden", name="id", value=each.comment.id)
        back = session.form(f"{view.path}/withdraw", hidden, h("button", "Withdraw", class_="small"))
        cards.append(card(each, back if each.open else None))
    return cards


def card(each: Standing, back: Html | None = None) -> Html:
    """A comment with its answer."""
    comment, answer, state = each.comment, each.answer, each.state
    where = f"text gone: {comment.where()}" if each.gone else comment.where(each.lines)
    return h(
        "div",
        h("p", h("strong", comment.id), joined(f" {comment.kind}", where, state), class_="head"),
        h("blockquote", comment.quote) if each.gone and comment.quote else None,
        h("p", comment.text, class_="said"),
        h("p", "Answer: ", answer.text, class_="said") if answer else None,
        back,
        class_=f"card {comment.kind} {state.replace(' ', '-')}",
        id=comment.id,
    )


def comment_form(session: Session, view: View, name: str, version: str, asked: dict[str, str]) -> Html:
    first, last = lines_in(asked.get("on", ""))
    lines = f"{first}-{last}" if first else ""
    form = session.form(
        f"{view.path}/comment",
        h("input", type="hidden", name="doc", value=name),
        h("input", type="hidden", id="version", name="version", value=version),
        h("input", type="hidden", name="as", value=asked.get("as", "")),
        h("label", "Lines (empty: the whole document)", for_="on"),
        h("input", id="on", name="on", value=lines, pattern="[0-9]{1,7}(-[0-9]{1,7})?", placeholder="12-14"),
        h("label", f"Comment on {name}", for_="say"),
        h("textarea", id="say", name="say", rows=3, required=True, autofocus="on" in asked),
        h("button", "Must be answered", name="kind", value="must"),
        h("button", "Note", name="kind", value="note"),
    )
    home = h("span", id="comment-home", hidden=True)  # the script moves the form to its lines
    return text([home, h("details", h("summary", "Comment"), form, id="comment", open="on" in asked)])


def comments(session: Session, view: View, name: str) -> Html | None:
    """The open ones of the document at hand as links, and all that do not stand in it."""
    if not view.standings:
        return None
    here = [(each, line) for each in view.standings if (line := line_of(each, name))]
    links = [
        h("li", h("a", each.comment.id, href=f"?doc={quoted(name)}&at={line}#{each.comment.id}"), " ", _short(each))
        for each, line in here
        if each.open
    ]
    others = [each for each in view.standings if not line_of(each, name)]
    answered = f"{sum(each.answer is not None for each in view.standings)} of {len(view.standings)} answered"
    head = h("h2", "Comments ", h("small", answered))
    return h("section", head, h("ul", links, class_="plain"), _cards(session, view, others), id="comments")


def _short(each: Standing) -> str:
    return one_line(each.comment.text, 80)
