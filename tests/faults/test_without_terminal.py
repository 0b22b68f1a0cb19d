"""Pipes, CI, closed descriptors and dumb terminals: nothing hangs, nothing escapes, nothing is traced back."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.driver import Pty
from tests.support.world import World, finish, plan, research

OnTerminal = Callable[..., Pty]
ESCAPE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
COLOUR = re.compile(rb"\x1b\[[0-9;:]*m")


def shell(world: World, line: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """A line of shell in which "$@" is the command that runs the marathon of this world."""
    argv = ["sh", "-c", line, "sh", *world.argv(*world.task_args("--auto-approve"))]
    return subprocess.run(
        argv,
        cwd=world.project,
        env=world.env(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )


def assert_quiet_about_itself(*outputs: bytes) -> None:
    for output in outputs:
        assert b"Traceback" not in output
        assert b"Exception ignored" not in output
        assert b"something went wrong" not in output
        assert not ESCAPE.search(output.decode(errors="ignore"))


def test_without_a_terminal_the_gate_is_printed_with_the_commands_that_answer_it(world: World) -> None:
    world.script(research(), plan())
    done = world.run(CI="true")
    assert done.returncode == 3
    assert "Phase: research | Iteration: 1" in done.stdout
    assert re.search(r'pi-marathon approve task -m "note" --code \w{6}\n', done.stdout)
    assert "pi-marathon --task task" in done.stdout
    assert_quiet_about_itself(done.stdout.encode(), done.stderr.encode())


def test_a_line_on_standard_input_is_no_answer(world: World) -> None:
    world.script(research(), plan())
    done = subprocess.run(
        world.argv(*world.task_args()),
        cwd=world.project,
        env=world.env(),
        input="\n\ny\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert world.sessions() == 1
    assert not world.records("gate_answered")


@pytest.mark.parametrize(
    "line",
    ['"$@" <&-', '"$@" >&-', '"$@" 2>&-', '"$@" <&- >&-', '"$@" >&- 2>&-', '"$@" <&- >&- 2>&-', '"$@" >/dev/full'],
)
def test_closed_descriptors_do_not_keep_a_marathon_from_its_end(world: World, line: str) -> None:
    world.script(research(say=["hello"]), plan(say=["hello"]), finish())
    done = shell(world, line)
    assert_quiet_about_itself(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr
    assert world.state()["state"] == "completed"
    assert (world.agent / "prompt-1").stat().st_size > 100


def test_a_reader_that_goes_away_does_not_take_the_marathon_with_it(world: World) -> None:
    world.script(*([research(state="running", say=["x" * 4000] * 40)] * 3), research(), plan(), finish())
    done = shell(world, '{ "$@"; echo $? > ../agent/code; } | head -n 1')
    assert (world.agent / "code").read_text() == "0\n"
    assert_quiet_about_itself(done.stdout, done.stderr)
    assert world.state()["state"] == "completed"


@pytest.mark.parametrize("command", ["status task", "status task --json", "list", "--help"])
@pytest.mark.parametrize("sink", [" | head -c 1", " | true", " <&- >&- 2>&-"])
def test_looking_commands_take_a_closed_pipe_in_their_stride(asked: World, command: str, sink: str) -> None:
    # Through a shell that tells the code of the command, not of its reader.
    line = f'{{ "$@" {command}; echo $? > ../agent/code; }}{sink}'
    if "|" not in sink:
        line = f'"$@" {command}{sink}; echo $? > ../agent/code'
    argv = ["sh", "-c", line, "sh", *asked.argv()]
    done = subprocess.run(argv, cwd=asked.project, env=asked.env(), capture_output=True, check=False, timeout=60)
    assert_quiet_about_itself(done.stdout, done.stderr)
    assert (asked.agent / "code").read_text() == "0\n"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world whose task waits at a gate; commands that only look may share it."""
    folder: Path = tmp_path_factory.mktemp("asked")
    world = World(folder / "world")
    world.script(research())
    assert world.run().returncode == 3
    return world


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"TERM": ""}])
def test_a_dumb_terminal_gets_plain_lines(world: World, on_terminal: OnTerminal, env: dict[str, str]) -> None:
    world.script(research(say=["working"]), plan(), finish())
    terminal = on_terminal(**env)
    shown = terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"\r")
    shown += terminal.expect(b"Phase: plan")
    shown += terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"q")
    shown += terminal.expect(b"The gate stays open")
    assert terminal.wait() == 3
    shown += terminal.seen
    assert b"\x1b" not in shown
    assert b"working" in shown
    assert terminal.cooked()


def test_no_color_means_no_colour(world: World, on_terminal: OnTerminal) -> None:
    body = "# Findings\n\n**bold** and `code`\n\n```python\nx = 1\n```\n"
    entry = research()
    entry["write"]["research.md"] = body
    world.script(entry)
    terminal = on_terminal(NO_COLOR="1", PAGER="cat")
    shown = terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"v")
    shown += terminal.expect(b"x = 1")
    shown += terminal.expect(b"? shows the options")
    terminal.send(b"d")
    shown += terminal.expect(b"? shows the options")
    terminal.send(b"?")
    shown += terminal.expect(b"[q]      Quit marathon")
    terminal.send(b"q")
    assert terminal.wait() == 3
    coloured = [code for code in COLOUR.findall(shown) if re.search(rb"[\[;](3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]", code)]
    assert not coloured


def test_nothing_is_asked_when_only_one_of_input_and_output_is_a_terminal(world: World) -> None:
    world.script(research())
    argv = ["sh", "-c", 'cd "$1" && shift && "$@" > ../agent/out; echo "<code $?>"', "sh", str(world.project)]
    terminal = Pty([*argv, *world.argv(*world.task_args())], world.env())
    try:
        terminal.expect(b"<code 3>")
    finally:
        terminal.close()
    assert "pi-marathon approve task" in (world.agent / "out").read_text()
    assert "\x1b" not in (world.agent / "out").read_text()
    assert os.path.getsize(world.agent / "out") > 100
