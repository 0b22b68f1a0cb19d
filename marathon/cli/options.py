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
from marathon.core.budgets import Limits
from marathon.core.courses.workflow import Definitions
from marathon.core.text import clean, one_line
from marathon.errors import WrongUsage
from marathon.runner.opening import check_workflow
from marathon.store.definitions import load_workflows
from marathon.store.lock import last_holder
from marathon.store.task import Task


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
    resume_here: str  # the same, from where the human is


def read_order(options: Mapping[str, Any], agent_args: tuple[str, ...]) -> Order:
    shown = task_path(options["task"])
    feedback = None if options["human"] is None else message_text(options["human"])
    limits = _limits(options)
    agent = find_agent(options["agent"], agent_args, options["mode"])
    task = Task.open(shown)
    if not options["here"]:
        _check_place(task)
    agent.check()
    definitions = load_workflows(Path.cwd()).workflows
    if not task.journal_path.exists():  # a task that has begun keeps its own
        check_workflow(definitions, options["workflow"])
    resume = _resume_command(options, agent_args)
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
        resume=resume,
        resume_here=options.get("resume_here", resume),
    )


def _check_place(task: Task) -> None:
    """An agent works in the folder its marathon is started in. To start it in another one is rarely meant; a project
    that was moved or copied has its task in the same place."""
    before, here = last_holder(task.lock_path), os.getcwd()
    if before is None or not before.task or before.cwd == here or not os.path.isdir(before.cwd):
        return
    if os.path.relpath(task.folder, here) != os.path.relpath(before.task, before.cwd):
        there = one_line(f"cd {shlex.quote(before.cwd)} && {before.resume}", 4000)
        raise WrongUsage(
            f"So far this task ran in {clean(before.cwd)}; here its agent would work in {here}. "
            f"To go on there: {there}   To work here: add --here"
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
