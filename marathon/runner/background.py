"""Lets a running marathon go on without its terminal: the same runner with another surface."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from marathon.core.names import called
from marathon.process.background import go_on_in_background
from marathon.store.places import background_folder
from marathon.store.task_index import remember_task
from marathon.surfaces.background import BackgroundSurface

if TYPE_CHECKING:
    from marathon.runner.marathon import Marathon


def may_detach(marathon: Marathon) -> bool:
    """Whether a human sits at the terminal and may leave. Gates that are answered only there keep the human."""
    return marathon.surface.interactive and not marathon.options.answers_here


def detach(marathon: Marathon) -> None:
    """Returns in the process that goes on. The shell has the terminal again."""

    def take_over() -> None:
        marathon.lease.sign()
        if marathon.channel.path.exists():
            marathon.channel.update(pid=os.getpid())

    marathon.emit.show = marathon.leave_screen()
    go_on_in_background(take_over, lambda pid: _told(marathon, pid))
    marathon.surface = BackgroundSurface(marathon.signals)
    if marathon.team:
        marathon.team.leave_terminal()
    remember_task(background_folder(), marathon.task.folder, marathon.options.home or marathon.project)


def _told(marathon: Marathon, pid: int) -> str:
    program, task = marathon.options.program, shlex.quote(name := called(marathon.shown.parts))
    ways = f"  See it:  {program} attach {task}\n  Stop it: {program} stop {task}"
    return f"{name} goes on in the background (pid {pid}).\n{ways}"
