"""What is private stays so: prompts are not in `ps`, secrets in no file of ours, and nobody else reads our records."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.process.driver import Pty, until
from tests.support.world import AGENT, World, as_human, finish, plan, research

Start = Callable[..., subprocess.Popen[str]]
SECRET = "sk-planted-0123456789abcdef"
PRIVATE_WORDS = "the words nobody may see in ps"
TYPED_WORDS = "what a human types"  # others look at all of ps while these are there for a moment


def command_lines() -> list[bytes]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found.append(Path(f"/proc/{name}/cmdline").read_bytes())
            except OSError:
                continue
    return found


def test_a_prompt_of_a_megabyte_arrives_whole_and_is_not_in_ps(world: World, in_background: Start) -> None:
    text = "".join(f"{number} {PRIVATE_WORDS}\n" for number in range(30_000))
    assert len(text) > 1_000_000
    (world.task / "human.md").write_text(text)
    world.script(research(hold=True), plan())
    runner = in_background()
    until(lambda: world.holding(1), "the session")
    prompt = world.prompt(1)
    assert prompt.count(PRIVATE_WORDS) == 30_000
    assert f"> 29999 {PRIVATE_WORDS}" in prompt
    assert "How to end" in prompt
    assert not [line for line in command_lines() if PRIVATE_WORDS.encode() in line]
    environ = (world.agent / "env-1").read_text()
    assert PRIVATE_WORDS not in environ
    world.release(1)
    assert runner.wait(30) == 3


@pytest.mark.parametrize(
    "said",
    [("-h", TYPED_WORDS), (f"-h{TYPED_WORDS}",), ("--human", TYPED_WORDS), (f"--human={TYPED_WORDS}",)],
)
def test_what_a_human_says_to_a_new_run_is_not_in_ps(world: World, in_background: Start, said: tuple[str, ...]) -> None:
    world.script(research(), plan(hold=True))
    assert world.run().returncode == 3
    runner = in_background(*said, "--yes")
    until(lambda: world.holding(2), "the session")
    assert TYPED_WORDS in world.prompt(2)
    lines = command_lines()
    assert TYPED_WORDS.encode() not in b"".join(lines)
    own = Path(f"/proc/{runner.pid}/cmdline").read_bytes()  # still the process that the shell started
    assert b"--task\0task\0" in own
    assert "…".encode() in own
    assert "MARATHON_ARGUMENTS" not in (world.agent / "env-2").read_text()


def test_a_goal_that_runs_at_once_is_not_in_ps(world: World) -> None:
    world.script(research(hold=True))
    agent = ("--agent", "command", "--", sys.executable, "-IS", str(AGENT), str(world.agent))
    runner = subprocess.Popen(world.argv("new", TYPED_WORDS, "--run", *agent), cwd=world.project, env=world.env())
    try:
        until(lambda: world.holding(1), "the session")
        assert TYPED_WORDS.encode() not in b"".join(command_lines())
        world.release(1)
        assert runner.wait(60) == 3
    finally:
        runner.kill()


def test_feedback_from_standard_input_is_never_on_a_command_line(world: World) -> None:
    world.script(research(), research(run="ps -eo args > ../agent/ps || cat /proc/[0-9]*/cmdline > ../agent/ps"))
    assert world.run().returncode == 3
    done = subprocess.run(
        world.argv(*world.task_args("-h", "-")),
        cwd=world.project,
        env=world.env(),
        input=PRIVATE_WORDS + "\n" + "x" * 500_000,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert PRIVATE_WORDS in world.prompt(2)
    assert "x" * 500_000 in world.prompt(2)
    assert PRIVATE_WORDS.encode() not in (world.agent / "ps").read_bytes()


def test_a_secret_in_the_environment_is_in_no_file_of_ours(world: World, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env: dict[str, Any] = {"ANTHROPIC_API_KEY": SECRET, "MY_TOKEN": SECRET, "TMPDIR": str(scratch)}
    fail = {"exit": 1, "say": ["no"]}
    ask = {"append": {"work.md": "x"}, "state": {"state": "running", "phase": "research"}, "ask": "Which?"}
    world.script(fail, ask, research(), plan(), finish(), research(), plan(), finish())
    assert world.run("--retry-wait", "0s", **env).returncode == 3
    assert world.cli("answer", "task", "that one", **env).returncode == 0
    assert world.run("--auto-approve", **env).returncode == 0
    assert world.run("--auto-approve", "-h", "again", **env).returncode == 0
    shown = world.cli("status", "task", "--json", **env).stdout + world.cli("doctor", **env).stdout
    assert SECRET not in shown
    assert SECRET in (world.agent / "env-1").read_text()  # the agent itself has it, of course
    written = [path for folder in (world.project, world.states, world.home, scratch) for path in folder.rglob("*")]
    files = [path for path in written if path.is_file()]
    assert len(files) > 20
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


def modes(folder: Path) -> dict[str, int]:
    found = {str(folder): stat.S_IMODE(folder.stat().st_mode)}
    return found | {str(path): stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*")}


def assert_private(folder: Path) -> None:
    for path, mode in modes(folder).items():
        assert mode == (0o700 if os.path.isdir(path) else 0o600), f"{path} {mode:o}"


def in_umask(mask: int, world: World, *args: str) -> int:
    return subprocess.run(
        world.argv(*as_human(args, world.project, world.home)),
        cwd=world.project,
        env=world.env(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        umask=mask,
    ).returncode


def test_with_umask_0_our_own_files_are_for_this_user_only(world: World) -> None:
    ask = {"append": {"work.md": "x"}, "state": {"state": "running", "phase": "research"}, "ask": "Which?"}
    look = "stat -c '%a %n' ../states ../states/* > ../agent/modes"
    world.script(ask, research(run=look), plan(), finish())
    assert in_umask(0, world, *world.task_args()) == 3
    assert in_umask(0, world, "answer", "task", "that one") == 0
    assert_private(world.task / ".marathon")
    assert in_umask(0, world, "tell", "task", "a word") == 0
    assert_private(world.task / ".marathon")
    assert in_umask(0, world, *world.task_args()) == 3
    assert in_umask(0, world, "approve", "task", "-m", "a note") == 0
    assert in_umask(0, world, *world.task_args("--auto-approve")) == 0
    assert_private(world.task / ".marathon")
    assert_private(world.states)
    assert {line.split()[0] for line in (world.agent / "modes").read_text().splitlines()} == {"700", "600"}
    for name in ("STATE.json", "human.md"):
        assert not modes(world.task)[str(world.task / name)] & 0o022, name


@pytest.mark.parametrize("mask", [0o777, 0o277, 0o177])
def test_a_umask_that_shuts_out_its_own_user_shuts_us_out_of_nothing(world: World, mask: int) -> None:
    world.script(research(), plan())
    assert in_umask(mask, world, *world.task_args()) == 3
    assert_private(world.task / ".marathon")
    assert_private(world.home / ".local/state/pi-marathon")
    assert in_umask(mask, world, "approve", "task", "-m", "a note") == 0
    assert in_umask(mask, world, *world.task_args()) == 3
    found = modes(world.task)
    assert [name for name, mode in found.items() if mode & 0o600 != 0o600] == []


def test_the_folder_of_our_state_is_private_whoever_makes_it(world: World, on_terminal: Callable[..., Pty]) -> None:
    terminal = world.typed("review")
    terminal.expect(b"Ctrl+C: stop")
    terminal.send(b"\x03")
    terminal.wait()
    assert_private(world.home / ".local/state/pi-marathon")


def test_a_draft_is_for_this_user_only(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research())
    terminal = on_terminal()
    terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"f")
    terminal.expect(b"Alt+Enter")
    terminal.send(b"half a thought")
    terminal.expect(b"thought")
    terminal.send(b"\x03")
    terminal.expect(b"Nothing was recorded")
    assert_private(world.task / ".marathon")


def test_a_file_that_was_private_is_private_after_a_rewrite(world: World) -> None:
    world.leave_state("running", "research", 1)
    (world.task / "STATE.json").chmod(0o600)
    (world.task / "human.md").write_text("mine\n")
    (world.task / "human.md").chmod(0o600)
    world.script({"append": {"work.md": "x"}, "exit": 0})
    assert in_umask(0, world, *world.task_args("--max-iterations", "1")) == 4
    assert in_umask(0, world, *world.task_args("--max-iterations", "1", "-h", "more")) == 4
    assert modes(world.task)[str(world.task / "STATE.json")] == 0o600
    assert modes(world.task)[str(world.task / "human.md")] == 0o600
