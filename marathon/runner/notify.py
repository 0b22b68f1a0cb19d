"""Calls a human who is not at the terminal: by a command or a webhook of the user's own.

A short-lived process of its own does it, so that the marathon never waits for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Literal, NamedTuple

from marathon.core.events import Event, HumanNeeded
from marathon.core.text import one_line

TITLE = "pi-marathon"
_TRIES, _PATIENCE = 3, 20.0  # tries, and seconds for each
_MODULE = [sys.executable, "-P", "-m", "marathon.runner.notify"]


class Ways(NamedTuple):
    """How the user wants to be called."""

    command: tuple[str, ...] = ()
    webhook: str = ""


class Notifier:
    """A consumer of events that calls the human when one is needed."""

    def __init__(self, ways: Ways) -> None:
        self.tell: Callable[[str, Literal["warning"]], None] = lambda text, level: None
        self._ways = ways
        self._under_way: list[subprocess.Popen[bytes]] = []
        self._failed = False  # said once

    def __call__(self, event: Event) -> None:
        for sender in tuple(self._under_way):
            self._hear(sender)
        if isinstance(event, HumanNeeded) and any(self._ways):
            self._send(event.text)

    def _send(self, text: str) -> None:
        """What is to be sent goes through a pipe, because everyone can read a command line."""
        with contextlib.suppress(OSError):
            pipe, null = subprocess.PIPE, subprocess.DEVNULL
            sender = subprocess.Popen(_MODULE, bufsize=0, stdin=pipe, stdout=pipe, stderr=null, start_new_session=True)
            assert sender.stdin
            assert sender.stdout
            os.set_blocking(sender.stdout.fileno(), False)
            with sender.stdin as words:
                words.write(json.dumps([*self._ways, one_line(text, 400)]).encode())
            self._under_way.append(sender)

    def _hear(self, sender: subprocess.Popen[bytes]) -> None:
        """What a sender has said, without waiting for it. It is not our child once we went on in the background."""
        assert sender.stdout
        said = sender.stdout.read(4000)
        if said == b"":
            self._under_way.remove(sender)
            sender.stdout.close()
            sender.poll()
        elif said and not self._failed:
            self._failed = True
            self.tell(f"You could not be notified: {one_line(said.decode('utf-8', 'replace'), 300)}", "warning")


def main() -> None:
    """Call by all ways. What failed is printed, a line each."""
    from tenacity import Retrying, stop_after_attempt, wait_exponential

    command, webhook, text = json.loads(sys.stdin.buffer.read())
    ways: list[tuple[str, Callable[[], None]]] = []
    if command:
        ways.append((command[0], lambda: _run(command, text)))
    if webhook:
        ways.append(("notify_webhook", lambda: _post(webhook, text)))
    for name, call in ways:
        try:
            Retrying(stop=stop_after_attempt(_TRIES), wait=wait_exponential(max=10), reraise=True)(call)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"{name}: {error}")


def _run(command: list[str], text: str) -> None:
    null = subprocess.DEVNULL
    subprocess.run([*command, TITLE, text], check=True, timeout=_PATIENCE, stdin=null, stdout=null, stderr=null)


def _post(url: str, text: str) -> None:
    """As ntfy takes it: the text as the body, the title in a header."""
    import urllib.request  # the runner does without

    if not url.startswith(("http://", "https://")):
        raise ValueError("it is not an http or https address")
    request = urllib.request.Request(url, text.encode(), {"Title": TITLE, "Content-Type": "text/plain; charset=utf-8"})
    urllib.request.urlopen(request, timeout=_PATIENCE).close()


if __name__ == "__main__":
    main()
