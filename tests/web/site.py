"""The real page: pi-marathon web on a terminal, and a client that speaks HTTP to it."""

from __future__ import annotations

import html
import http.client
import re
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tests.process.driver import Pty
from tests.support.world import World


@dataclass
class Answer:
    status: int
    body: str
    headers: dict[str, str]


class Site:
    """The page of a world, as long as its terminal lives."""

    def __init__(self, world: World, *args: str, typed: bytes = b"", **env: str) -> None:
        self.world = world
        self.terminal: Pty = world.typed(*args, **env) if args[:1] == ("review",) else world.typed("web", *args, **env)
        if typed:
            self.terminal.expect(b"Passphrase")
            self.terminal.send(typed)
            self.terminal.expect(b"Repeat")
            self.terminal.send(typed)
        self.told = ""
        self.address = self._address()
        self.port = int(self.address.split(":")[2].split("/")[0])

    def _address(self) -> str:
        self.told = self.terminal.expect(b"Ctrl+C: stop").decode()
        found = re.search(r"(http://127\.0\.0\.1:\d+/in\?token=\w+)(&task=\w+)?", self.told)
        assert found, self.told
        self.wanted = found[2] or ""
        return found[1]

    def another_address(self) -> str:
        self.terminal.send(b"\n")
        return self._address()

    def client(self) -> Client:
        """A browser that was let in."""
        client = Client(self.port, code=self.world.code)
        answer = client.get(self.another_address())
        assert answer.status == 303, answer.body
        client.base = answer.headers["location"].rstrip("/")
        return client


@dataclass
class Client:
    port: int
    base: str = ""
    cookie: str = ""
    csrf: str = ""
    host: str = ""
    code: Callable[[], str] = str  # of the gate, as its human has read it
    task: str = field(default="", init=False)

    def get(self, path: str, **headers: str) -> Answer:
        return self._ask("GET", path, None, headers)

    def post(self, path: str, headers: Mapping[str, str] = MappingProxyType({}), /, **form: str) -> Answer:
        """A form of ours, unless the headers say otherwise."""
        if path.endswith("/verdict"):
            form = {"code": self.code(), **form}
        own = {"Origin": f"http://127.0.0.1:{self.port}", "Content-Type": "application/x-www-form-urlencoded"}
        return self._ask("POST", path, urllib.parse.urlencode({"csrf": self.csrf, **form}), {**own, **headers})

    def open_task(self) -> str:
        """The page of the only task."""
        listed = self.get(f"{self.base}/")
        assert listed.status == 200, listed.body
        found = re.search(r'/task/(\w+)"', listed.body)
        assert found, listed.body
        self.task = f"{self.base}/task/{found[1]}"
        return self.look()

    def look(self, more: str = "") -> str:
        page = self.get(self.task + more)
        assert page.status == 200, page.body
        csrf = re.search(r'name="csrf" value="([^"]+)"', page.body)
        self.csrf = csrf[1] if csrf else self.csrf
        return page.body

    def gate(self) -> str:
        found = re.search(r'name="gate" value="(\w+)"', self.look())
        return found[1] if found else ""

    def buttons(self) -> dict[str, str]:
        """What the gate offers: the label of each button, and what it sends."""
        found = re.findall(r'<button name="answer" value="([^"]*)"[^>]*>([^<]*)<', self.look())
        return {html.unescape(label): value for value, label in found}

    def _ask(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> Answer:
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        target = path[path.index("/", 8) :] if path.startswith("http") else path
        sent = {"Cookie": self.cookie, **headers} if self.cookie else headers
        asked.request(method, target, body, sent)
        got = asked.getresponse()
        found = {name.lower(): value for name, value in got.getheaders()}
        if "set-cookie" in found:
            self.cookie = found["set-cookie"].split(";")[0]
        answer = Answer(got.status, got.read().decode(), found)
        asked.close()
        return answer
