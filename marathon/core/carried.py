"""What comes from the human's tree into a new worktree: which of it may be a secret, and how a long list is told."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence

INCLUDE = ".worktreeinclude"
LARGE = ("node_modules", ".venv", "venv", "vendor", "target")  # what people wait for, when it is made anew
_MOST = 500
_DEEP = 3  # secrets of the project lie near its top, those in a package of node_modules are no one's
_SECRET = re.compile(
    r"\.env(\..*|rc)?|.*\.env|.*\.(pem|key|p12|pfx|keystore|jks|kdbx)|id_(rsa|dsa|ecdsa|ed25519)|\.(npmrc|pypirc|netrc)"
    r"|.*(secret|credential|password|token)s?.*|service[-_]account.*\.json",
    re.I,
)


def may_be_secret(name: str) -> bool:
    return any(_SECRET.fullmatch(part) for part in name.split("/"))


def gathered(names: Iterable[str]) -> list[str]:
    """The same in few lines: of a folder with many, the folder alone, with a slash behind it. Secrets stay apart."""
    listed = sorted(names)
    if len(listed) <= _MOST:
        return listed
    secret = [name for name in listed if may_be_secret(name) and name.count("/") < _DEEP]
    return sorted({*secret[:_MOST], *(f"{name.split('/')[0]}/" if "/" in name else name for name in listed)})


def lies_in(name: str, copied: Sequence[str]) -> bool:
    """Whether a file is one of those that were copied."""
    return any(name == each or (each.endswith("/") and name.startswith(each)) for each in copied)


def stays_inside(name: str, target: str) -> bool:
    """Whether a link says the same in a copy of its tree. An absolute one would lead back and be written through."""
    led = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return not posixpath.isabs(target) and led.split("/")[0] not in ("..", ".git")
