"""A scripted API as gh expects it: on loopback, behind TLS with a certificate made for the test."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.debian import ensure

Answers = dict[str, Any]  # "GET /repos/o/r": what is answered, or (status, what)


class ForgeApi:
    def __init__(self, folder: Path) -> None:
        ensure(("gh", "openssl"), ("gh", "openssl"), "gh")
        folder.mkdir(parents=True)
        self.answers: Answers = {}
        self.asked: list[tuple[str, Any]] = []
        self.logins: set[str | None] = set()
        self._certificate, key = folder / "certificate.pem", folder / "key.pem"
        subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
        made = ("-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", str(key), "-out", str(self._certificate))
        subprocess.run(["openssl", "req", "-x509", *made, *subject], check=True, capture_output=True)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.host = f"localhost:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def env(self) -> dict[str, str]:
        return {"SSL_CERT_FILE": str(self._certificate), "GH_ENTERPRISE_TOKEN": "the-users-own"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                while size := self.headers.get("Transfer-Encoding") and int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                name = f"{self.command} {self.path.removeprefix('/api/v3')}"
                api.asked.append((name, json.loads(body) if body else None))
                api.logins.add(self.headers.get("Authorization"))
                found = api.answers.get(name, (404, {"message": "Not Found"}))
                status, said = found if isinstance(found, tuple) else (200, found)
                data = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = answer

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler
