"""pi-marathon loop run LANE: opens a measured loop as a marathon of its own and reports how it ended."""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from marathon.agents.table import DEFAULT, Team
from marathon.cli.options import CommandLine, as_started, run_options
from marathon.cli.run import check_agents, conduct, without_terminal
from marathon.core.courses.measured import BOUNDS, Bench, MeasuredLoop
from marathon.core.lanes import names, verbs
from marathon.core.lanes.model import LaneState, Refused
from marathon.core.text import clean, one_line, utc
from marathon.errors import WaitsForHuman, WrongUsage
from marathon.git.lanes import LaneTree, in_place, lane_tree
from marathon.git.worktree import holds_work
from marathon.process.linux import require_proc
from marathon.process.terminal import interactive
from marathon.runner.status_query import Known, read_task
from marathon.runner.workbench import Workbench
from marathon.show import lanes as show
from marathon.show.program import program
from marathon.store.files import make_private_directory, sweep_unfinished, write_atomic
from marathon.store.home import Home, require_homes
from marathon.store.journal import read_journal
from marathon.store.lanes import Lane, Lanes, find_project
from marathon.store.lock import Holder, holder_of
from marathon.store.places import index_folder, trusted_folder
from marathon.store.task import Task
from marathon.store.task_index import remember_task
from marathon.store.trusted import Trusted

TASK = "task"  # the directory of a loop's sessions, beside its rows


def run_loop(target: str, line: CommandLine, **bounds: float | None) -> int:
    require_proc()
    require_homes()
    lanes = Lanes(find_project(Path.cwd()))
    run = names.pick(target, lanes.runs(), "run")
    folder = lanes.folder(run) / TASK
    line = as_started(line, read_journal(Task.open(folder).journal_path) if folder.is_dir() else ())
    line = without_terminal(line) if line.detach else line
    team = Team(line.agent, line.agent_args, line.mode, {})
    if len(team.names) > 1:
        raise WrongUsage("A measured loop has one agent. Name one with --agent.")
    check_agents(team, line)
    _check(lanes.load(run).state)
    known = task_of(lanes, run)
    if holder := runner_of(lanes, run):
        raise Refused(f"A runner works on {run.name} ({holder}).", f"See: pi-marathon loop status {run.name}")
    with lanes.locked():
        state = _ready(lanes, lanes.load(run), known, bounds)
    _agree(state, lanes, line)
    remember_task(index_folder(), lanes.root, lanes.project)
    tree = _tree(lanes, state, known.life.own if known else None)
    _make_task(folder, state)
    sweep_unfinished((lanes.root, folder, folder.parent), time.time())
    shown = Path(os.path.relpath(folder))
    options = replace(run_options(line, Task.open(shown), shown), resume=_resume(line, state), home=lanes.project)
    bench = Workbench(lanes, run, tree)
    code = conduct(line, options, tree.folder, team, MeasuredLoop(), bench, bench.open)
    if not line.as_json:
        state = lanes.load(run).state
        if state.status != "running":
            click.echo("\n".join(map(clean, show.card(state))))
        if state.keeps:
            click.echo(f"What was kept is on the branch {tree.branch}. Nothing was merged or pushed.")
        if state.keeps and state.status == "completed":
            click.echo(f"To make a branch of it: {verbs.command('finalize', state)}")
    return code


def task_of(lanes: Lanes, run: names.Run) -> Known | None:
    """The task of a loop that a runner has had, as its journal tells it."""
    folder = lanes.folder(run) / TASK
    return read_task(folder, lanes.project) if Home(folder).exists() else None


def runner_of(lanes: Lanes, run: names.Run) -> Holder | None:
    """The runner that works on a loop at this moment."""
    known = task_of(lanes, run)
    return holder_of(known.task.lock_path) if known else None


def runner_lines(lanes: Lanes, run: names.Run) -> list[str]:
    """What the runner of a loop does at this moment, or what the loop waits for."""
    known = task_of(lanes, run)
    if known is None or run.status == "archived":
        return []
    holder, life = holder_of(known.task.lock_path), known.life
    where = known.life.own.state.iteration + 1 if known.life.own else 0
    lines = []
    if holder:
        does = "a session works on" if life.session else "it is in" if where else "it prepares"
        lines.append(f"{'Runner:':9}{holder}; {does} iteration {where}")
    if life.gate:
        lines.append(f"{'Waits:':9}{waits_at_gate(known, run.name)}")
    return [clean(line) for line in lines]


def ask_to_stop(lanes: Lanes, run: names.Run, holder: Holder | None) -> None:
    """Pause and stop: the runner ends after its session, and the loop's files say already what it is from now on."""
    if holder:
        Task.open(lanes.folder(run) / TASK).inbox.put("stop", to=holder.runner)
        click.echo(f"Asked the runner ({holder}) to stop after this session.", err=True)


def clear_away(lanes: Lanes, run: names.Run, holder: Holder | None, *, for_good: bool = False) -> None:
    """Before a loop is archived or removed, its worktree goes. The branch stays.

    With a loop that is removed for good, the copy of its journal goes too, so that another may have its name.
    """
    if holder:
        raise Refused(f"A runner works on {run.name} ({holder}).", f"Stop it first: pi-marathon loop stop {run.name}")
    folder = worktree_folder(lanes, run)
    if (folder / ".git").exists():
        LaneTree(folder, branch_of(run)).remove()
    if for_good and (known := task_of(lanes, run)):
        known.task.home.forget()


