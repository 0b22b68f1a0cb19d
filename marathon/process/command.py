"""What to start, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Reason = Literal["exited", "timeout", "stopped", "interrupted", "terminated", "hungup"]


@dataclass(frozen=True)
class Command:
    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]  # the whole environment of the child
    stdin: int | None = None  # becomes its stdin; None is /dev/null
    terminal: bool = False  # its stdin, stdout and stderr are the controlling terminal, handed over
    inherit: tuple[int, ...] = ()  # stay open under the same number in the child and its guardian


@dataclass(frozen=True)
class Exit:
    code: int | None  # exit status; None if a signal killed it, or nobody knows
    signal: int | None
    reason: Reason  # why it ended, as the runner sees it
    swept: int  # processes that outlived the agent and were ended
    seconds: float  # without the time it was suspended


class StartFailed(OSError):
    """The program could not be started: errno, text, and the program or directory it is about."""
