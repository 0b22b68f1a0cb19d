"""pi-marathon claude-loop: begins and ends the loop in .loop/state.json that Claude Code's Stop hook holds."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from marathon.agents.claude.settings import has_hooks
from marathon.agents.claude.state import Place, criteria_of, is_over, loop_place, max_iterations
from marathon.cli.arguments import message_text
from marathon.core.text import clean, one_line, utc
from marathon.errors import WrongUsage
from marathon.store.files import read_regular
from marathon.store.places import claude_folder

USUAL_ITERATIONS = 20
ITERATIONS = click.option(
    "--max-iterations", type=click.IntRange(min=1), metavar="N", help="How often Claude may continue by itself."
)


@click.group("claude-loop")
def group() -> None:
    """For Claude Code: a goal with criteria, on which Claude works until each of them is met.

    `pi-marathon install --claude` sets up the hook that holds Claude, and the skill /claude-loop.
    """


@group.command("init")
@click.argument("goal")
@click.option("--criterion", "criteria", multiple=True, required=True, help="What has to be true; give one or more.")
@ITERATIONS
def init(goal: str, criteria: tuple[str, ...], max_iterations: int | None) -> None:
    """Begin a loop in this folder: write .loop/state.json. GOAL - reads standard input."""
    place = loop_place(Path.cwd())
    before = place.state()
    if before is not None and not is_over(before):
        raise WrongUsage("A loop is in progress here. See: pi-marathon claude-loop status   End it: claude-loop stop")
    names = [clean(" ".join(each.split())) for each in criteria]
    if not all(names):
        raise WrongUsage("A criterion is empty. Say in a sentence what has to be true.")
    state = {
        "spec": message_text(goal),
        "criteria": list(dict.fromkeys(names)),
        "criteriaStatus": dict.fromkeys(names, False),
        "steps": [],
        "completedSteps": [],
        "remainingSteps": [],
        "iteration": 0,
        "status": "in_progress",
        "metadata": {"maxIterations": max_iterations or USUAL_ITERATIONS, "startedAt": utc(datetime.now(UTC))},
    }
    place.write(state)
    count = len(dict.fromkeys(names))
    click.echo(f"Made .loop/state.json with {count} {'criterion' if count == 1 else 'criteria'}.")
    if not _hooks_installed():
        click.echo("The hook that holds Claude is not installed yet: pi-marathon install --claude")
    click.echo('Now start Claude Code in this folder: claude "/claude-loop"')


@group.command("status")
def status() -> None:
    """Show the goal, each criterion, and how much is left."""
    state = _state(loop_place(Path.cwd()))
    most, verdicts = max_iterations(state), criteria_of(state)
    of = f" of {most}" if most else ""
    click.echo(f"Goal:      {one_line(str(state.get('spec', '')), 300)}")
    click.echo(f"State:     {one_line(str(state.get('status', '')), 40)}, iteration {_iteration(state)}{of}")
    for name, met in verdicts.items():
        click.echo(f"  {'○ Claude says it is met:' if met is True else '· not met:'} {one_line(name, 200)}")


@group.command("resume")
@ITERATIONS
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    metavar="AMOUNT",
    help="What it may cost, with what it has.",
)
def resume(max_iterations: int | None, budget: float | None) -> None:
    """Continue a loop that was paused; with --max-iterations or --budget, allow more."""
    place = loop_place(Path.cwd())
    state = _state(place)
    metadata = state.get("metadata")
    kept = metadata if isinstance(metadata, dict) else {}
    allowed = {"maxIterations": max_iterations} if max_iterations else {}
    cost = {"budget": budget} if budget else {}
    state |= {name: value for name, value in cost.items() if name in state}  # the largest that is recorded counts
    place.write({**state, "status": "in_progress", "metadata": {**kept, **allowed, **cost}})
    click.echo('The loop is in progress again. Start Claude Code in this folder: claude "/claude-loop"')


@group.command("stop")
def stop() -> None:
    """End the loop. Its file stays."""
    place = loop_place(Path.cwd())
    place.write({**_state(place), "status": "cancelled"})
    click.echo("The loop is over; Claude is not held any more. To continue it: pi-marathon claude-loop resume")


def _state(place: Place) -> dict[str, Any]:
    state = place.state()
    if state is None:
        how = 'pi-marathon claude-loop init "GOAL" --criterion "WHAT HAS TO BE TRUE"'
        raise WrongUsage(f"There is no loop in this folder that can be read. Begin one: {how}")
    return state


def _iteration(state: dict[str, Any]) -> int:
    found = state.get("iteration")
    return found if type(found) is int else 0


def _hooks_installed() -> bool:
    for folder in (claude_folder(), Path.cwd() / ".claude"):
        try:
            text = (read_regular(folder / "settings.json", 1024 * 1024) or b"").decode("utf-8", "replace")
        except OSError:
            continue
        if has_hooks(text):
            return True
    return False
