"""What kind of error it is, and so what to do about it: try again, mend it, or ask for help."""

from __future__ import annotations

import re
from typing import Literal

# transient: the network, the clock; tried once more, then a human is asked
# logic: a test or a linter fails; the agent mends it, and the breakers count
# blocking: something is missing or forbidden; a human is asked at once
# unknown: nobody can say; a human is asked
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
    """Of a check that failed. What a test complains of, a missing module for instance, is the agent's to mend."""
    if not started or code in _NOT_RUNNABLE:
        return "blocking"
    if timed_out or _TRANSIENT.search(output):
        return "transient"
    return "unknown" if code is None else "logic"


def is_blocking(code: int | None, last_words: str) -> bool:
    """Whether a program that ended badly said that trying again cannot help."""
    return code in _NOT_RUNNABLE or bool(_BLOCKING.search(last_words))
