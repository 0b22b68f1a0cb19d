"""What is different inside an agent's session: the runner is found there, and gates are not answered from there."""

from __future__ import annotations

import os

from marathon.errors import WrongUsage
from marathon.store.agent_channel import AgentChannel
from marathon.store.lock import holder_of
from marathon.store.places import states_folder
from marathon.store.task import Task


def my_channel() -> AgentChannel:
    runner = os.environ.get("MARATHON_RUNNER_ID")
    if not runner:
        raise WrongUsage("This is for agents inside a marathon's session; there is none here.")
    mailbox = AgentChannel(states_folder(), runner)
    if not mailbox.read():
        raise WrongUsage("The runner of this session is gone; nothing was recorded.")
    return mailbox


def refuse_inside_a_session(task: Task, command: str) -> None:
    """Only a human answers gates: the agent has the same shell but not the same say, whatever environment it makes."""
    from marathon.process.tree import ancestors  # psutil takes a while to load

    holder = holder_of(task.lock_path)
    if os.environ.get("MARATHON_RUNNER_ID") or (holder and holder.pid in ancestors(os.getpid())):
        raise WrongUsage(f"'{command}' is for the human and does nothing inside an agent's session.")
