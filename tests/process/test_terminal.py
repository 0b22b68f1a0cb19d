"""The terminal in an agent's hands, and back in ours, whatever happens to either."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from marathon.process.terminal import RESET
from tests.process.driver import PATIENCE, ROOT, Log, Pty, alive, environment, harness, on_pty, shell, until

TUI = (sys.executable, str(ROOT / "tests" / "process" / "tui.py"))
COOKED = ("sh", "-c", "trap 'echo caught' INT; echo '<on>'; while :; do read line && echo \"<$line>\"; done")
LIKE_A_SHELL = (
    sys.executable,
    "-c",
    "import os, signal\n"
    "signal.signal(signal.SIGTTOU, signal.SIG_IGN)\n"
    "signal.signal(signal.SIGTERM, lambda *_: (print('<bye>', flush=True), os._exit(0)))\n"
    "os.setpgid(0, 0); os.tcsetpgrp(0, os.getpid()); print('<o' + 'n>', flush=True)\n"
    "while True: print(f'<{input()}>', flush=True)",
)
DEAF = ("sh", "-c", "trap '' INT TERM; echo '<on>'; while :; do sleep 0.1; done")


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log")


def start_tui(terminal: Pty) -> int:
    terminal.expect(b"<tui ")
    return int(terminal.expect(b">")[:-1])


def assert_as_before(terminal: Pty, log: Log) -> None:
    terminal.expect(RESET)
    after = log.wait("terminal")
    assert after["cooked"]
    assert after["foreground"]
    assert terminal.wait() == 0


def to_shell(terminal: Pty) -> None:
    terminal.expect(b"Stopped")
    terminal.expect(b"$ ")


def type_in(terminal: Pty, argv: list[str]) -> None:
    terminal.send(shlex.join(argv).encode() + b"\n")


def test_the_agent_has_the_terminal_and_gives_it_back(log: Log) -> None:
    with on_pty(harness(log.path, *TUI, terminal=True)) as terminal:
        agent = start_tui(terminal)
        assert terminal.foreground() == os.getpgid(agent) != os.getpgid(terminal.pid)
        terminal.send(b"\x03a")
        terminal.expect(b"<key 03><key 61>")
        terminal.send(b"q")
        terminal.expect(b"<bye>")
        assert_as_before(terminal, log)
    assert log.wait("exit")["code"] == 0
    assert not log.events("interrupt")


def test_a_program_that_cannot_start_leaves_no_trace_on_the_terminal(log: Log) -> None:
    with on_pty(harness(log.path, "no-such-program", terminal=True)) as terminal:
        output = terminal.expect(b"StartFailed: [Errno 2] No such file or directory: 'no-such-program'")
        assert terminal.wait() == 1
        assert b"\x1b" not in output


def test_ctrl_z_before_the_program_has_begun_holds_nobody_up(log: Log) -> None:
    """Each try may be stopped between vfork and exec, and the guardian with it."""
    script = 'PATH=$(yes /nowhere | head -5000 | paste -sd:) exec "$@"'
    argv = ["/bin/sh", "-c", script, "sh", *harness(log.path, "no-such-program", terminal=True)]
    with on_pty(argv) as terminal:
        deadline = time.monotonic() + PATIENCE
        while terminal.poll() is None and time.monotonic() < deadline:
            terminal.send(b"\x1a")
            time.sleep(0.01)
        assert terminal.wait() == 1


def test_an_agent_in_a_group_of_its_own_is_stopped_and_continued_as_any_other(log: Log) -> None:
    with shell() as terminal:
        type_in(terminal, harness(log.path, *LIKE_A_SHELL, terminal=True))
        terminal.expect(b"<on>")
        group = terminal.foreground()
        for word in (b"once", b"again"):
            terminal.send(b"\x1a")
            to_shell(terminal)
            terminal.send(b"fg\n")
            until(lambda: terminal.foreground() == group, "it has the terminal again")
            terminal.send(word + b"\n")
            terminal.expect(b"<" + word + b">")
        terminal.send(b"\x1a")
        to_shell(terminal)
        terminal.send(b"kill %1\n")
        terminal.expect(b"<bye>")
        assert log.wait("exit")["reason"] == "terminated"


def test_two_interrupts_end_an_agent_in_a_group_of_its_own(log: Log) -> None:
    with on_pty(harness(log.path, "bash", "--norc", "-i", terminal=True)) as terminal:
        until(lambda: terminal.foreground() not in (terminal.pid, 0), "it has the terminal")
        terminal.send(b"echo $((40 + 2))\n")
        terminal.expect(b"42")
        group = terminal.foreground()
        until(lambda: os.getpgid(psutil.Process(group).ppid()) == group, "it is followed")
        terminal.send(b"\x03")
        terminal.expect(b"<interrupt>")
        terminal.send(b"\x03")
        assert log.wait("exit")["reason"] == "interrupted"
        assert terminal.wait() == 0


def test_without_a_terminal_nothing_is_started(log: Log) -> None:
    pid = os.fork()
    if pid == 0:
        os.setsid()
        argv = harness(log.path, *TUI, terminal=True)
        os.dup2(os.open(os.devnull, os.O_RDWR), 2)
        os.execve(argv[0], argv, environment())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert not log.events("exit")


def test_killed_in_raw_mode_and_alternate_screen_the_terminal_is_as_before(log: Log) -> None:
    with on_pty(harness(log.path, *TUI, terminal=True)) as terminal:
        start_tui(terminal)
        assert not terminal.cooked()
        terminal.send(b"k")
        assert_as_before(terminal, log)
    assert log.wait("exit")["signal"] == signal.SIGKILL


def test_the_agent_hears_that_the_window_was_resized(log: Log) -> None:
    with on_pty(harness(log.path, *TUI, terminal=True)) as terminal:
        start_tui(terminal)
        terminal.resize(33, 77)
        terminal.expect(b"<33x77>")


def test_one_interrupt_is_told_and_a_headless_agent_goes_on(log: Log) -> None:
    with on_pty(harness(log.path, *COOKED)) as terminal:
        log.wait("output")
        terminal.send(b"\x03")
        terminal.expect(b"<interrupt>")
        assert [event["line"] for event in log.events("output")] == ["<on>"]
        assert not log.events("exit")


def test_one_interrupt_goes_to_the_agent_on_the_terminal_and_it_decides(log: Log) -> None:
    with on_pty(harness(log.path, *COOKED, terminal=True)) as terminal:
        terminal.expect(b"<on>")
        terminal.send(b"\x03")
        log.wait("interrupt")
        terminal.expect(b"caught")
        terminal.send(b"still here\n")
        terminal.expect(b"<still here>")
        assert not log.events("exit")


@pytest.mark.parametrize("lent", [False, True])
def test_two_interrupts_end_even_a_deaf_agent(log: Log, lent: bool) -> None:
    with on_pty(harness(log.path, *DEAF, terminal=lent, grace=20.0)) as terminal:
        _ = terminal.expect(b"<on>") if lent else log.wait("output")
        terminal.send(b"\x03")
        terminal.expect(b"<interrupt>")
        terminal.send(b"\x03")
        ended = log.wait("exit")
        assert terminal.wait() == 0
    assert (ended["reason"], ended["signal"]) == ("interrupted", signal.SIGKILL)
    assert ended["seconds"] < 10
    assert log.wait("terminal")["cooked"]


@pytest.mark.parametrize(("signum", "reason"), [(signal.SIGTERM, "terminated"), (signal.SIGHUP, "hungup")])
def test_a_signal_to_the_runner_reaches_the_agent(log: Log, signum: int, reason: str) -> None:
    with on_pty(harness(log.path, *TUI, terminal=True)) as terminal:
        start_tui(terminal)
        os.kill(terminal.pid, signum)
        terminal.expect(b"<bye>")
        assert_as_before(terminal, log)
    ended = log.wait("exit")
    assert (ended["reason"], ended["code"]) == (reason, 0)


@pytest.mark.parametrize("argv", [TUI, DEAF])
def test_a_closed_window_ends_the_agent(log: Log, argv: tuple[str, ...]) -> None:
    with on_pty(harness(log.path, *argv, terminal=True, grace=1.0)) as terminal:
        terminal.expect(b"<tui " if argv is TUI else b"<on>")
        [agent] = psutil.Process(terminal.foreground()).children()  # it is born into its guardian's group
        terminal.hang_up()
        assert log.wait("exit")["reason"] == "hungup"
        assert not alive(agent.pid)


def test_ctrl_z_returns_to_the_shell_and_fg_to_a_cooked_agent(log: Log) -> None:
    with shell() as terminal:
        type_in(terminal, harness(log.path, *COOKED, terminal=True))
        terminal.expect(b"<on>\r\n")
        agent = terminal.foreground()
        terminal.send(b"\x1a")
        to_shell(terminal)
        terminal.send(b"echo $((6*7))\n")
        terminal.expect(b"42")
        terminal.send(b"fg\n")
        terminal.expect(b"<resume>")
        until(lambda: terminal.foreground() == agent, "the agent has the terminal again")
        terminal.send(b"hello\n")
        terminal.expect(b"<hello>")


def test_a_suspended_full_screen_agent_gets_its_modes_back(log: Log) -> None:
    with shell() as terminal:
        type_in(terminal, harness(log.path, *TUI, terminal=True))
        start_tui(terminal)
        terminal.send(b"z")
        terminal.expect(RESET)
        to_shell(terminal)
        terminal.send(b"fg\n")
        terminal.expect(b"<again>")
        assert not terminal.cooked()
        terminal.send(b"\x03")
        terminal.expect(b"<key 03>")
        terminal.send(b"q")
        terminal.expect(b"<end>")
    assert log.wait("terminal")["cooked"]


def test_ctrl_z_stops_a_headless_agent_and_the_clock(log: Log) -> None:
    beat = log.path.with_name("beat")
    beating = f"setsid sh -c 'while :; do echo . >>{beat}; sleep 0.02; done' &"
    script = f"{beating} until [ -e {beat}.end ]; do sleep 0.02; done"
    with shell() as terminal:
        type_in(terminal, harness(log.path, "sh", "-c", script))
        until(beat.exists, "the grandchild beats")
        terminal.send(b"\x1a")
        to_shell(terminal)
        size = beat.stat().st_size
        terminal.send(b"sleep 1; echo $((6*7))\n")
        terminal.expect(b"42")
        assert beat.stat().st_size == size
        terminal.send(b"fg\n")
        terminal.expect(b"<resume>")
        until(lambda: beat.stat().st_size > size, "the grandchild beats again")
        Path(f"{beat}.end").touch()
        terminal.expect(b"<end>")
    ended = log.wait("exit")
    assert ended["reason"] == "exited"
    assert ended["swept"] >= 1
    assert ended["seconds"] <= ended["at"] - log.wait("runner")["at"] - 1


def test_a_suspended_runner_can_be_ended_from_the_shell(log: Log) -> None:
    with shell() as terminal:
        type_in(terminal, harness(log.path, *TUI, terminal=True, grace=1.0))
        agent = start_tui(terminal)
        terminal.send(b"z")
        to_shell(terminal)
        terminal.send(b"kill %1\n")
        assert log.wait("exit")["reason"] == "terminated"
        assert not alive(agent)
        terminal.send(b"echo $((6*7))\n")
        terminal.expect(b"42")


def test_in_the_background_it_waits_to_be_brought_forward(log: Log) -> None:
    with shell() as terminal:
        type_in(terminal, harness(log.path, *COOKED, terminal=True))
        terminal.expect(b"<on>\r\n")
        terminal.send(b"\x1a")
        to_shell(terminal)
        terminal.send(b"bg\n")
        terminal.expect(b"bg\r\n")
        terminal.send(b"sleep 0.3; jobs\n")
        terminal.expect(b"Stopped")
        terminal.send(b"echo $((6*7))\n")
        terminal.expect(b"42")
        terminal.send(b"fg\n")
        terminal.expect(b"<resume>")
        terminal.send(b"hello\n")
        terminal.expect(b"<hello>")


def test_a_runner_stopped_without_asking_finds_its_agent_again(log: Log) -> None:
    go = log.path.with_name("go")
    script = f"echo '<on>'; until [ -e {go} ]; do sleep 0.02; done; read line; echo \"<$line>\""
    with shell() as terminal:
        type_in(terminal, harness(log.path, "sh", "-c", script, terminal=True))
        terminal.expect(b"<on>\r\n")
        agent = terminal.foreground()
        os.kill(log.wait("runner")["pid"], signal.SIGSTOP)
        to_shell(terminal)
        terminal.send(b"fg\n")
        until(lambda: terminal.foreground() == agent, "the agent has the terminal again")
        go.touch()
        terminal.send(b"hello\n")
        terminal.expect(b"<hello>")


def test_a_runner_killed_by_nine_leaves_a_usable_terminal(log: Log) -> None:
    with shell() as terminal:
        type_in(terminal, harness(log.path, *TUI, terminal=True))
        agent = start_tui(terminal)
        os.kill(log.wait("runner")["pid"], signal.SIGKILL)
        terminal.expect(RESET)
        until(lambda: not alive(agent), "the agent is gone")
        terminal.send(b"\necho $((6*7))\n")
        terminal.expect(b"42")
