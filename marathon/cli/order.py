"""What was asked for on the command line, read and checked before anything is changed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from marathon.agents.base import Agent
from marathon.agents.table import DEFAULT, find_agent
from marathon.cli.amounts import BUDGETS, Amount
from marathon.cli.arguments import message_text, seconds_of, task_path
from marathon.core.breakers import parse_breakers
from marathon.core.limits import Limits
from marathon.core.workflow import Definitions
from marathon.disk.task import Task
from marathon.disk.workflows import load_workflows
from marathon.errors import WrongUsage
from marathon.runner.opening import check_workflow


@dataclass(frozen=True)
class Order:
    shown: Path
    task: Task
    feedback: str | None
    limits: Limits
    typed: tuple[tuple[str, Amount], ...]  # budgets of this very command line, by their field of Limits
    agent: Agent
    workflow: str
    definitions: Definitions
    auto_approve: bool
    shape: Literal["tool", "colleague"] | None
    trust: bool
    notify: bool
    as_json: bool
    keep_events: int
    resume: str


def read_order(options: Mapping[str, Any], agent_args: tuple[str, ...]) -> Order:
    shown = task_path(options["task"])
    feedback = None if options["human"] is None else message_text(options["human"])
    limits = _limits(options)
    agent = find_agent(options["agent"], agent_args, options["mode"])
    task = Task.open(shown)
    agent.check()
    definitions = load_workflows(Path.cwd(), os.environ).workflows
    if not task.journal_path.exists():  # a task that has begun keeps its own
        check_workflow(definitions, options["workflow"])
    return Order(
        shown=shown,
        task=task,
        feedback=feedback,
        limits=limits,
        typed=tuple((field, options[name]) for name, field in BUDGETS.items() if name in options.get("typed", ())),
        agent=agent,
        workflow=options["workflow"],
        definitions=definitions,
        auto_approve=options["auto_approve"],
        shape=options["shape"],
        trust=options["trust"],
        notify=options["notify"],
        as_json=options["as_json"],
        keep_events=options["keep_events"],
        resume=_resume_command(options, agent_args),
    )


def _limits(options: Mapping[str, Any]) -> Limits:
    try:
        breakers = parse_breakers(options["breakers"])
    except ValueError as error:
        raise WrongUsage(f"--breaker: {error}.") from error
    # A sum (+10) is added to what is usual or was used, once the journal can tell: see run.py.
    usual = options.get("usual", {})
    budgets: dict[str, Any] = {
        field: usual[name] if options[name].added else options[name].value for name, field in BUDGETS.items()
    }
    return Limits(
        **budgets,
        session_timeout=seconds_of(options["session_timeout"], "--session-timeout"),
        retries=options["retries"],
        retry_wait=seconds_of(options["retry_wait"], "--retry-wait"),
        reflect_every=options["reflect_every"],
        breakers=breakers,
    )


def _resume_command(options: Mapping[str, Any], agent_args: tuple[str, ...]) -> str:
    """What to type to go on: the same agent on the same task, without the feedback."""
    words = ["pi-marathon", "--task", options["task"]]
    typed = {"agent": options["agent"] if options["agent"] != DEFAULT else None, "mode": options["mode"]}
    words += [word for name, value in typed.items() if value for word in (f"--{name}", value)]
    if agent_args:
        words += ["--", *agent_args]
    return shlex.join(words)
