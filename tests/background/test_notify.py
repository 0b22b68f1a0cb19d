"""A human who is not there is called by a command and a webhook of the user's, and never by those of a project."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.background.seen import at_gate, events, over
from tests.process.driver import until
from tests.support.world import World, finish, plan, research


class Hook(HTTPServer):
    """Refuses the first requests: as many as are tried for one call."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taking)
        self.got: list[tuple[str, str]] = []
        self.refused = 0


class Taking(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.server.refused < 3:
            self.server.refused += 1
            self.send_error(503)
            return
        self.server.got.append((self.headers["Title"], body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_the_user_is_called_at_gates_and_at_the_end(world: World, hook: Hook) -> None:
    said = world.home / "said"
    config = world.home / ".config/pi-marathon/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f"""notify_command = "sh -c 'echo \\"$1: $2\\" >> {said}' sh"\n"""
        f"""notify_webhook = "http://127.0.0.1:{hook.server_port}/topic"\n"""
    )
    # What a sender said is heard at the next event, so something happens in this session until it may end.
    talk = f"until [ -e {world.agent}/go ]; do echo still at it; sleep 0.1; done"
    world.script(research(), plan(run=talk), finish())
    assert world.run("--detach").returncode == 0
    at_gate(world)
    until(lambda: said.exists() and said.read_text().endswith("\n"), "the command was called")
    assert said.read_text() == "pi-marathon: task waits for your review of research\n"
    assert world.cli("approve", "task").returncode == 0

    def told() -> list[str]:
        return [event["text"] for event in events(world, 2) if event["type"] == "notice"]

    until(lambda: world.sessions() == 2 and told(), "the failure of the webhook is told")
    assert told() == ["You could not be notified: notify_webhook: HTTP Error 503: Service Unavailable"]
    (world.agent / "go").touch()
    at_gate(world, 2)
    assert world.cli("approve", "task").returncode == 0
    over(world)
    until(lambda: len(hook.got) == 2, "both calls came")
    assert hook.got == [
        ("pi-marathon", "task waits for your review of plan"),
        ("pi-marathon", "task is completed"),
    ]
