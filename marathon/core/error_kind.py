"""What kind an error is, which decides what follows: try again, let the agent fix it, or ask a human."""

from __future__ import annotations

import re
from typing import Literal

# transient: the network or a time limit; tried once more, then a human is asked
# logic: a test or a linter fails; the agent fixes it, and the breakers count
# blocking: something is missing or forbidden; a human is asked at once
# unknown: a human is asked
Kind = Literal["transient", "logic", "blocking", "unknown"]

_NOT_RUNNABLE = (126, 127)  # found but not allowed; not found
_BLOCKING = re.compile(
    r"permission denied|operation not permitted|command not found|no space left on device|read-only file system"
    r"|no module named|cannot find module|cannot find package|is not installed|not found in path|EACCES|EPERM|ENOSPC",
    re.I,
)
_TRANSIENT = re.compile(
    r"could not resolve host|name or service not known|temporary failure in name resolution|network is unreachable"
    r"|connection timed out|ETIMEDOUT|ENETUNREACH|EAI_AGAIN",  # a refused connection may well be the agent's own server
    re.I,
)


def kind_of_check(*, code: int | None, timed_out: bool, started: bool, output: str) -> Kind:
    """The kind of a failed check. What a test complains about, such as a missing module, is for the agent to fix."""
    if not started or code in _NOT_RUNNABLE:
        return "blocking"
    if timed_out or _TRANSIENT.search(output):
        return "transient"
    return "unknown" if code is None else "logic"


def is_blocking(code: int | None, last_words: str) -> bool:
    """Whether the last words of a failed program say that trying again cannot help."""
    return code in _NOT_RUNNABLE or bool(_BLOCKING.search(last_words))
