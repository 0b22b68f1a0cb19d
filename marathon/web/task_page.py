"""The page of one task: the document with its comments, the gate with its offers, what happens now, what was."""

from __future__ import annotations

from collections.abc import Iterable

from marathon.core.comments import lines_of
from marathon.core.text import counted, duration, one_line
from marathon.runner.review import document_text, last_look
from marathon.web.comments import beside, comment_form, comments
from marathon.web.gate_form import gate_form
from marathon.web.history import history, now, round_name
from marathon.web.html import Html, h, text
from marathon.web.render import facts, markdown, numbered, parts_of
from marathon.web.view import View, chosen_document, documents, lines_in, number_in, quoted
from marathon.web.views import Session, joined, layout


def task_page(session: Session, view: View, asked: dict[str, str], before: str, problem: str = "") -> str:
    """`asked`: doc, as (lines), part, at (a line), on (the lines to comment on), and words that were not taken."""
    name, words = chosen_document(view, asked.get("doc", "")), asked.get("words", "")
    log, offset = now(view)
    document = document_text(view.known, name)
    unused = h("pre", "Your words: ", words, class_="message") if words and not view.gate else None
    wrong = [h("p", problem, class_="problem", role="alert"), unused] if problem else None
    paper = [_tabs(session, view, name, asked), _document(session, view, name, document, asked)]
    beside_it = [
        gate_form(session, view, view.gate, words) if view.gate else _no_gate(view),
        None if view.gate else log,
        None if view.over else comment_form(session, view, name, session.remember(document), asked),
        comments(session, view, name),
        _steer_form(session, view),
        log if view.gate else None,
        history(session, view),
    ]
    columns = h("div", h("section", paper, aria_label=name), h("aside", beside_it), class_="columns")
    top = [h("h1", view.known.task.folder.name), _state_line(view), wrong]
    title = f"{'(1) ' if view.gate else ''}{view.known.task.folder.name}"
    return layout(title, top, columns, session=session, live=f"{view.path}/live?now={before}&log={offset}")


def _state_line(view: View) -> Html:
    status = view.status
    waits = status.waits_for.partition(": ")[0] if view.gate else status.waits_for  # the gate itself says more
    said = f"waits for {waits}" if waits else status.condition
    worked = joined(
        h("strong", one_line(said, 300), class_="waits" if view.gate else None),
        status.breadcrumb if status.run else "",
        f"run {status.run}, session {status.iteration}" if status.run else "",
        duration(status.seconds) if status.run else "",
        f"${status.usage.cost:.2f}" if status.usage.cost else "",
        status.steps,
    )
    return h("p", worked, h("a", "Go to your answer", href="#verdict", class_="narrow") if view.gate else None)


def _tabs(session: Session, view: View, name: str, asked: dict[str, str]) -> Html:
    base = f"{session.base}/{view.path}"
    names = [(each, f"{base}?doc={quoted(each)}", each == name) for each in documents(view)]
    plain = asked.get("as") == "lines"
    other = ("Rendered", "") if plain else ("Lines", "&as=lines")
    tools = [h("a", other[0], href=f"{base}?doc={quoted(name)}{other[1]}"), h("a", "Code", href=f"{base}/code")]
    if view.rounds:
        tools.append(h("a", "What changed", href=f"{base}/diff?{_since_last_look(view)}", id="changes"))
    return h("nav", _links(names), h("div", tools, class_="tabs"), aria_label="Documents")


def _since_last_look(view: View) -> str:
    """What to compare: at a gate the output now against the version that the human saw last, else the last round."""
    phase = view.known.where.phase
    seen = last_look(view.known, view.gate, view.rounds) if view.gate else None
    if seen and phase:
        return f"a={quoted(round_name(seen[0]))}&b={quoted(f'now:{phase.output}')}"
    return f"b={quoted(round_name(view.rounds[-1]))}"


def _links(found: Iterable[tuple[str, str, bool]]) -> Html:
    """Names with their addresses, one of which is here."""
    links = [h("a", name, href=address, aria_current="page" if here else None) for name, address, here in found]
    return h("div", links, class_="tabs")


def _document(session: Session, view: View, name: str, document: str, asked: dict[str, str]) -> Html:
    """The part of it that was asked for, or that holds a line."""
    lines = lines_of(document)
    starts, plain = parts_of(lines), asked.get("as") == "lines"
    at = lines_in(asked.get("on", ""))[0] or number_in(asked.get("at"))
    part = max(nth for nth, start in enumerate(starts) if start < at) if at else number_in(asked.get("part"))
    part = min(part, len(starts) - 1)
    first, end = starts[part], [*starts[1:], len(lines)][part]
    draw, margin = numbered if plain else markdown, beside(session, view, name, plain, range(first + 1, end + 1))
    article = h("article", draw(lines[first:end], first + 1, margin), margin(end, end)[1])
    address = f"{session.base}/{view.path}?doc={quoted(name)}&part="
    parts = _links((f"Part {nth + 1}", f"{address}{nth}", nth == part) for nth in range(len(starts)))
    return article if len(starts) == 1 else text([parts, article, parts])


def _no_gate(view: View) -> Html:
    status = view.status
    told = {"State": status.condition, "Waits for": status.waits_for, "Runner": status.runner}
    told["To continue"] = "" if status.runner else status.resume
    return h("section", h("h2", "Nothing to answer"), facts({**told, "Budget": ", ".join(status.budget)}))


def _steer_form(session: Session, view: View) -> Html | None:
    if view.over:
        return None
    says = "A streamed session takes it at once, any other with the next one."
    waiting = h("small", f" {counted(view.status.steering, 'message')} on the way") if view.status.steering else None
    label = h("label", "Tell the agent something. ", h("small", says), for_="steer")
    box = h("textarea", id="steer", name="words", rows=2, required=True)
    return h(
        "details", h("summary", "Tell", waiting), session.form(f"{view.path}/steer", label, box, h("button", "Send"))
    )
