"""Serves the page on this machine until it is stopped."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from marathon.errors import WrongUsage
from marathon.web.app import Rows, Site
from marathon.web.auth import Door


def serve(rows: Rows, home: Path, port: int, passphrase: str, ready: Callable[[Door], None]) -> None:
    """`ready` is called once the page can be opened. Ends at Ctrl+C."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError as error:
        raise WrongUsage(f"Port {port} cannot be used: {error.strerror}. Leave --port out for a free one.") from error
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
    ready(door)
    server.run(sockets=[listening])
