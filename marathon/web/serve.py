"""Serves the page on this machine until it is stopped."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from marathon.errors import WrongUsage
from marathon.store.files import make_private_directory, read_regular, write_atomic
from marathon.web.app import Rows, Site
from marathon.web.auth import Door


def serve(rows: Rows, home: Path, port: int, last: Path, passphrase: str, ready: Callable[[Door], None]) -> None:
    """`ready` is called once the page can be opened. Ends at Ctrl+C. `last` names the port of the page before."""
    listening = _listening(port) if port else _usual(last)
    door = Door(listening.getsockname()[1], passphrase)
    site = Site(rows, home, door, lambda: server.should_exit)
    config = uvicorn.Config(
        site.app(),
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
        access_log=False,
        log_level="critical",
        proxy_headers=False,
        server_header=False,
    )
    server = uvicorn.Server(config)
    listening.listen(64)
    if not port:
        make_private_directory(last.parent)
        write_atomic(last, str(door.port).encode())
    ready(door)
    server.run(sockets=[listening])


def _usual(last: Path) -> socket.socket:
    """The port that the page had last, so that words which a browser kept are there again; else a free one."""
    known = read_regular(last) or b""
    try:
        return _listening(int(known) if known.isdigit() else 0)
    except (WrongUsage, OverflowError):  # another page has it now, or it is no port
        return _listening(0)


def _listening(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError as error:
        raise WrongUsage(f"Port {port} cannot be used: {error.strerror}. Leave --port out for a free one.") from error
    return listening
