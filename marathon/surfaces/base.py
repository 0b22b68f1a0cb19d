"""Where a gate is answered: what every surface is shown, and what it brings back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from marathon.core.comments import Comment, Kind, Standing
from marathon.core.gates import Offer
from marathon.core.records import Answer, CheckResult, Gate, Rating
from marathon.git.writes import Kept


@dataclass(frozen=True)
class Sight:
    """Something to look at before a gate is answered. To look at it changes nothing."""

    key: str  # on a terminal
    label: str
    form: Literal["document", "log", "diff", "plain"]
    read: Callable[[], str]  # the text, read when it is wanted
    shown: Literal["always", "more", "never"] = "more"  # its key acts wherever it is shown


@dataclass(frozen=True)
class Commenting:
    """How the document at hand is commented on. A comment is written the moment it is made."""

    file: str
    read: Callable[[], str]
    add: Callable[[str, Kind, int, int], Comment]  # the text, and the lines; 0: the whole document
    not_sent: Callable[[], list[Comment]]  # comments that no session has been given


@dataclass(frozen=True)
class GateView:
    """A gate as a human meets it."""

    gate: Gate
    offers: tuple[Offer, ...]
    task: Path
    iteration: int
    document: Path | None = None  # what is to be reviewed, or the criteria that are to be agreed to
    at_hand: Path | None = None  # what the e key edits
    sights: Sequence[Sight] = ()
    commenting: Commenting | None = None
    total: str = ""  # what the task used in all, against what it may use
    summary: str = ""  # the round, its cost, what changed
    comments: Sequence[Standing] = ()  # those that the agent was given last, and those that it will be
    breadcrumb: str = ""
    resume: str = ""
    program: str = "pi-marathon"
    checks: Sequence[CheckResult] = ()
    rating: Rating | None = None
    log: Path | None = None  # of the last session
    denied: str = ""  # what the agent was not allowed to use
    code: Callable[[], str] | None = None  # tells what an answer from another shell needs
    put_back: Callable[[], str] | None = None  # brings back what was undone, and says so
    kept: Callable[[], Kept] = Kept  # what changed meanwhile, of which a human may undo some
    visited: bool = False  # by a terminal that only watches the marathon
    leave: Callable[[], None] | None = None  # the marathon goes on without this terminal, and the gate stays open


Elsewhere = Callable[[], Answer | None]


class GateSurface(Protocol):
    """Somewhere a gate can be answered."""

    interactive: bool

    def ask(self, view: GateView, elsewhere: Elsewhere) -> Answer | None:
        """The human's answer, or None if no one can be asked. `elsewhere` returns an answer sent from a shell."""
