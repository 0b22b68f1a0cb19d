"""What only a human may do, and how it is told that one does it."""

from __future__ import annotations

import os

from marathon.errors import WrongUsage
from marathon.process.terminal import interactive
from marathon.store.places import state_home

# Commands that answer, tell or end a marathon, take something away, or start another one. Two more are for humans where
# they start what they made, and look themselves: `repeat` and `new --run`.
FOR_HUMANS = frozenset(
    {
        *("approve", "redo", "answer", "undo", "cancel", "comment", "review", "check", "tell", "attach", "stop", "rm"),
        *("repair", "pr", "--task", "run", "loop run", "demo", "install"),
    }
)


def refuse_in_a_session(command: str) -> None:
    """An agent is known by its environment, and by its ancestors if it changes that."""
    from marathon.process.linux import require_proc  # both are heavy, and `status` and the like do without
    from marathon.process.tree import in_a_session

    require_proc()
    if in_a_session(os.getpid()):
        raise WrongUsage(f"'{command}' is for the human and does nothing inside an agent's session.")


def typed_by_a_human() -> bool:
    """At a terminal, not in a session, and while no agent works that might have got away from its session."""
    from marathon.process.tree import in_a_session, session_lives

    return interactive() and not in_a_session(os.getpid()) and not session_lives(state_home)
