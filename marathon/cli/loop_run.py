"""pi-marathon loop run LANE: opens a measured loop as a marathon of its own and reports how it ended."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

import click

from marathon.agents.table import find_agent
from marathon.cli.options import CommandLine, run_options
from marathon.cli.run import conduct
from marathon.core.courses.measured import MeasuredLoop
from marathon.core.lanes import names, verbs
from marathon.core.lanes.model import LaneState, Refused
from marathon.core.text import clean, one_line, utc
from marathon.errors import WaitsForHuman
from marathon.git.lane_tree import LaneTree, current_branch, repository_of
from marathon.process.terminal import interactive
from marathon.runner.workbench import Workbench
from marathon.show import lanes as show
from marathon.store.files import make_private_directory, write_atomic
from marathon.store.lanes import Lane, Lanes, find_project
from marathon.store.places import trusted_folder
from marathon.store.task import Task
from marathon.store.trusted import Trusted


def run_loop(target: str, line: CommandLine, max_iterations: int | None) -> int:
    lanes = Lanes(find_project(Path.cwd()))
    run = names.pick(target, lanes.runs(), "resume")
    project = repository_of(lanes.project)
    agent = find_agent(line.agent, line.agent_args, line.mode)
    agent.check()
    with lanes.locked():
        state = _ready(lanes, lanes.load(run), max_iterations)
    _agree(state, lanes, line.trust)
    folder = lanes.folder(run) / "task"
    _make_task(folder, state)
    shown = Path(os.path.relpath(folder))
    task = Task.open(shown)
    options = run_options(line, task, shown)
    tree = _tree(project, lanes, state)
    bench = Workbench(lanes, run, tree)
    code = conduct(
        line, options, tree.folder, agent, MeasuredLoop(), bench, lambda marathon: bench.open(marathon, state)
    )
    if not line.as_json:
        lane = lanes.load(run)
        click.echo("\n".join(map(clean, show.card(lane.state))))
        if lane.state.keeps:
            click.echo(f"What was kept is on the branch {tree.branch}. Nothing was merged or pushed.")
    return code


def _ready(lanes: Lanes, lane: Lane, max_iterations: int | None) -> LaneState:
    """The loop as the runner takes it over, or a refusal that says what to type instead."""
    state, now = lane.state, utc(datetime.now(UTC))
    if state.measured_by == "agent":
        raise Refused(f"{state.name} is measured by the agent.", f"Its verbs: {show.next_command(state)}")
    if not state.verify_command:
        raise Refused(
            f"{state.name} has no verify command, so the runner cannot measure it.",
            f'Start another run: pi-marathon loop start "GOAL" --lane {state.lane} --verify CMD',
        )
    state = state.with_(measured_by="runner")
    changed, row = verbs.resume(state, now, max_iterations=max_iterations)
    lanes.save(lane, changed, row, now)
    return changed


def commands_digest(state: LaneState, holdout: str, project: Path) -> str:
    parts = (str(project.resolve()), state.verify_command or "", state.guard_command or "", holdout)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _agree(state: LaneState, lanes: Lanes, trust: bool) -> None:
    """The commands of a loop run only after a human has agreed to exactly these."""
    holdout = lanes.holdout(state)
    trusted, digest = Trusted(trusted_folder()), commands_digest(state, holdout, lanes.project)
    if not trusted.has(digest):
        commands = {"verify": state.verify_command, "guard": state.guard_command, "holdout": holdout}
        listed = "\n".join(f"  {name}: {one_line(text, 1000)}" for name, text in commands.items() if text)
        if not trust:
            if not interactive():
                raise WaitsForHuman(
                    f"These commands measure {state.name}, and no one has agreed to them yet:\n{listed}\n"
                    f"To agree: pi-marathon loop run {state.name} --trust"
                )
            click.confirm(f"These commands measure {state.name}:\n{clean(listed)}\nRun them?", abort=True)
        trusted.remember(digest, {"project": str(lanes.project), "loop": state.name, **commands})


def _make_task(folder: Path, state: LaneState) -> None:
    """The task directory of the loop's sessions. The human may write into its files as into those of any task."""
    make_private_directory(folder)
    if not (folder / "instructions.md").exists():
        write_atomic(
            folder / "instructions.md", f"# {one_line(state.goal or state.name, 100)}\n\n{state.goal}\n".encode()
        )


def _tree(project: Path, lanes: Lanes, state: LaneState) -> LaneTree:
    if state.in_place:
        tree = LaneTree(project, project, current_branch(project))
        journal = (
            lanes.folder(names.Run(state.lane, state.run_tag, state.status)) / "task" / ".marathon" / "journal.jsonl"
        )
        if not journal.exists() and not tree.is_clean():
            raise Refused(
                f"{state.name} works in place, but {project} has changes that are not committed.",
                "Commit or stash them, or start a loop without --in-place.",
            )
        return tree
    folder = lanes.root / "worktrees" / f"{state.lane}-{state.run_tag}"
    tree = LaneTree(project, folder, f"multiloop/{state.lane}/{state.run_tag}")
    tree.ensure()
    return tree
