"""Finds the runner from inside an agent's session, by the environment."""

from __future__ import annotations

import os

from marathon.disk.mailbox import Mailbox, states_folder
from marathon.errors import WrongUsage


def my_mailbox() -> Mailbox:
    runner = os.environ.get("MARATHON_RUNNER_ID")
    if not runner:
        raise WrongUsage("This is for agents inside a marathon's session; there is none here.")
    mailbox = Mailbox(states_folder(os.environ), runner)
    if not mailbox.read():
        raise WrongUsage("The runner of this session is gone; nothing was recorded.")
    return mailbox
