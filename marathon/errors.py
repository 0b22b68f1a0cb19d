"""The one family of errors a user may see: each is a sentence and carries the exit code of the contract."""

from __future__ import annotations


class MarathonError(Exception):
    """Something ended the command; str() of it is what the user reads."""

    exit_code = 1


class WrongUsage(MarathonError):
    """The command cannot be carried out as typed; nothing was changed."""

    exit_code = 2


class WaitsForHuman(MarathonError):
    """A human has to decide first, and there is no terminal to ask at."""

    exit_code = 3


class TaskBusy(MarathonError):
    """Another runner has this task."""

    exit_code = 6


class TaskInvalid(MarathonError):
    """The task directory cannot be used as it stands."""

    exit_code = 7


class NotAdopted(MarathonError):
    """A human has to say that this task may be taken over; nothing was changed."""

    exit_code = 3

    def __init__(self, question: str, otherwise: str = "", *, may_begin_anew: bool = False) -> None:
        super().__init__(" ".join(filter(None, (question, "To say yes: --adopt", otherwise))))
        self.question = question
        self.may_begin_anew = may_begin_anew


class DiskFailed(MarathonError):
    """A file could not be written or read; the old contents are intact."""


class AgentUnavailable(MarathonError):
    """The chosen agent cannot be started on this machine."""
