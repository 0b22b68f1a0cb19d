"""The command agent: how each way a program can end is read, and what is refused before anything starts."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from marathon.agents.base import Host, Mode, Outcome
from marathon.agents.command import CommandAgent
from marathon.agents.meter import Meter
from marathon.agents.table import find_agent
from marathon.core.events import Event, Notice, Output
from marathon.core.records import Ending
from marathon.errors import AgentUnavailable, WrongUsage
from marathon.process.signals import Signals
from marathon.process.start import Command, Exit, Reason
from marathon.process.supervisor import run


@dataclass
class Runner:
    """Lends an agent what a runner does, and remembers what it was told."""

    folder: Path
    signals: Signals
    events: list[Event] = field(default_factory=list)

    def host(self, **more: Any) -> Host:
        prompt = self.folder / "prompt.md"
        prompt.write_text("# The prompt\n")
        lent: dict[str, Any] = {
            "project": self.folder,
            "prompt": prompt,
            "env": {**os.environ, "MARATHON_PROMPT_FILE": str(prompt)},
            "lock_fd": 2,
            "signals": self.signals,
            "emit": self.events.append,
            "on_tick": lambda: False,
            "timeout": 30.0,
            "start": run,
            "mail": dict,
            "new_steering": list,
            "steer": lambda text, later: None,
        }
        return Host(**{**lent, **more})

    def printed(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Output)]


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    with Signals() as signals:
        yield Runner(tmp_path, signals)


def sh(script: str) -> CommandAgent:
    return CommandAgent(("sh", "-c", script))


# A real program


@pytest.mark.parametrize(
    ("script", "ending", "cause"),
    [
        ("exit 0", "ended", ""),
        ("echo all went wrong; exit 0", "ended", ""),
        ("exit 3", "crashed", "exit code 3"),
        ("echo one; echo 'no key' >&2; exit 1", "crashed", "exit code 1: no key"),
        ("printf 'x\\n\\n  \\n'; exit 1", "crashed", "exit code 1: x"),
        ("kill -KILL $$", "crashed", "killed by signal 9"),
        ("echo dying; kill -TERM $$", "crashed", "killed by signal 15: dying"),
        ("exit 130", "crashed", "exit code 130"),
    ],
)
def test_how_a_program_s_end_is_read(runner: Runner, script: str, ending: Ending, cause: str) -> None:
    outcome = sh(script).run(runner.host())
    assert (outcome.ending, outcome.cause) == (ending, cause)


def test_the_prompt_comes_on_standard_input_and_in_no_argument(runner: Runner) -> None:
    outcome = sh('cat; cat "$MARATHON_PROMPT_FILE"; tr "\\0" " " < /proc/$$/cmdline').run(runner.host())
    assert outcome.ending == "ended"
    assert runner.printed()[:2] == ["# The prompt", "# The prompt"]
    assert "The prompt" not in runner.printed()[2]


def test_what_it_prints_is_passed_on_line_by_line(runner: Runner) -> None:
    sh("echo one; echo zwei >&2; printf 'no end \\377'").run(runner.host())
    assert sorted(runner.printed()) == ["no end \ufffd", "one", "zwei"]


def test_a_cause_is_one_short_line_without_what_a_terminal_acts_on(runner: Runner) -> None:
    outcome = sh("printf 'bad \\033[2J\\007 %0500d' 1; exit 1").run(runner.host())
    assert outcome.cause.startswith("exit code 1: bad 000")
    assert len(outcome.cause) < 200
    assert outcome.cause.isprintable()


def test_one_that_takes_too_long_is_a_timeout(runner: Runner) -> None:
    outcome = sh("sleep 60").run(runner.host(timeout=0.2))
    assert (outcome.ending, outcome.cause) == ("timeout", "the session timed out")


def test_one_that_is_asked_to_stop_is_stopped(runner: Runner) -> None:
    assert sh("sleep 60").run(runner.host(on_tick=lambda: True)).ending == "stopped"


def test_one_that_leaves_processes_behind_is_told_of(runner: Runner) -> None:
    sh("sleep 60 > /dev/null 2>&1 & exit 0").run(runner.host())
    assert [event.text for event in runner.events if isinstance(event, Notice)] == [
        "Ended 1 process that the agent had left running."
    ]


USED = '{"marathon_usage": {"cost": 0.5}}'


@pytest.mark.parametrize(
    ("script", "cost"),
    [
        (f"echo '{USED}'; echo '  {USED}'", 1.0),
        (f"printf '%s' '{USED}'", 0.5),
        (f"echo '{USED}' >&2", 0),  # only standard output
        (f"echo 'He said {USED}'", 0),
        (f"printf '%0200000d%s\\n' 1 '{USED}'", 0),  # the end of a very long line is not a line
        (f"echo '{USED}' >> $MARATHON_USAGE_FILE; printf '%s' '{USED}' >> $MARATHON_USAGE_FILE", 0.5),
        (f"mkfifo $MARATHON_USAGE_FILE; echo '{USED}'", 0.5),
        (f"ln -s /dev/zero $MARATHON_USAGE_FILE; echo '{USED}'", 0.5),
    ],
)
def test_what_it_says_it_used_is_counted(runner: Runner, script: str, cost: float) -> None:
    meter = Meter(runner.events.append)
    host = runner.host(meter=meter, emit=meter.emit, usage_file=str(runner.folder / "usage.jsonl"))
    assert sh(script).run(host).ending == "ended"
    assert meter.usage.cost == cost
    assert not [line for line in runner.printed() if line.strip() == USED] or ">&2" in script


def test_a_program_that_cannot_be_started_is_named(runner: Runner) -> None:
    with pytest.raises(AgentUnavailable, match="'no-such-program'"):
        CommandAgent(("no-such-program",)).run(runner.host())
    script = runner.folder / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(AgentUnavailable, match="script"):
        CommandAgent((str(script),)).run(runner.host())


# The whole table of endings


@dataclass(frozen=True)
class Ended:
    """Stands where a program would be started, and ends as the table says."""

    exit: Exit

    def __call__(self, command: Command, **_: Any) -> Exit:
        return self.exit


def exit_of(code: int | None = None, number: int | None = None, reason: Reason = "exited") -> Exit:
    return Exit(code, number, reason, swept=0, seconds=2.5)


@pytest.mark.parametrize(
    ("exit", "streaming", "on_the_terminal"),
    [
        (exit_of(0), "ended", "ended"),
        (exit_of(1), "crashed: exit code 1", "crashed: exit code 1"),
        (exit_of(130), "crashed: exit code 130", "crashed: exit code 130"),
        (exit_of(None, signal.SIGINT), "crashed: killed by signal 2", "left: closed by the human"),
        (exit_of(None, signal.SIGQUIT), "crashed: killed by signal 3", "left: closed by the human"),
        (exit_of(None, signal.SIGTERM), "crashed: killed by signal 15", "left: closed by the human"),
        (exit_of(None, signal.SIGKILL), "crashed: killed by signal 9", "crashed: killed by signal 9"),
        (exit_of(None, signal.SIGSEGV), "crashed: killed by signal 11", "crashed: killed by signal 11"),
        (exit_of(None, None), "crashed: exit code None", "crashed: exit code None"),
        (exit_of(0, None, "timeout"), "timeout: the session timed out", "timeout: the session timed out"),
        (exit_of(None, 9, "timeout"), "timeout: the session timed out", "timeout: the session timed out"),
        (exit_of(0, None, "stopped"), "stopped: stopped on request", "stopped: stopped on request"),
        (exit_of(None, 15, "stopped"), "stopped: stopped on request", "stopped: stopped on request"),
        (exit_of(0, None, "interrupted"), "interrupted: SIGINT", "interrupted: SIGINT"),
        (exit_of(None, 2, "interrupted"), "interrupted: SIGINT", "interrupted: SIGINT"),
        (exit_of(0, None, "terminated"), "interrupted: SIGTERM", "interrupted: SIGTERM"),
        (exit_of(None, 1, "hungup"), "interrupted: SIGHUP", "interrupted: SIGHUP"),
    ],
)
def test_every_ending_in_both_modes(runner: Runner, exit: Exit, streaming: str, on_the_terminal: str) -> None:
    for mode, expected in (("stream", streaming), ("tui", on_the_terminal)):
        outcome = CommandAgent(("program",), mode).run(runner.host(start=Ended(exit)))  # type: ignore[arg-type]
        assert ": ".join(filter(None, (outcome.ending, outcome.cause))) == expected
        assert outcome.seconds == 2.5
        assert outcome == Outcome(outcome.ending, outcome.cause, outcome.seconds)


def test_a_complaint_about_the_key_is_read_though_it_is_wrapped(runner: Runner) -> None:
    outcome = sh("echo one; echo AuthenticationError:; echo Wrong key. Set; echo 'it with `set`.'; exit 1").run(
        runner.host()
    )
    assert outcome.cause == "exit code 1: AuthenticationError: Wrong key. Set it with `set`."
    assert outcome.permanent


@pytest.mark.parametrize(("mode", "terminal"), [("stream", False), ("tui", True)])
def test_on_the_terminal_the_prompt_is_only_in_its_file(runner: Runner, mode: Mode, terminal: bool) -> None:
    started: list[Command] = []

    def start(command: Command, **_: Any) -> Exit:
        started.append(command)
        return exit_of(0)

    CommandAgent(("program", "--flag"), mode).run(runner.host(start=start))
    (command,) = started
    assert command.argv == ("program", "--flag")
    assert command.terminal is terminal
    assert (command.stdin is None) is terminal
    assert command.inherit == (2,)


# Before anything starts


def test_no_program_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="needs a program"):
        CommandAgent(()).check()
    plain = tmp_path / "not-executable"
    plain.write_text("")
    for program in ("no-such-program", str(plain), str(tmp_path), ""):
        with pytest.raises(AgentUnavailable, match="was not found or is not executable"):
            CommandAgent((program,)).check()
    CommandAgent(("sh",)).check()
    CommandAgent((sys.executable,)).check()


def test_agents_are_found_by_name_and_never_guessed() -> None:
    assert find_agent("command", ("sh", "-c", "x"), "tui") == CommandAgent(("sh", "-c", "x"), "tui")
    assert find_agent("command", ("sh",), None) == CommandAgent(("sh",), "stream")
    assert find_agent("rehearsal", (), None).name == "rehearsal"
    for name in ("", "Command", "pie", "../command"):
        with pytest.raises(WrongUsage, match="There is no agent"):
            find_agent(name, (), None)
