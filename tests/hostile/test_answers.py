"""Only a person answers a gate: not an agent of another task, not a helper that got away, not a program."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable

from marathon.process import tree
from tests.process.driver import until
from tests.support.world import ROOT, World, plan, research


def cleaned(world: World, *command: str, terminal: bool = False) -> str:
    """A shell line that runs a command of ours as an agent would that hides where it comes from."""
    kept = {"HOME": world.home, "PYTHONPATH": ROOT, "PI_MARATHON_STATES": world.states, "PATH": "/usr/bin:/bin"}
    line = [sys.executable, "-P", "-m", "marathon", *command]
    cleaned = shlex.join(["env", "-i", *(f"{name}={value}" for name, value in kept.items()), *line])
    return f"script -qec {shlex.quote(cleaned)} /dev/null" if terminal else cleaned


def at_a_gate(world: World) -> None:
    """Another task waits for its review."""
    world.script(research())
    other = world.project / "other"
    other.mkdir()
    (other / "instructions.md").write_text("# Something else\n")
    args = world.task_args()
    args[args.index("task")] = "other"
    assert world.cli(*args).returncode == 3


def answers(world: World, task: str) -> int:
    return (world.project / task / ".marathon" / "journal.jsonl").read_text().count('"gate_answered"')


def inbox(world: World, task: str) -> list[str]:
    folder = world.project / task / ".marathon" / "inbox"
    return [path.name for path in folder.glob("*.json")] if folder.exists() else []


def test_an_agent_cannot_approve_the_gate_of_another_task(world: World) -> None:
    at_a_gate(world)
    said = world.agent / "said"
    tries = [
        cleaned(world, "approve", "other"),
        cleaned(world, "approve", "other", "--code", "aaaaaa"),
        f"setsid {cleaned(world, 'approve', 'other')}",
        f"yes aaaaaa | head -1 | {cleaned(world, 'approve', 'other', terminal=True)}",
    ]
    world.script(research(), research(run=f"cd {world.project}; ({'; '.join(tries)}) > {said} 2>&1"))
    assert world.run().returncode == 3
    assert said.read_text().count("is for the human") == 4
    assert (inbox(world, "other"), answers(world, "other")) == ([], 0)


def test_a_helper_that_outlived_its_session_cannot_approve_the_next_gate(
    world: World, in_background: Callable[..., subprocess.Popen[str]]
) -> None:
    said, pid = world.agent / "said", world.agent / "pid"
    approve = f"cd {world.project}; until [ -e go ]; do sleep 0.05; done; {cleaned(world, 'approve', 'task')}"
    hidden = f"env -i PATH=/usr/bin:/bin setsid sh -c {shlex.quote(f'echo $$ > {pid}; {approve} > {said} 2>&1')} &"
    world.script(research(run=hidden, hold=True), research())
    runner = in_background()
    until(lambda: world.holding(1) and pid.exists() and pid.read_text().strip() != "", "the helper is there")
    guardians = [each for each in tree.descendants(runner.pid) if each.ppid() == runner.pid]
    for guardian in guardians:
        guardian.kill()
    runner.kill()
    runner.wait()
    assert world.run().returncode == 3
    (world.project / "go").touch()
    until(lambda: said.exists() and said.read_text() != "", "the helper tries")
    assert "'approve' needs the gate's code: --code CODE." in said.read_text()
    assert world.run().returncode == 3
    assert not world.records("gate_answered")


def test_a_verdict_in_the_inbox_needs_the_code_which_the_journal_does_not_tell(world: World) -> None:
    world.script(research(), plan())
    world.run()
    token = world.records("gate_opened")[-1]["token"]
    folder = world.task / ".marathon" / "inbox"
    folder.mkdir(exist_ok=True)
    for number, code in enumerate(("", "aaaaaa", None)):
        verdict = {"kind": "verdict", "to": token, "choice": "continue", "text": "passed", "code": code}
        (folder / f"{number}.json").write_text(json.dumps({name: v for name, v in verdict.items() if v is not None}))
    ran = world.run()
    assert ran.returncode == 3
    assert "did not have this gate's code. Nothing was changed. It said: passed" in ran.stdout
    assert (world.sessions(), world.records("gate_answered")) == (1, [])
    assert world.code() not in (world.task / ".marathon" / "journal.jsonl").read_text()


def test_with_answers_here_no_other_shell_can_answer(world: World) -> None:
    world.script(research(), plan())
    ran = world.run("--answers-here")
    assert ran.returncode == 3
    refused = world.cli("approve", "task")
    assert refused.returncode == 2
    assert "takes answers only at its own terminal" in refused.stderr


def test_the_printed_gate_tells_a_script_what_to_type(world: World) -> None:
    world.script(research(), plan())
    ran = world.run()
    (code,) = re.findall(r"pi-marathon approve task --code (\w+)\n", ran.stdout)
    assert "code" not in json.loads(world.cli("status", "task", "--json").stdout)["gate"]
    assert world.cli("approve", "task", "--code", code.upper()).returncode == 0
    assert world.run().returncode == 3
    assert world.sessions() == 2
