"""The kind of an error. It decides whether to try again, to let the agent fix it, or to ask a human."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal[
    "transient",  # the network or a time limit: it is tried once more, then a human is asked
    "logic",  # a test or a linter fails: the agent fixes it, and the breakers count
    "blocking",  # something is missing or forbidden: a human is asked at once
    "unknown",  # a human is asked
]

_NOT_RUNNABLE = (126, 127)  # found but not allowed; not found
_BLOCKING = re.compile(
    r"permission denied|operation not permitted|command not found|no space left on device|read-only file system"
    r"|no module named|cannot find module|cannot find package|is not installed|not found in path|EACCES|EPERM|ENOSPC",
    re.I,
)
# A refused connection is not among them, because it may be the agent's own server.
_TRANSIENT = re.compile(
    r"could not resolve host|name or service not known|temporary failure in name resolution|network is unreachable"
    r"|connection timed out|ETIMEDOUT|ENETUNREACH|EAI_AGAIN",
    re.I,
)


def kind_of_check(*, code: int | None, timed_out: bool, started: bool, output: str) -> Kind:
    """The kind of a failed check. A missing module that a test complains about is for the agent to fix."""
    if not started or code in _NOT_RUNNABLE:
        return "blocking"
    if timed_out or _TRANSIENT.search(output):
        return "transient"
    return "unknown" if code is None else "logic"


def is_blocking(code: int | None, last_words: str) -> bool:
    """Whether the last output of a failed program says that trying again cannot help."""
    return code in _NOT_RUNNABLE or bool(_BLOCKING.search(last_words))
