"""What every page has, and the pages that are not about one task: sign in, all tasks, a measured loop."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from marathon.core.lanes.model import LaneState
from marathon.core.lanes.model import Row as LaneRow
from marathon.core.lanes.names import Run
from marathon.core.text import age, one_line
from marathon.show.lane_plot import svg
from marathon.show.lanes import status_lines
from marathon.show.listing import Row, in_order
from marathon.web.html import Html, Part, h, text

_ICON = (
    "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'><path d='M1 1h3v7H1zM5 1h3v7H5z' "
    "fill='%23b8860b'/></svg>"
)
_MOST_SHOWN = 16  # each has at most LONGEST_DOCUMENT bytes
_KEYS = {
    "j k": "next and previous block or task",
    "c": "comment on this block, or on the selected lines",
    "Ctrl+Enter": "send the comment; a question must be answered",
    "d": "what changed since your last look",
    "Enter": "open the task, or go to your answer",
    "Esc": "close the form; its words are kept",
    "?": "these keys",
}


@dataclass(frozen=True)
class Session:
    """What every browser that was let in gets."""

    base: str  # the path below which everything lies
    csrf: str
    passphrase: bool = False  # whether a verdict needs it
    shown: dict[str, str] = field(default_factory=dict)  # documents as they were sent to a browser, the last ones

    def remember(self, document: str) -> str:
        """Keep a document, so that a comment quotes what its human saw, and return the name of this version."""
        name = hashlib.sha256(document.encode("utf-8", "replace")).hexdigest()[:16]
        self.shown.pop(name, None)
        self.shown[name] = document
        for oldest in list(self.shown)[:-_MOST_SHOWN]:
            self.shown.pop(oldest, None)
        return name

    def form(self, to: str, *parts: Part, **attributes: str) -> Html:
        secret = h("input", type="hidden", name="csrf", value=self.csrf)
        return h("form", secret, *parts, method="post", action=f"{self.base}/{to}", **attributes)


def layout(title: str, *parts: Part, session: Session | None = None, live: str = "") -> str:
    head = [
        h("meta", charset="utf-8"),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("meta", name="color-scheme", content="light dark"),
        h("title", title),
        h("link", rel="icon", href=_ICON),
        h("link", rel="stylesheet", href="/static/page.css"),
        Html('<script src="/static/page.js" defer></script>') if session else None,
    ]
    keys = [[h("dt", key), h("dd", does)] for key, does in _KEYS.items()]
    help_ = h("dialog", h("h2", "Keys"), h("dl", keys), h("form", h("button", "Close"), method="dialog"), id="keys")
    top = h("header", h("a", "pi-marathon", href=f"{session.base}/", class_="home"), class_="top") if session else None
    banner = h("p", id="news", role="status", aria_live="polite")
    source = f"{session.base}/{live}" if session and live else None
    body = h("body", top, banner, h("main", *parts), help_ if session else None, data_live=source)
    return f'<!doctype html><html lang="en">{h("head", head)}{body}</html>\n'


def sign_in(problem: str) -> str:
    label = h("label", "The word that the terminal shows", for_="token")
    word = h(
        "input", id="token", name="token", autocomplete="off", autocapitalize="none", required=True, autofocus=True
    )
    form = h("form", label, word, h("button", "Sign in", class_="main"), method="post", action="/")
    again = "A word works once. In the terminal of pi-marathon review, press Enter for a new one."
    told = h("p", problem, class_="problem") if problem else None
    return layout("pi-marathon", h("h1", "pi-marathon"), told, form, h("p", again))


def refused(why: str, back: str = "", words: str = "", title: str = "Not done") -> str:
    """`words`: what a human had typed, so that they are not lost."""
    link = h("p", h("a", "Back", href=back)) if back else None
    kept = h("pre", "Your words: ", words, class_="message") if words else None
    return layout("pi-marathon", h("h1", title), h("p", why, class_="problem"), kept, link)


def listing(session: Session, rows: Mapping[str, Row], lanes: Mapping[str, tuple[Path, Run]], now: str) -> str:
    """All tasks and loops of this machine, those that wait for the human first."""
    ids = {row.folder: each for each, row in rows.items()}
    found = in_order(list(rows.values()))
    waiting = sum(row.waits_for_you for row in found)
    body = [_task_row(session, ids[row.folder], row) for row in found]
    heads = h("tr", [h("th", name, scope="col") for name in ("Task", "State", "Sessions", "Cost", "Age", "Project")])
    tasks = (
        h("table", h("thead", heads), h("tbody", body), class_="list") if body else h("p", "There are no tasks yet.")
    )
    loops = [
        h("li", h("a", run.name, href=f"{session.base}/loop/{each}"), f" {run.status} ", h("small", str(project)))
        for each, (project, run) in lanes.items()
    ]
    below = [h("h2", "Measured loops"), h("ul", loops)] if loops else None
    title = f"({waiting}) pi-marathon" if waiting else "pi-marathon"
    return layout(title, h("h1", "Tasks"), tasks, below, session=session, live=f"live?now={now}")


def _task_row(session: Session, name: str, row: Row) -> Html:
    status = row.status
    link = h("a", row.name, href=f"{session.base}/task/{name}")
    cost = f"${status.usage.cost:.2f}" if status.usage.cost else ""
    cells = [h("td", one_line(row.state, 160)), h("td", status.iteration or ""), h("td", cost), h("td", age(row.idle))]
    kind = "waits" if row.waits_for_you else "runs" if status.runner else None
    return h(
        "tr",
        h("th", link, scope="row"),
        cells,
        h("td", h("small", row.project.name, title=str(row.project))),
        class_=kind,
        data_row=True,
    )


def loop_page(session: Session, state: LaneState, rows: Sequence[LaneRow], lessons: Sequence[str]) -> str:
    told = h("pre", "\n".join(status_lines(state, rows, lessons)), tabindex=0)
    plot = h("figure", Html(svg(state, rows)), class_="plot")
    return layout(state.name, h("h1", one_line(state.goal or state.name)), plot, told, session=session)


def joined(*parts: Part) -> Html:
    """Parts with a dot between them, without those that are empty."""
    kept = [text(part) for part in parts if part]
    return Html(" · ".join(kept))
