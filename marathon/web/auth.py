"""Who gets in: the browser of the human who read this terminal, and no other page, port, program or name.

Everything secret lives in this process and in that browser. The cookie is bound to a path that only they know, because
a browser sends the cookies of 127.0.0.1 to every port of it, and an agent may well serve a page on another one.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marathon.store.gate_code import secret_word
from marathon.web.views import Session, refused, sign_in

_SLOWER = 0.1  # seconds by which each wrong word is answered later than the one before
_SLOWEST = 2.0
_LARGEST_FORM = 4_000_000
_LARGEST_SIGN_IN = 10_000
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # without a referrer, a form's Origin would be null
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass
class Door:
    """The secrets of one server."""

    port: int
    passphrase: str = ""
    base: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(12)}")
    _token: str = ""
    _wrong: int = 0
    _cookies: list[str] = field(default_factory=list)
    _alone: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._session = Session(self.base, secrets.token_urlsafe(32), bool(self.passphrase))

    def new_token(self) -> str:
        """A word that lets one browser in, once. The one before it counts no more."""
        with self._alone:
            self._token, self._wrong = secret_word(12), 0
            return self._token

    def enter(self, token: str) -> str | None:
        """A new cookie for the right token, which is used up. Wrong ones use up nothing: no one locks us out."""
        with self._alone:
            if not self._token or not _same(self._token, token.strip()):
                self._wrong += 1
                return None
            self._token = ""
            cookie = secrets.token_urlsafe(32)
            self._cookies.append(cookie)
            return cookie

    @property
    def patience(self) -> float:
        """The seconds before a wrong word is answered, so that guessing takes too long."""
        return min(self._wrong * _SLOWER, _SLOWEST)

    def session(self, cookie: str) -> Session | None:
        """The same one for every browser, so that signing in again takes no form out of an open window."""
        return self._session if any(_same(known, cookie) for known in self._cookies) else None

    def knows_passphrase(self, said: str) -> bool:
        if not self.passphrase or _same(self.passphrase, said):
            return True
        time.sleep(1)  # so that guessing takes too long
        return False

    @property
    def hosts(self) -> tuple[str, ...]:
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @property
    def cookie(self) -> str:
        return f"marathon_{self.port}"


def _same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode("utf-8", "replace"))


class Guarded:
    """Stands before every route, so that none of them can forget a check."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *extra]}
            await send(message)

        answer = await self._answer(Request(scope, receive))
        await (answer or self._app)(scope, receive, with_headers)

    async def _answer(self, request: Request) -> Response | None:
        """A refusal or the way in. None if the request may go on to its route."""
        door, path = self._door, request.scope["path"]
        if request.headers.get("host") not in door.hosts:
            return _refused(421, "This page answers only to its own address, 127.0.0.1 or localhost with its port.")
        if request.method not in ("GET", "POST"):
            return _refused(405, "This page takes GET and POST only.")
        posted = request.method == "POST"
        if posted and request.headers.get("origin") != f"http://{request.headers['host']}":
            return _refused(403, "Another page sent this. Nothing was changed.")
        if path.startswith("/static/"):
            return None
        # Nothing that is sent is read before it is known who sends it.
        signs_in = path in ("/", "/in")
        session = door.session(request.cookies.get(door.cookie, ""))
        if not signs_in and (session is None or not path.startswith(f"{door.base}/")):
            return HTMLResponse(sign_in("This browser is not signed in here."), 403)
        form = await _form(request, _LARGEST_SIGN_IN if signs_in else _LARGEST_FORM) if posted else {}
        if form is None:
            return _refused(413, "That is too long. Nothing was changed.")
        if signs_in or session is None:
            return await self._let_in(form.get("token") or request.query_params.get("token", ""), request)
        if posted and not _same(session.csrf, form.get("csrf", "")):
            return _refused(403, "This form is not of this page. Reload it and try again.")
        request.scope.update(form=form, session=session, root_path=door.base)
        return None

    async def _let_in(self, token: str, request: Request) -> Response:
        if not token:
            return HTMLResponse(sign_in(""))
        cookie = self._door.enter(token)
        if cookie is None:
            await asyncio.sleep(self._door.patience)
            return HTMLResponse(sign_in("That word is wrong or was used already."), 403)
        wanted = request.query_params.get("task", "")
        to = f"task/{wanted}" if wanted.isalnum() else ""
        answer = RedirectResponse(f"{self._door.base}/{to}", 303)
        answer.set_cookie(self._door.cookie, cookie, path=self._door.base, httponly=True, samesite="strict")
        return answer


async def _form(request: Request, largest: int) -> dict[str, str] | None:
    """What was sent. None if it is too long, which its headers may tell already."""
    length = request.headers.get("content-length", "0")
    found = b""
    if not length.isdecimal() or int(length) > largest:
        return None
    async for piece in request.stream():
        found += piece
        if len(found) > largest:
            return None
    return dict(parse_qsl(found.decode("utf-8", "replace"), keep_blank_values=True))


def _refused(status: int, why: str) -> Response:
    return HTMLResponse(refused(why), status)
