"""What a session is given: the facts of its prompt, its environment, and the runner state beside it."""

from __future__ import annotations

import os
import shutil
import sys
from datetime import datetime
from functools import cache
from typing import Any

from marathon.core.courses.workflow import advance, current
from marathon.core.life import Progress
from marathon.core.names import DONE, utc
from marathon.core.prompt import REFLECTION, Briefing
from marathon.core.steps import RunSession
from marathon.runner.marathon import Workshop


def briefing(
    shop: Workshop, progress: Progress, step: RunSession, iteration: int, human: str, human_exists: bool
) -> Briefing:
    following, over = advance(shop.definitions, progress.position)
    return Briefing(
        task=str(shop.shown) if str(shop.shown).isprintable() else "$MARATHON_TASK_DIR",
        phase=step.phase,
        next_phase=DONE if over else current(shop.definitions, following).id,
        run=progress.run,
        iteration=iteration,
        time=utc(shop.clock()),
        round=progress.round_of(step.phase.id) + 1,
        human_text=human,
        human_exists=human_exists,
        steer=[steer.text for steer in progress.steer],
        answer=progress.answer,
        guidance=step.guidance,
        criteria=progress.criteria.criteria if progress.criteria else (),
        reflection=(shop.task.reflection() or REFLECTION) if step.reflect else "",
    )


def environment(shop: Workshop, progress: Progress, phase: str, prompt: str) -> dict[str, str]:
    return {
        **shop.environ,
        "PATH": _with_us(shop.environ.get("PATH", os.defpath)),
        "MARATHON_RUNNER_ID": shop.runner,
        "MARATHON_TASK_DIR": str(shop.task.folder),
        "MARATHON_PHASE": phase,
        "MARATHON_ITERATION": str(progress.iteration),
        "MARATHON_RUN": str(progress.run),
        "MARATHON_PROMPT_FILE": prompt,
    }


@cache
def _with_us(path: str) -> str:
    """A search path that finds us: last, so that it brings `pi-marathon wait` and `ask` and shadows nothing."""
    if shutil.which("pi-marathon", path=path):
        return path
    return os.pathsep.join((path, os.path.dirname(sys.executable)))


def mail(shop: Workshop, phase: str, iteration: int, progress: Progress, now: datetime, log: str) -> dict[str, Any]:
    """The mailbox between the runner and the agent's side, as a session finds it."""
    return {
        "runnerId": shop.runner,
        "taskDir": str(shop.task.folder),
        "cwd": str(shop.project),
        "pid": os.getpid(),
        "startedAt": utc(now),
        "phase": phase,
        "iteration": iteration,
        "run": progress.run,
        "eventsFile": log,
        "costBefore": progress.usage.cost,
        "steer": [steer.text for steer in progress.steer],
        "waitSeconds": None,
        "waitReason": None,
        "feedbackQuestion": None,
        "feedbackAnswer": progress.answer.text if progress.answer else None,
        "sessionEnded": False,
    }
