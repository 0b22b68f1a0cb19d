"""The network or the provider is away, or its limit resets later, as a human meets it: waited out, shown with the time
of the next try.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.process.driver import Pty, until
from tests.support.world import AGENT, Entry, World, research

AWAY: Entry = {"say": ["connect ECONNREFUSED 127.0.0.1:443"], "exit": 1}
LIMITED: Entry = {"say": ["429: rate limit reached, try again in 150ms"], "exit": 1}
MORE: Entry = {"append": {"notes.md": "{n}\n"}, "state": {"state": "running", "phase": "research"}}
QUICK = ("--retry-wait", "0.1s", "--retries", "1")
CLOCK = r"\d\d:\d\d:\d\d"


@pytest.mark.parametrize(
    ("ended", "kind", "first", "said"),
    [
        (AWAY, "outage", 0.1, r"the provider cannot be reached \(exit code 1: connect ECONNREFUSED"),
        (LIMITED, "retry", 0.15, r"the provider refused \(exit code 1: 429: rate limit reached"),
    ],
)
def test_more_of_them_than_retries_end_well_and_use_up_no_session(
    world: World, ended: Entry, kind: str, first: float, said: str
) -> None:
    world.script(MORE, *[ended] * 4, research())
    ran = world.run(*QUICK, "--max-iterations", "2")
    assert ran.returncode == 3, ran.stdout
    assert [record["reason"] for record in world.records("gate_opened")] == ["review"]
    assert [(record["kind"], record["seconds"]) for record in world.records("wait_started")] == [
        (kind, first),
        (kind, 0.2),
        (kind, 0.4),
        (kind, 0.8),
    ]
    assert len(re.findall(rf"trying again at {CLOCK}: {said}", ran.stdout)) == 4


@pytest.mark.parametrize(
    ("args", "reason", "said", "sessions"),
    [
        (("--outage", "2s"), "failed", "could not be reached for 2s (--outage)", None),
        (("--outage", "0"), "failed", "failed 2 times in a row", 3),
    ],
)
def test_it_lasts_as_long_as_allowed(
    world: World, args: tuple[str, ...], reason: str, said: str, sessions: int | None
) -> None:
    world.script(MORE, AWAY)
    assert world.run(*QUICK, *args).returncode == 1
    (opened,) = world.records("gate_opened")
    assert opened["reason"] == reason
    assert said in opened["message"]
    assert sessions is None or world.sessions() == sessions


def test_a_wrong_network_shows_at_once(world: World) -> None:
    world.script(AWAY)
    ran = world.run("--retry-wait", "0.1s")
    assert (ran.returncode, world.sessions()) == (1, 3)
    assert "could not be reached 3 times in a row" in ran.stdout


@pytest.mark.parametrize("where", ["environment", "file"])
def test_the_time_is_a_setting_like_the_others(world: World, where: str) -> None:
    world.script(MORE, AWAY)
    (world.project / ".marathon").mkdir()
    (world.project / ".marathon/config.toml").write_text('outage = "0"\n' if where == "file" else "")
    ran = world.run(*QUICK, PI_MARATHON_OUTAGE="0") if where == "environment" else world.run(*QUICK)
    assert ran.returncode == 1
    assert world.sessions() == 3
    assert not any(record["outage"] for record in world.records("session_ended"))


def test_the_time_of_the_next_try_is_shown_and_a_restart_keeps_it(
    world: World, on_terminal: Callable[..., Pty], in_background: Callable[..., subprocess.Popen[str]]
) -> None:
    world.script(MORE, AWAY, research())
    runner = in_background("--retry-wait", "90s")
    until(lambda: world.sessions() > 1 and world.records("wait_started"), "it waits")
    told = world.cli("status", "task").stdout
    at = re.search(rf"cannot be reached .*trying again at ({CLOCK}), 1m", told)
    assert at, told
    runner.terminate()
    runner.communicate(timeout=20)
    assert runner.returncode == 143
    terminal = on_terminal("--retry-wait", "90s")
    shown = terminal.expect(b"go on now").decode()
    there = re.search(rf"trying again at ({CLOCK})", shown)
    assert there, shown
    assert abs(_seconds(there[1]) - _seconds(at[1])) <= 1, "the same deadline"
    terminal.send(b"\r")
    terminal.expect(b"[q]      Quit marathon")


def test_another_agent_takes_over(world: World) -> None:
    """It is the first one that has been away for ten minutes, as the journal says."""
    world.script(MORE, AWAY)
    assert world.run("--retry-wait", "0.1s", "--outage", "1s").returncode == 1
    records = [record for record in world.journal() if record["type"] not in ("gate_opened",)]
    for record in records:
        if record["type"] == "wait_started":
            record["seconds"] = 400.0
    world.rewrite_journal([{**record, "n": n} for n, record in enumerate(records, start=1)])
    script = (sys.executable, "-IS", str(AGENT), str(world.agent))
    ran = world.cli("--task", "task", "--agent", "command,rehearsal", "--max-iterations", "2", "--", *script)
    assert "rehearsal takes over." in ran.stdout, ran.stdout + ran.stderr
    assert [record["agent"] for record in world.records("session_started")][-1] == "rehearsal"


def _seconds(clock: str) -> int:
    hours, minutes, seconds = map(int, clock.split(":"))
    return (hours * 60 + minutes) * 60 + seconds
