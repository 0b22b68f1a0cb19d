"""The code of an open gate: what an answer from another shell needs beside the gate's token.

The token stands in the journal, which the agent can read. The code lies outside of every project.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

from marathon.store.files import make_private_directory, read_regular, write_atomic

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that look alike
_LENGTH = 6


def secret_word(length: int) -> str:
    """A secret that a human can read and type."""
    return "".join(secrets.choice(_LETTERS) for _ in range(length))


class GateCodes:
    """A folder with a file for each open gate, named after its token."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def code(self, token: str) -> str:
        """The code of the gate with this token, made when it is first asked for."""
        path = self._path(token)
        known = (read_regular(path, 100) or b"").decode("ascii", "replace").strip()
        if known:
            return known
        made = secret_word(_LENGTH)
        make_private_directory(self._folder)
        write_atomic(path, f"{made}\n".encode())
        return made

    def fits(self, token: str, code: str) -> bool:
        return secrets.compare_digest(self.code(token).encode(), code.strip().lower().encode("utf-8", "replace"))

    def forget(self, token: str) -> None:
        """The gate is answered."""
        self._path(token).unlink(missing_ok=True)

    def _path(self, token: str) -> Path:
        return self._folder / hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()[:32]
