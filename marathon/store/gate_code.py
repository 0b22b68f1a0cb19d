"""The code of an open gate: what an answer from elsewhere needs beside the gate's token, which the journal tells.

A process keeps the codes that it made in its memory. On the disk lies a slow hash of those that were printed, so that
they count when that process is gone, and so that who can read our files still has to guess.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

from marathon.store.files import make_private_directory, read_regular, write_atomic

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that look alike
_LENGTH = 6
_SALT = 16
_COST = 2**13  # 20 ms and 8 MB for each guess


def secret_word(length: int) -> str:
    """A secret that a human can read and type."""
    return "".join(secrets.choice(_LETTERS) for _ in range(length))


def same_code(one: str, typed: str) -> bool:
    return secrets.compare_digest(one.encode(), typed.strip().lower().encode("utf-8", "replace"))


class GateCodes:
    """The codes that this process made, and a folder with a file for each that was printed, named after its token."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, str] = {}
        self._printed: set[str] = set()
        self._kept: dict[str, bytes] = {}  # as it was when we first looked; what is put there later does not count

    def begin(self, token: str) -> None:
        """A gate of our own opens: nobody else can know a code for it."""
        self._kept[token] = b""

    def look(self, token: str) -> None:
        """A gate that was opened earlier: a code that was printed then still counts."""
        self._kept.setdefault(token, read_regular(self._path(token), 1000) or b"")

    def code(self, token: str) -> str:
        """For someone who uses it while this process lives."""
        return self._made.setdefault(token, secret_word(_LENGTH))

    def printed(self, token: str) -> str:
        """For a reader who may come back when this process is gone."""
        code = self.code(token)
        if token not in self._printed:
            salt = secrets.token_bytes(_SALT)
            make_private_directory(self._folder)
            write_atomic(self._path(token), (salt + _hash(code, salt)).hex().encode())
            self._printed.add(token)
        return code

    def fits(self, token: str, typed: str) -> bool:
        if token in self._made and same_code(self._made[token], typed):
            return True
        self.look(token)
        try:
            kept = bytes.fromhex(self._kept[token].decode("ascii", "replace"))
        except ValueError:  # of an older version, or no hash at all
            return False
        salt, known = kept[:_SALT], kept[_SALT:]
        return bool(known) and secrets.compare_digest(known, _hash(typed.strip().lower(), salt))

    def forget(self, token: str) -> None:
        """The gate is answered."""
        self._made.pop(token, None)
        self._path(token).unlink(missing_ok=True)

    def _path(self, token: str) -> Path:
        return self._folder / hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()[:32]


def _hash(code: str, salt: bytes) -> bytes:
    return hashlib.scrypt(code.encode("utf-8", "replace"), salt=salt, n=_COST, r=8, p=1, dklen=32)
