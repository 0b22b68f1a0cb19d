"""The routes of the page. Reading is shared with `status`; a verdict goes the way of `approve`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from marathon.core.comments import Kind, see
from marathon.core.lanes.names import Run
from marathon.core.records import Answer, Gate
from marathon.errors import MarathonError, WrongUsage
from marathon.runner.code_socket import handed_over
from marathon.runner.commenting import add_comment, withdraw
from marathon.runner.review import document_text, not_sent
from marathon.runner.sights import last_log
from marathon.runner.status_query import read_task
from marathon.runner.verdicts import code_fits, open_gate, send, taken
from marathon.show.listing import Row
from marathon.store.home import home_of
from marathon.store.lanes import Lanes
from marathon.store.lock import holder_of
from marathon.store.places import index_folder
from marathon.store.task import LONGEST_TEXT
from marathon.web import history
from marathon.web.auth import Door, Guarded
from marathon.web.gate_form import SENT
from marathon.web.live import stream
from marathon.web.log import Watch
from marathon.web.task_page import task_page
from marathon.web.view import View, chosen_document, fingerprint, lines_in, look, number_in, quoted
from marathon.web.views import Session, listing, loop_page, refused

_PATIENCE = 3.0  # seconds in which a runner at its gate takes an answer

Rows = Callable[[], Sequence[Row]]


class Place(NamedTuple):
    folder: Path
    project: Path


def name_of(folder: Path, more: str = "") -> str:
    """What a task is called in an address. It says nothing about where the task lies."""
    return hashlib.sha256(f"{folder}\0{more}".encode("utf-8", "surrogateescape")).hexdigest()[:24]


class Site:
    """Everything that the routes need. Only what was listed can be opened."""

    def __init__(self, rows: Rows, home: Path, door: Door, ended: Callable[[], bool]) -> None:
        self._rows = rows
        self._home = home  # the project in which the page was started; it may have loops and no tasks
        self._door = door
        self._ended = ended
        self._places: dict[str, Place] = {}
        self._loops: dict[str, tuple[Path, Run]] = {}

    def app(self) -> ASGIApp:
        get = {
            "/": self._list,
            "/live": self._live_list,
            "/loop/{id}": self._loop,
            "/task/{id}": self._task,
            "/task/{id}/diff": self._diff,
            "/task/{id}/code": self._code,
            "/task/{id}/log/{session}": self._log,
            "/task/{id}/live": self._live,
        }
        post = {"verdict": self._verdict, "comment": self._comment, "withdraw": self._withdraw, "steer": self._steer}
        routes = [Route(path, _told(act)) for path, act in get.items()]
        routes += [Route(f"/task/{{id}}/{name}", _told(act), methods=["POST"]) for name, act in post.items()]
        static = StaticFiles(directory=Path(__file__).parent / "static")
        return Guarded(Starlette(routes=[Mount("/static", static), *routes]), self._door)

    # Reading

    def _list(self, request: Request) -> Response:
        rows = self._listed()
        projects = dict.fromkeys([self._home, *(row.project for row in rows)])
        self._loops = {name_of(each, run.name): (each, run) for each in projects for run in _loops_of(each)}
        named = {name_of(row.folder): row for row in rows}
        return HTMLResponse(listing(_session(request), named, self._loops, self._fingerprints()))

    def _listed(self) -> Sequence[Row]:
        rows = self._rows()
        new = {name_of(row.folder): Place(row.folder, row.project) for row in rows}
        self._places = {**self._places, **new}  # a new one, because another thread may go through the old one
        return rows

    def _fingerprints(self) -> str:
        found = [fingerprint(place.folder) for place in self._places.values()]
        with contextlib.suppress(OSError):
            found.append(str(index_folder().stat().st_mtime_ns))  # a new task
        return hashlib.sha256("\n".join(found).encode()).hexdigest()[:16]

    def _place(self, request: Request) -> Place:
        name = request.path_params["id"]
        if name not in self._places:
            self._listed()
        if name not in self._places:
            raise WrongUsage("This task is not known here any more.")
        return self._places[name]

    def _view(self, request: Request) -> View:
        return look(request.path_params["id"], *self._place(request))

    def _task(self, request: Request, problem: str = "", **asked: str) -> Response:
        now = fingerprint(self._place(request).folder, documents_too=True)  # before the files are read
        asked = asked or dict(request.query_params)
        page = task_page(_session(request), self._view(request), asked, now, problem)
        return HTMLResponse(page, 409 if problem else 200)

    def _diff(self, request: Request) -> Response:
        return HTMLResponse(history.diff_page(_session(request), self._view(request), dict(request.query_params)))

    def _code(self, request: Request) -> Response:
        return HTMLResponse(history.code_page(_session(request), self._view(request)))

    def _log(self, request: Request) -> Response:
        return HTMLResponse(history.log_page(_session(request), self._view(request), request.path_params["session"]))

    def _loop(self, request: Request) -> Response:
        if request.path_params["id"] not in self._loops:
            self._list(request)
        if request.path_params["id"] not in self._loops:
            raise WrongUsage("This loop is not known here any more.")
        project, run = self._loops[request.path_params["id"]]
        lanes = Lanes(project)
        lane = lanes.load(run)
        return HTMLResponse(loop_page(_session(request), lane.state, lane.rows, lanes.lessons(run)))

    # Live

    def _live_list(self, request: Request) -> Response:
        before = request.query_params.get("now", "")
        if not self._places:
            self._listed()
        return stream(lambda: {"moved": ""} if self._fingerprints() != before else {}, self._ended, every=1.0)

    def _live(self, request: Request) -> Response:
        place, before = self._place(request), request.query_params.get("now", "")
        known = read_task(*place)
        offset = number_in(request.query_params.get("log"))
        watch = Watch(known.task, known.life.session, last_log(known), offset)

        def look() -> dict[str, Any]:
            moved = {"moved": ""} if fingerprint(place.folder, documents_too=True) != before else {}
            return {**watch.news(), **moved}

        return stream(look, self._ended)

    # Writing

    def _verdict(self, request: Request) -> Response:
        form, place = _form(request), self._place(request)
        choice, _, phase = form.get("answer", "").partition(" ")
        words = form.get("words", "").replace("\r\n", "\n").strip()
        try:
            if not self._door.knows_passphrase(form.get("passphrase", "")):
                raise WrongUsage("That is not the passphrase. Nothing was changed.")
            known, gate = open_gate(place.folder, place.project, form.get("gate", ""))
            if gate.answers == "here":
                raise WrongUsage("This gate takes answers only at its own terminal (--answers-here).")
            picked = next((each for each in SENT if each == choice), None)
            if picked is None:
                raise WrongUsage("This gate does not offer that. Nothing was changed.")
            heavy = any(each.heavy for each in known.offers if (each.choice, each.phase or "") == (picked, phase))
            if heavy and "sure" not in form:
                raise WrongUsage("This is hard to take back, so it needs the tick at 'I am sure'. Nothing was changed.")
            if not words and picked == "redo":
                words = see(not_sent(known))
            answer = Answer(choice=picked, phase=phase or None, text=words, by="page")
            code = handed_over(known.task.own, gate.token) or form.get("code", "")
            if gate.answers == "code" and not code_fits(known, gate, code):
                raise WrongUsage("That is not the code of this gate. Nothing was changed.")
            self._await(place, gate, replace(answer, message=send(known, gate, answer, code)))
        except WrongUsage as refusal:
            return self._task(request, str(refusal), words=words)
        return _back(request)

    def _await(self, place: Place, gate: Gate, answer: Answer) -> None:
        """A runner at its gate takes the answer at once, unless its own terminal was first.

        A runner that started this page (w) takes it when the page has ended, and nothing else before.
        """
        deadline, lock = time.monotonic() + _PATIENCE, home_of(place.folder) / "lock"
        while (holder := holder_of(lock)) and holder.pid != os.getppid() and time.monotonic() < deadline:
            done = taken(read_task(*place), gate)
            if isinstance(done, Answer) and done.message != answer.message:
                raise WrongUsage("This gate was answered at its terminal a moment before. Your answer was not used.")
            if done:
                return
            time.sleep(0.05)

    def _comment(self, request: Request) -> Response:
        form, view = _form(request), self._view(request)
        if view.over:
            raise WrongUsage("The task is over, so no session will read it. Nothing was written.")
        first, last = lines_in(form.get("on", ""))
        name = chosen_document(view, form.get("doc", ""))
        kind: Kind = "must" if form.get("kind") == "must" else "note"
        shown = _session(request).shown.get(form.get("version", ""))  # the file may be another one by now
        document = document_text(view.known, name) if shown is None else shown
        words = form.get("say", "").replace("\r\n", "\n")
        made = add_comment(view.known, words, kind=kind, file=name, first=first, last=last, document=document)
        at = f"&at={made.first}" if made.first else ""
        return _back(request, f"&doc={quoted(name)}&as={quoted(form.get('as', ''))}{at}#{made.id}")

    def _withdraw(self, request: Request) -> Response:
        gone = withdraw(self._view(request).known, _form(request).get("id", ""))
        return _back(request, f"&doc={quoted(gone.file)}#comments")

    def _steer(self, request: Request) -> Response:
        words = _form(request).get("words", "").replace("\r\n", "\n").strip()
        if not words:
            raise WrongUsage("The message is empty. Nothing was sent.")
        task = self._view(request).known.task
        task.inbox.put("steer", text=words)
        return _back(request)


def _told(act: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """A sentence instead of a page, where something cannot be shown or done."""

    def answer(request: Request) -> Response:
        try:
            return act(request)
        except MarathonError as error:
            said = str(error)
        except OSError as error:
            said = f"The system refused: {error.strerror or error}."
        form = request.scope["form"]
        words = form.get("say") or form.get("words", "")
        title = "Not done" if request.method == "POST" else "This cannot be shown"
        return HTMLResponse(refused(said, f"{_session(request).base}/", words, title), 409)

    return answer


def _session(request: Request) -> Session:
    session: Session = request.scope["session"]
    return session


def _form(request: Request) -> dict[str, str]:
    form: dict[str, str] = request.scope["form"]
    if max(map(len, form.values()), default=0) > LONGEST_TEXT:
        raise WrongUsage(f"The text has more than {LONGEST_TEXT:,} characters. Nothing was changed.")
    return form


def _back(request: Request, more: str = "") -> Response:
    """To the task. `sent` tells the page that its words were taken."""
    return RedirectResponse(f"{_session(request).base}/task/{request.path_params['id']}?sent=1{more}", 303)


def _loops_of(project: Path) -> list[Run]:
    with contextlib.suppress(MarathonError, OSError):
        return Lanes(project).runs()
    return []