def worktree_folder(lanes: Lanes, run: names.Run) -> Path:
    return lanes.root / "worktrees" / run.lane / run.tag


def branch_of(run: names.Run) -> str:
    return f"multiloop/{run.lane}/{run.tag}"


def waits_at_gate(known: Known, name: str) -> Refused:
    """Why a loop cannot be resumed: a human is asked something, and the answer decides."""
    gate = known.life.gate
    assert gate
    shown = os.path.relpath(known.task.folder)
    return Refused(
        f"{name} waits for your answer: {one_line(gate.message, 300)}",
        f"Answer it: pi-marathon loop run {name} at a terminal, or see the commands: pi-marathon status {shown}",
    )


def _check(state: LaneState) -> None:
    """What the runner cannot measure is refused before anything is changed."""
    another = f'Start another run: pi-marathon loop start "GOAL" --lane {state.lane}'
    if state.measured_by == "agent":
        raise Refused(f"{state.name} is measured by the agent.", f"Its verbs: {show.next_command(state)}")
    if not state.verify_command:
        raise Refused(
            f"{state.name} has no verify command, so the runner cannot measure it.", f"{another} --verify CMD"
        )
    if state.prompt_verifier:
        raise Refused(f"The runner cannot judge the prompt verifier of {state.name}.", f"{another} --guard CMD")


def _ready(lanes: Lanes, lane: Lane, known: Known | None, bounds: dict[str, float | None]) -> LaneState:
    """The loop as the runner takes it over. Where a gate is open, the human's answer decides, so nothing is resumed."""
    now = utc(datetime.now(UTC))
    if lane.unsaved:  # a runner was killed before it could bring the snapshot up to its last row
        lanes.save(lane, lane.state, None, now)
    state = lane.state.with_(measured_by="runner")
    asked = known is not None and known.life.gate is not None
    if asked and state.status == "stopped":
        return state
    changed, row = verbs.resume(state, now, **{name: bounds.get(name) for name in BOUNDS})
    lanes.save(lane, changed, row, now)
    return changed


def _agree(state: LaneState, lanes: Lanes, line: CommandLine) -> None:
    """The commands of a loop run only after a human has agreed to exactly these."""
    digest, commands = _agreement(state, lanes)
    if Trusted(trusted_folder()).has(digest):
        return
    listed = "\n".join(f"  {name}: {one_line(text, 1000)}" for name, text in commands.items() if text)
    if not line.trust:
        if not interactive():
            raise WaitsForHuman(
                f"These commands measure {state.name}, and no one has agreed to them yet:\n{listed}\n"
                f"To agree: {_resume(line, state, '--trust')}"
            )
        click.confirm(f"These commands measure {state.name}:\n{clean(listed)}\nRun them?", abort=True)
    remember_agreement(state, lanes)


def remember_agreement(state: LaneState, lanes: Lanes) -> None:
    """A human has agreed to the commands of the loop as they are, or has just typed them."""
    digest, commands = _agreement(state, lanes)
    Trusted(trusted_folder()).remember(digest, {"project": str(lanes.project), "loop": state.name, **commands})


def _agreement(state: LaneState, lanes: Lanes) -> tuple[str, dict[str, str | None]]:
    """The commands of a loop, and their digest."""
    holdout = lanes.holdout(state)
    commands = {"verify": state.verify_command, "guard": state.guard_command, "holdout": holdout}
    parts = (str(lanes.project.resolve()), *(text or "" for text in commands.values()))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest(), commands


def _make_task(folder: Path, state: LaneState) -> None:
    """The task directory of the loop's sessions. The human may write into its files as into those of any task."""
    make_private_directory(folder)
    if not (folder / "instructions.md").exists():
        title = one_line(state.goal or state.name, 100)
        write_atomic(folder / "instructions.md", f"# {title}\n\n{state.goal}\n".encode())


def _tree(lanes: Lanes, state: LaneState, bench: Bench | None) -> LaneTree:
    if state.in_place:
        if bench is None or bench.state.baseline is None:
            return in_place(lanes.project)
        return in_place(lanes.project, None if bench.cut_off else bench.commit, bench.trees)
    run = names.Run(state.lane, state.run_tag, state.status)
    if bench is None and holds_work(lanes.project, branch_of(run)):
        raise Refused(
            f"The branch {branch_of(run)} holds the work of an earlier loop of this name.",
            f"Start one with another --run, or delete the branch: git branch -D {branch_of(run)}",
        )
    return lane_tree(lanes.project, worktree_folder(lanes, run), branch_of(run))


def _resume(line: CommandLine, state: LaneState, *more: str) -> str:
    """What to type to continue the loop with the same agent."""
    words = ["loop", "run", state.name, *more]
    chosen = {"agent": line.agent if line.agent != DEFAULT else None, "mode": line.mode}
    words += [word for name, value in chosen.items() if value for word in (f"--{name}", value)]
    rest = ["--", *line.agent_args] if line.agent_args else []
    return f"{program()} {shlex.join([*words, *rest])}"
