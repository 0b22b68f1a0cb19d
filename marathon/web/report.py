"""A task as one file that needs nothing else: to attach to a pull request, or to keep."""

from __future__ import annotations

from pathlib import Path

from marathon.core.comments import lines_of
from marathon.core.sessions import how_many, sessions_of
from marathon.core.text import duration, one_line
from marathon.runner.review import document_text
from marathon.show.session_plot import session_plot
from marathon.show.status import check_line
from marathon.web.comments import card
from marathon.web.history import Version, timeline, versions
from marathon.web.html import Html, Part, h
from marathon.web.render import diff, facts, markdown
from marathon.web.view import View

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_RESULT = "result.md"


def as_page(view: View) -> str:
    """Where the task stands, its result, its course, its rounds, and the comments with their answers."""
    status, name = view.status, view.known.task.folder.name
    sessions = list(sessions_of(view.known.records))
    told: dict[str, Part] = {
        "State": status.condition,
        "Waits for": one_line(status.waits_for, 300),
        "Phase": status.breadcrumb if status.run else "",
        "Worked": f"{how_many(view.known.records)}, {duration(status.seconds)}",
        "Cost": f"${status.usage.cost:.2f}" if status.usage.cost else "",
        "Plan": status.steps,
    }
    result = lines_of(document_text(view.known, _RESULT))
    checks = [h("li", check_line(each)) for each in status.checks]
    sections: dict[str, Part] = {
        "Criteria": h("ul", checks, class_="plain") if checks else None,
        "Result": h("article", markdown(result, 1, lambda *_: (Html(), Html()))) if any(result) else None,
        "Course": timeline(view, sessions) if sessions else None,
        "Cost and time": h("figure", Html(session_plot(sessions)), class_="plot sessions") if sessions else None,
        "Comments and answers": [card(each) for each in view.standings],
        "Rounds": _rounds(view),
    }
    body = [[h("h2", title), part] for title, part in sections.items() if part]
    head = [
        h("meta", charset="utf-8"),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        h("title", name),
        h("style", Html((Path(__file__).parent / "static" / "page.css").read_text())),
    ]
    page = h("body", h("main", h("h1", name), facts(told), body))
    return f'<!doctype html><html lang="en">{h("head", head)}{page}</html>\n'


def _rounds(view: View) -> list[Html]:
    """Each version against the one before it of the same phase."""
    before, drawn = dict[str, Version](), list[Html]()
    for each in versions(view).values():
        if each.phase in before:
            then = before[each.phase]
            title = h("summary", f"{each.told}, against {then.told}")
            drawn.append(h("details", title, diff(then.lines, each.lines, beside=False), open=True))
        if each.phase:
            before[each.phase] = each
    return drawn
