"""What a session is given: the facts of its prompt, its environment, and the channel between runner and agent."""

from __future__ import annotations

import os
import shutil
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

from marathon.agents.table import READ_AGENTS_MD
from marathon.core.budgets import Allowance
from marathon.core.comments import without_comments
from marathon.core.courses.workflow import Phase
from marathon.core.life import Life
from marathon.core.prompt import Briefing, reflection_on
from marathon.core.steps import RunSession
from marathon.core.text import utc
from marathon.runner import meanwhile
from marathon.runner.review import standings

if TYPE_CHECKING:
    from marathon.runner.marathon import Marathon


RULES = "AGENTS.md"


def briefing(marathon: Marathon, step: RunSession, iteration: int, human: str, human_exists: bool) -> Briefing:
    life, where, agent = marathon.life, marathon.where, marathon.agent_of(step.phase)
    told = agent.name not in READ_AGENTS_MD and (marathon.project / RULES).is_file()
    return Briefing(
        task=_named(marathon),
        phase=step.phase,
        next_phase=where.next_phase,
        run=life.run,
        iteration=iteration,
        time=utc(marathon.clock()),
        steps=where.steps,
        at=where.at,
        round=where.round,
        human_text=without_comments(human, life.comments),
        human_exists=human_exists,
        comments=[each for each in standings(marathon) if each.open],
        steer=[steer.text for steer in life.steer],
        reply=life.reply,
        edits=[edit for edited in life.edited for edit in edited.edits],
        guidance=(*step.guidance, *meanwhile.for_agent(marathon, step.phase, _named(marathon))),
        stopped_by=life.stopped_by,
        archived=life.archived,
        criteria=life.criteria.criteria if life.criteria else (),
        memory=marathon.task.working_memory(step.phase.checklist),
        reflection=(marathon.task.reflection() or reflection_on(step.phase)) if step.reflect else "",
        held=meanwhile.is_held(marathon, step.phase),
        rules=RULES if told else "",
        tools=agent.has_tools,
    )


def _named(marathon: Marathon) -> str:
    """The task directory as the agent finds it from the folder it works in."""
    task, shown = str(marathon.task.folder), str(marathon.shown)
    name = shown if os.path.realpath(marathon.project / shown) == task else task
    return name if name.isprintable() else "$MARATHON_TASK_DIR"


def environment(marathon: Marathon, life: Life, phase: str, prompt: str) -> dict[str, str]:
    return {
        **marathon.environ,
        "PATH": path_with_us(marathon.environ.get("PATH", os.defpath)),
        "MARATHON_RUNNER_ID": marathon.runner,
        "MARATHON_TASK_DIR": str(marathon.task.folder),
        "MARATHON_PHASE": phase,
        "MARATHON_ITERATION": str(life.iteration),
        "MARATHON_RUN": str(life.run),
        "MARATHON_PROMPT_FILE": prompt,
    }


def path_with_us(path: str) -> str:
    """A search path that finds pi-marathon. Our folder comes last, so that it shadows nothing."""
    if shutil.which("pi-marathon", path=path):
        return path
    return os.pathsep.join((path, os.path.dirname(sys.executable)))


def channel_fields(
    marathon: Marathon, phase: Phase, iteration: int, now: datetime, log: str, allowance: Allowance
) -> dict[str, Any]:
    """The channel between the runner and the agent's side, as a session finds it."""
    life = marathon.life
    return {
        "runnerId": marathon.runner,
        "taskDir": str(marathon.task.folder),
        "cwd": str(marathon.project),
        "pid": os.getpid(),
        "startedAt": utc(now),
        "phase": phase.id,
        "tools": list(phase.tools),
        "iteration": iteration,
        "run": life.run,
        "eventsFile": log,
        "costBefore": life.usage.cost,
        "allowance": allowance.facts(),
        "steer": [steer.text for steer in life.steer],
        "waitSeconds": None,
        "waitReason": None,
        "feedbackQuestion": None,
        "feedbackAnswer": life.reply.text if life.reply else None,
        "sessionEnded": False,
    }
