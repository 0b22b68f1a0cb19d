"""What happened and what happens: the log, the sessions and rounds, what changed between them and in the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from marathon.core.comments import anchor, lines_of
from marathon.core.rounds import Round
from marathon.core.sessions import sessions_of
from marathon.core.text import clean, duration, one_line
from marathon.runner.review import LONGEST_DOCUMENT, document_text
from marathon.runner.sights import last_log
from marathon.show.session_plot import session_plot
from marathon.store.events import offset_near_end
from marathon.store.files import beginning_of
from marathon.web.comments import card
from marathon.web.html import Html, Part, h
from marathon.web.log import log_text
from marathon.web.render import diff, patch
from marathon.web.view import View, documents, pair_in, quoted
from marathon.web.views import Session, joined, layout

_LOG_BYTES = 400_000  # of the end of a log


def now(view: View) -> tuple[Html | None, int]:
    """The end of the last session's log, and how far it was read. While a session runs, the script adds to it."""
    log = last_log(view.known)
    if not log.is_file():
        return None, 0
    told, offset = _end_of(log)
    running = view.known.life.session and view.status.runner
    head = [h("h2", "Now"), h("p", id="doing")] if running else h("h2", "Last session")
    return h("section", head, h("pre", told[-4000:], id="log", tabindex=0)), offset


def _end_of(log: Path) -> tuple[str, int]:
    return log_text(log, offset_near_end(log, _LOG_BYTES))


def history(session: Session, view: View) -> Part:
    sessions = list(sessions_of(view.known.records))
    if not sessions:
        return None
    head = h("h2", "Runs, rounds and sessions ", h("small", "UTC"))
    plot = h("figure", Html(session_plot(sessions)), class_="plot sessions")
    return h("section", head, plot, timeline(view, sessions, f"{session.base}/{view.path}"))


def timeline(view: View, sessions: Sequence[dict[str, Any]], base: str = "") -> Html:
    """Sessions and rounds in the order they happened. Without a base there is nothing to link to."""
    rows: list[tuple[str, Html]] = []
    for each in sessions:
        spent = f"${each['usage']['cost']:.2f}" if each["usage"] and each["usage"]["cost"] else ""
        run = f"run {each['run']}, " if view.known.life.run > 1 else ""
        name = f"{run}session {each['iteration']} · {one_line(each['phase'], 40)}"
        link = h("a", name, href=f"{base}/log/{each['run']}-{each['iteration']}") if base else name
        cause = one_line(each["cause"], 160)
        rows.append((each["endedAt"], joined(link, duration(each["seconds"]), spent, each["ending"], cause)))
    for found in view.rounds:
        name = f"round {found.label} of {one_line(found.phase, 40)}"
        link = h("a", name, href=f"{base}/diff?b={quoted(round_name(found))}") if base else name
        by = "edited by you" if found.by == "human" else None
        verdict = f"{found.verdict} ({found.answered_by})" if found.verdict else "waits for your answer"
        said = h("q", one_line(found.feedback, 300)) if found.feedback else None
        rows.append((found.at, joined(h("strong", link), by, verdict, said)))
    rows.sort(key=lambda row: row[0])
    items = [h("li", h("time", when[5:16].replace("T", " ")), " ", told) for when, told in rows]
    return h("ol", items, class_="timeline")


class Version(NamedTuple):
    """A text that can be compared."""

    told: str
    path: Path
    phase: str = ""  # empty for a file as it is now

    @property
    def document(self) -> str:
        return f"{self.phase}.md" if self.phase else self.path.name

    @property
    def lines(self) -> list[str]:
        return lines_of(beginning_of(self.path, LONGEST_DOCUMENT).decode("utf-8", "replace"))


def round_name(each: Round) -> str:
    return f"{each.run}:{each.phase}:{each.label}"


def versions(view: View) -> dict[str, Version]:
    """Every kept round by its name, in order, and then the files as they are now."""
    found: dict[str, Version] = {}
    for each in view.rounds:
        if path := view.known.task.runs.round_file(each):
            run = f", run {each.run}" if view.known.life.run > 1 else ""
            found[round_name(each)] = Version(f"{each.phase}, round {each.label}{run}", path, each.phase)
    for name in documents(view):
        if view.known.task.output_mark(name):
            found[f"now:{name}"] = Version(f"{name} now", view.known.task.folder / name)
    return found


def diff_page(session: Session, view: View, asked: dict[str, str]) -> str:
    found = versions(view)
    if not found:
        return _subpage(session, view, "What changed", h("p", "There is nothing to compare yet."))
    a, b = _compared(found, asked.get("a", ""), asked.get("b", ""))
    beside = asked.get("as", "side") == "side"
    choices = []
    for label, name, chosen in (("From", "a", a), ("to", "b", b)):
        options = [h("option", each.told, value=key, selected=key == chosen) for key, each in found.items()]
        choices.append(h("label", f"{label} ", h("select", options, name=name)))
    for way, told in (("side", "side by side"), ("inline", "one below the other")):
        button = h("input", type="radio", name="as", value=way, checked=beside == (way == "side"))
        choices.append(h("label", button, f" {told}"))
    form = h("form", choices, h("button", "Compare"), method="get", class_="row")
    before, after, name = found[a].lines, found[b].lines, found[b].document
    now = not view.over and after == lines_of(document_text(view.known, name))  # else its lines are others by now
    link = f"{session.base}/{view.path}?doc={quoted(name)}&on=" if now else ""
    table = diff(before, after, beside=beside, said=_said(view, found[a]), link=link)
    return _subpage(session, view, "What changed", form, table)


def _said(view: View, version: Version) -> Mapping[int, Part]:
    """The comments on a version with their answers, by the last line that each is about."""
    text, name = "\n".join(version.lines), version.document
    said: dict[int, list[Html]] = {}
    for each in view.standings:
        place = anchor(each.comment, text) if each.comment.file == name else None
        if place and place[1]:
            said.setdefault(place[1], []).append(card(each))
    return said


def _compared(found: dict[str, Version], a: str, b: str) -> tuple[str, str]:
    """What was asked for; else the last round against the one before it, and the first one against the file now."""
    rounds = [name for name, each in found.items() if each.phase]
    if b not in found:
        b = rounds[-1] if rounds else next(iter(found))
    if a in found:
        return a, b
    same = [name for name in rounds if found[name].phase == found[b].phase]
    if b in same[1:]:
        return same[same.index(b) - 1], b
    now = f"now:{found[b].phase}.md"
    return b, now if now in found else b


def code_page(session: Session, view: View) -> str:
    return _subpage(session, view, "The code since the last gate", patch(clean(view.known.snapshots.changes(100))))


def log_page(session: Session, view: View, which: str) -> str:
    run, iteration = pair_in(which)
    log = Path(view.known.task.runs.session_path(run, "events", iteration, "jsonl"))
    told = _end_of(log)[0] if log.is_file() else "There is no log of this session."
    return _subpage(session, view, f"Session {iteration} of run {run}", h("pre", told, tabindex=0, class_="log"))


def _subpage(session: Session, view: View, title: str, *parts: Part) -> str:
    name = view.known.task.folder.name
    back = h("p", h("a", f"← {name}", href=f"{session.base}/{view.path}"))
    return layout(f"{title}: {name}", back, h("h1", title), *parts, session=session)
