"""`pi-marathon mcp`: our tools for every client of the Model Context Protocol, on standard input and output.

Each tool is a command of ours, run without a terminal. None of them answers a gate.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Literal

import click

from marathon import __version__
from marathon.agents.our_tools import NEEDED
from marathon.core.text import clean
from marathon.errors import WrongUsage

_PATIENCE = 300  # seconds


@click.command("mcp")
def mcp() -> None:
    """Serve our tools to an agent: marathon_wait, human_feedback, marathon_status and multiloop_*."""
    try:
        from mcp.server import MCPServer
    except ImportError as error:
        raise WrongUsage(NEEDED) from error
    server = MCPServer("marathon", version=__version__, log_level="ERROR")
    for tool in TOOLS:
        server.add_tool(tool, structured_output=False)
    server.run("stdio")


def marathon_wait(minutes: float, reason: str) -> str:
    """Ask the runner to wait 1 to 60 minutes before the next session. Then leave STATE.json as 'running' and stop."""
    return _run("wait", "--", minutes, reason)


def human_feedback(question: str) -> str:
    """Ask the human. Then leave STATE.json as 'running' and stop. The answer comes with the next session."""
    return _run("ask", "--", question)


def marathon_status(task: str = "") -> str:
    """Where a task (the latest one) stands and what it waits for."""
    return _run("status", "--json", "--", *filter(None, [task]))


def multiloop_start(
    lane: str,
    goal: str,
    mode: Literal["optimize", "punchlist", "research", "dev"] = "optimize",
    verify: str = "",
    guard: str = "",
    prompt_verifier: str = "",
    metric: str = "",
    direction: Literal["lower", "higher"] = "lower",
    acceptance: Literal["", "keep-revert", "log"] = "",
    scope: str = "",
) -> str:
    """Start a measured loop: change one thing, then multiloop_try measures it and keeps what improves the number."""
    options = _options(verify=verify, guard=guard, metric=metric, acceptance=acceptance, scope=scope)
    more = _options(lane=lane, kind=mode, direction=direction, prompt_verifier=prompt_verifier)
    return _run("loop", "start", *options, *more, *(["--in-place"] if verify else []), "--json", "--", goal)


def multiloop_try(lane: str, hypothesis: str = "") -> str:
    """Measure what you changed in the tree. It is kept as a commit, or taken back. The first call measures the tree
    before any change, too. A human has to have agreed to the loop's commands."""
    return _run("loop", "try", *_options(hypothesis=hypothesis), "--json", "--", lane, patience=None)


def multiloop_iterate(lane: str, hypothesis: str = "", changes: str = "") -> str:
    """Start the next iteration of a loop. It tells what to beat, what was tried, and what to run."""
    return _run("loop", "iterate", *_options(hypothesis=hypothesis, changes=changes), "--", lane)


def multiloop_measure(lane: str, measurements: list[float], checks: list[dict[str, Any]] | None = None) -> str:
    """Record what verify printed, with a check {name, passed, command or prompt, evidence} for guard and verifier."""
    given = [f"--check={json.dumps(check)}" for check in checks or []]
    return _run("loop", "measure", *_values(measurements), *given, "--", lane)


def multiloop_decide(
    lane: str,
    action: Literal["keep", "revert", "log", "skip"],
    measurements: list[float],
    hypothesis: str = "",
    changes: str = "",
) -> str:
    """Finish the measured iteration with the action that is due and the same numbers."""
    options = _options(hypothesis=hypothesis, changes=changes)
    return _run("loop", "decide", *_values(measurements), *options, "--", lane, action)


def multiloop_log(lane: str, action: Literal["log", "skip", "crash", "blocked"] = "log", note: str = "") -> str:
    """Finish an iteration without a decision: logged, skipped, crashed or blocked."""
    return _run("loop", "log", *_options(note=note), "--", lane, action)


def multiloop_status(target: str = "") -> str:
    """Where the loops of this project stand, or one of them with its numbers and lessons."""
    return _run("loop", "status", "--", *filter(None, [target]))


def multiloop_resume(target: str) -> str:
    """Let a loop that was paused, stopped or completed run again."""
    return _run("loop", "resume", "--", target)


def multiloop_pause(target: str) -> str:
    """Pause a loop."""
    return _run("loop", "pause", "--", target)


def multiloop_stop(target: str) -> str:
    """Stop a loop."""
    return _run("loop", "stop", "--", target)


def multiloop_archive(target: str) -> str:
    """Move a loop to the archive. It cannot be resumed."""
    return _run("loop", "archive", "--", target)


TOOLS = (
    *(marathon_wait, human_feedback, marathon_status),
    *(
        multiloop_start,
        multiloop_try,
        multiloop_iterate,
        multiloop_measure,
        multiloop_decide,
        multiloop_log,
        multiloop_status,
    ),
    *(multiloop_resume, multiloop_pause, multiloop_stop, multiloop_archive),
)


def _options(**given: str) -> list[str]:
    """Written with `=`, so that a value may begin with a dash."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in given.items() if value]


def _values(measurements: list[float]) -> list[str]:
    return [f"--value={value!r}" for value in measurements]


def _run(*words: object, patience: float | None = _PATIENCE) -> str:
    """What a command of ours says. What it refuses is an error with the way on."""
    done = subprocess.run(
        (sys.executable, "-P", "-m", "marathon", *map(str, words)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=patience,
        check=False,
    )
    if done.returncode:
        from mcp.server.mcpserver.exceptions import ToolError

        raise ToolError(clean(done.stderr.strip()))
    return clean(done.stdout.strip())
