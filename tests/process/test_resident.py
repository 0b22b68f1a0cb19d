"""A child that serves several sessions: fed and heard while it is attended, left alone in between, ended as a whole."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from marathon.process import tree
from marathon.process.signals import Signals
from marathon.process.start import Command, Exit, StartFailed
from marathon.process.supervisor import Resident
from tests.process.driver import PATIENCE, alive, children, environment, marked, until

ECHO = "while read line; do echo got $line; done"
# Says its own pid, and stays for as long as its input lasts.
PATIENT = "echo $$; cat >/dev/null"


@dataclass
class Keeper:
    """A Resident in this process, with callbacks that collect; `mark` is in the environment of its whole tree."""

    cwd: Path
    signals: Signals
    mark: str = field(default_factory=lambda: f"{os.getpid()}-{time.monotonic_ns()}")
    lines: list[bytes] = field(default_factory=list)
    opened: list[Resident] = field(default_factory=list)

    def start(self, script: str, *argv: str) -> Resident:
        env = {"PATH": os.environ["PATH"], "MARATHON_TEST_MARK": self.mark}
        self.opened.append(Resident(Command(argv or ("sh", "-c", script), self.cwd, env)))
        return self.opened[-1]

    def attend(self, resident: Resident, done: Callable[[], bool] = lambda: False, **options: Any) -> Exit | None:
        callbacks: dict[str, Any] = {
            "done": done,
            "on_output": lambda stream, line, complete: self.lines.append(line),
            "on_tick": lambda: False,
            "on_interrupt": lambda: None,
            "on_resume": lambda: None,
            "timeout": PATIENCE,
            "grace": 2.0,
            "tick": 0.05,
        }
        exit, self.seconds = resident.attend(signals=self.signals, **{**callbacks, **options})
        return exit

    def hear(self, resident: Resident, count: int = 1) -> list[bytes]:
        """The next lines; the child is known to have started, and lives on."""
        del self.lines[:]
        ticks: list[None] = []
        exit = self.attend(
            resident, lambda: len(self.lines) >= count and bool(ticks), on_tick=lambda: ticks.append(None)
        )
        assert exit is None
        return self.lines

    def left(self) -> list[str]:
        return [tree.command_of(process) for process in marked(self.mark)]


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    with Signals() as signals:
        keeper = Keeper(tmp_path, signals)
        yield keeper
        for resident in keeper.opened:
            resident.close()
    tree.end(marked(keeper.mark), 0.2)


def passed(ticks: Iterator[int], count: int) -> bool:
    """For `done`: after so many looks, of which there is at least one a tick."""
    return next(ticks) >= count


def reaped(pid: int) -> None:
    until(lambda: tree.look(pid) is None, "the guardian reaps and reports it")


# Several sessions


def test_one_child_answers_in_several_sessions(keeper: Keeper) -> None:
    resident = keeper.start(f"echo $$; {ECHO}; echo $$")
    (pid,) = keeper.hear(resident)
    for word in (b"one", b"two", b"three"):
        resident.send(word + b"\n")
        assert keeper.hear(resident) == [b"got " + word]
        assert alive(int(pid))


def test_what_it_says_in_between_is_heard_in_the_next_session(keeper: Keeper) -> None:
    resident = keeper.start("echo first; until [ -e go ]; do sleep 0.02; done; echo more; touch said; read line")
    assert keeper.hear(resident) == [b"first"]
    (keeper.cwd / "go").touch()
    until(lambda: (keeper.cwd / "said").exists(), "it goes on unattended")
    assert keeper.lines == [b"first"]
    assert keeper.hear(resident) == [b"more"]


def test_nothing_is_sent_before_it_is_attended_and_nothing_is_lost(keeper: Keeper) -> None:
    resident = keeper.start(ECHO)
    resident.send(b"a\n")
    resident.send(b"b\nc\n")
    assert keeper.hear(resident, 3) == [b"got a", b"got b", b"got c"]


def test_three_megabytes_go_in_while_as_much_comes_out(keeper: Keeper) -> None:
    resident = keeper.start("cat")
    sent = [b"%099d" % number for number in range(30_000)]
    resident.send(b"\n".join(sent) + b"\n")
    assert keeper.hear(resident, len(sent)) == sent


def test_a_child_that_says_more_than_it_reads_blocks_nobody(keeper: Keeper) -> None:
    """With a full pipe on either side, a write that waits for the child would wait forever."""
    talkative = "import os\nwhile data := os.read(0, 4096): os.write(1, data * 4)"
    resident = keeper.start("", sys.executable, "-c", talkative)
    resident.send((b"x" * 1023 + b"\n") * 1024)
    assert len(b"".join(keeper.hear(resident, 4 * 1024))) == 4 * 1024 * 1023


def test_what_could_not_be_sent_in_one_session_goes_out_in_the_next(keeper: Keeper) -> None:
    resident = keeper.start("echo ready; until [ -e go ]; do sleep 0.02; done; head -c 2000000 | wc -c; cat")
    resident.send(b"x" * 1_000_000)
    assert keeper.hear(resident) == [b"ready"]
    (keeper.cwd / "go").touch()
    resident.send(b"y" * 1_000_000)
    assert keeper.hear(resident)[0].split() == [b"2000000"]


def test_only_the_session_that_is_attended_hears_it(keeper: Keeper) -> None:
    resident = keeper.start(ECHO)
    resident.send(b"one\n")
    first = list(keeper.hear(resident))
    other: list[bytes] = []
    resident.send(b"two\n")
    ours = keeper.lines
    keeper.attend(resident, lambda: bool(other), on_output=lambda stream, line, complete: other.append(line))
    assert (first, ours, other) == ([b"got one"], [b"got one"], [b"got two"])


def test_a_further_file_is_read_while_it_is_attended(keeper: Keeper) -> None:
    resident = keeper.start(ECHO)
    ours, theirs = os.pipe()
    try:
        os.write(theirs, b"typed\n")
        assert (
            keeper.attend(
                resident, lambda: bool(keeper.lines), readers={ours: lambda: resident.send(os.read(ours, 100))}
            )
            is None
        )
        assert keeper.lines == [b"got typed"]
    finally:
        os.close(ours)
        os.close(theirs)


def test_while_nothing_happens_nothing_is_done(keeper: Keeper) -> None:
    resident = keeper.start(ECHO)
    resident.send(b"x\n")
    looks = itertools.count()
    assert keeper.attend(resident, lambda: next(looks) < 0, on_tick=lambda: next(looks) > 40, tick=0.02) is not None
    assert next(looks) < 500


# Its end


def test_a_child_that_ends_while_it_is_attended_is_reported_with_its_last_words(keeper: Keeper) -> None:
    resident = keeper.start("read line; echo bye; exit 7")
    resident.send(b"x\n")
    exit = keeper.attend(resident)
    assert exit is not None
    assert (exit.code, exit.signal, exit.reason) == (7, None, "exited")
    assert keeper.lines == [b"bye"]


@pytest.mark.parametrize(("how", "code", "signum"), [("exit 3", 3, None), ("kill -9 $$", None, signal.SIGKILL)])
def test_a_child_that_ended_between_two_sessions_is_reported_in_the_next(
    keeper: Keeper, how: str, code: int | None, signum: int | None
) -> None:
    resident = keeper.start(f"echo $$; until [ -e go ]; do sleep 0.02; done; {how}")
    pid = int(keeper.hear(resident)[0])
    (keeper.cwd / "go").touch()
    reaped(pid)
    resident.send(b"are you there?\n")
    exit = keeper.attend(resident)
    assert exit is not None
    assert (exit.code, exit.signal, exit.reason) == (code, signum, "exited")
    assert keeper.left() == []


def test_an_end_that_was_heard_just_before_the_session_was_over_is_reported_in_the_next(keeper: Keeper) -> None:
    resident = keeper.start(
        "setsid sh -c \"trap '' TERM; touch deaf; sleep 61\" & until [ -e deaf ]; do :; done; echo $$; exit 6"
    )
    late = itertools.count()
    assert (
        keeper.attend(resident, lambda: keeper.lines != [] and not alive(int(keeper.lines[0])) and next(late) > 3)
        is None
    )
    exit = keeper.attend(resident)
    assert exit is not None
    assert exit.code == 6


def test_what_outlives_a_dead_child_is_ended(keeper: Keeper) -> None:
    resident = keeper.start("setsid sleep 61 & echo $$; read line; exit 4")
    resident.send(b"x\n")
    exit = keeper.attend(resident)
    assert exit is not None
    assert (exit.code, exit.swept) == (4, 1)
    assert keeper.left() == []


@pytest.mark.parametrize("attended", [True, False])
def test_a_killed_guardian_takes_the_tree_with_it(keeper: Keeper, attended: bool) -> None:
    resident = keeper.start(f"setsid sleep 61 & setsid sh -c \"trap '' TERM; sleep 62\" & echo $PPID; {PATIENT}")
    guardian, _ = (int(line) for line in keeper.hear(resident, 2))
    if not attended:
        os.kill(guardian, signal.SIGKILL)

    def kill() -> bool:
        os.kill(guardian, signal.SIGKILL)
        return False

    exit = keeper.attend(resident, on_tick=kill)
    assert exit is not None
    assert exit.reason == "exited"
    assert keeper.left() == []


def test_input_for_a_child_that_reads_no_more_is_no_error(keeper: Keeper) -> None:
    resident = keeper.start("exec <&-; echo closed; until [ -e go ]; do sleep 0.02; done; exit 5")
    keeper.hear(resident)
    resident.send(b"x" * 1_000_000)
    (keeper.cwd / "go").touch()
    exit = keeper.attend(resident)
    assert exit is not None
    assert exit.code == 5


def test_a_session_that_takes_too_long_ends_the_child(keeper: Keeper) -> None:
    resident = keeper.start(f"setsid sleep 61 & {PATIENT}")
    keeper.hear(resident)
    exit = keeper.attend(resident, timeout=0.3)
    assert exit is not None
    assert (exit.signal, exit.reason) == (signal.SIGTERM, "timeout")
    assert 0.3 <= keeper.seconds < 10
    assert keeper.left() == []


def test_each_session_has_the_whole_timeout(keeper: Keeper) -> None:
    resident = keeper.start(PATIENT)
    for _ in range(3):
        ticks = itertools.count()
        assert keeper.attend(resident, partial(passed, ticks, 20), timeout=2.5) is None
    assert keeper.seconds < 2.5


def test_a_tick_that_says_so_stops_it(keeper: Keeper) -> None:
    resident = keeper.start(PATIENT)
    exit = keeper.attend(resident, on_tick=lambda: bool(keeper.lines))
    assert exit is not None
    assert exit.reason == "stopped"


@pytest.mark.parametrize(("answers", "reason"), [(True, "stopped"), (False, "stopped"), (True, "timeout")])
def test_it_is_asked_to_stop_and_tells_its_rest_before_it_is_ended(keeper: Keeper, answers: bool, reason: str) -> None:
    resident = keeper.start("echo began; read asked; echo the rest; cat" if answers else "echo began; sleep 60")

    def ask() -> bool:
        resident.send(b"stop\n")
        return True

    exit = keeper.attend(
        resident,
        lambda: b"the rest" in keeper.lines,
        ask=ask,
        on_tick=lambda: reason == "stopped" and b"began" in keeper.lines,
        timeout=1 if reason == "timeout" else PATIENCE,
    )
    assert exit is not None
    assert exit.reason == reason, "what it told at last is no end of its own"
    assert keeper.lines == [b"began", *([b"the rest"] if answers else [])]
    assert keeper.left() == []


def test_a_missing_program_is_named_in_the_first_session(keeper: Keeper) -> None:
    resident = keeper.start("", "no-such-program-anywhere")
    with pytest.raises(StartFailed) as failed:
        keeper.attend(resident)
    assert (failed.value.errno, failed.value.filename) == (errno.ENOENT, "no-such-program-anywhere")


@pytest.mark.parametrize("callback", ["on_output", "on_tick", "done"])
def test_an_exception_from_a_callback_ends_the_tree_and_comes_out(keeper: Keeper, callback: str) -> None:
    def fail(*_: object) -> bool:
        if keeper.left():
            raise ValueError("from a callback")
        return False

    resident = keeper.start(f"setsid sleep 61 & {PATIENT}")
    with pytest.raises(ValueError, match="from a callback"):
        keeper.attend(resident, **{callback: fail})
    assert keeper.left() == []
    resident.close()


# Sweeping between sessions


def test_sweeping_ends_what_its_tools_left_and_neither_it_nor_its_helpers(keeper: Keeper) -> None:
    tools = "setsid sleep 63 & (setsid setsid sleep 64 &); setsid sh -c \"trap '' TERM; touch deaf; sleep 65\" &"
    ready = "until [ -e deaf ]; do sleep 0.02; done; echo $$"
    resident = keeper.start(f"sleep 62 & echo $!; {tools} {ready}; {ECHO}")
    helper, agent = (int(line) for line in keeper.hear(resident, 2))
    sleepers = {"sleep 63", "sleep 64", "sleep 65"}
    until(lambda: sleepers <= set(keeper.left()), "all of them run")
    assert resident.sweep() == 4
    assert alive(agent)
    assert alive(helper)
    assert not sleepers & set(keeper.left())
    resident.send(b"still here\n")
    assert keeper.hear(resident) == [b"got still here"]


def test_sweeping_where_nothing_was_left_ends_nothing(keeper: Keeper) -> None:
    resident = keeper.start(ECHO)
    for _ in range(3):
        resident.send(b"x\n")
        keeper.hear(resident)
        assert resident.sweep() == 0


def test_sweeping_lets_a_short_program_come_to_its_end(keeper: Keeper) -> None:
    resident = keeper.start(f"setsid sleep 0.2 & {ECHO}")
    resident.send(b"x\n")
    keeper.hear(resident)
    assert resident.sweep() == 0


def test_sweeping_a_child_that_has_just_died_loses_nothing_of_its_end(keeper: Keeper) -> None:
    """Its deaf tool keeps the guardian busy, so that the report of its end is still unread when we sweep."""
    resident = keeper.start(f"setsid sh -c \"trap '' TERM; touch deaf; sleep 61\" & {PATIENT}")
    pid = int(keeper.hear(resident)[0])
    until(lambda: (keeper.cwd / "deaf").exists(), "the tool runs")
    os.kill(pid, signal.SIGKILL)
    reaped(pid)
    resident.sweep()
    exit = keeper.attend(resident)
    assert exit is not None
    assert (exit.signal, exit.reason) == (signal.SIGKILL, "exited")
    assert keeper.left() == []


def test_sweeping_before_the_first_session_does_not_hide_that_it_started(keeper: Keeper) -> None:
    resident = keeper.start(f"touch ready; {PATIENT}")
    until(lambda: (keeper.cwd / "ready").exists(), "it runs")
    assert resident.sweep() == 0
    exit = keeper.attend(resident, on_tick=lambda: True, timeout=5)
    assert exit is not None
    assert exit.reason == "stopped"


def test_sweeping_at_the_very_moment_of_its_death_loses_nothing_of_its_end(keeper: Keeper) -> None:
    for _ in range(15):
        resident = keeper.start(PATIENT)
        os.kill(int(keeper.hear(resident)[0]), signal.SIGKILL)
        resident.sweep()
        exit = keeper.attend(resident)
        assert exit is not None
        assert (exit.code, exit.signal) == (None, signal.SIGKILL)


# Letting go


def test_the_end_of_its_input_is_enough_for_a_child_that_heeds_it(keeper: Keeper) -> None:
    resident = keeper.start("echo ready; cat >/dev/null; sleep 1; touch left-by-itself")
    keeper.hear(resident)
    resident.close()
    assert (keeper.cwd / "left-by-itself").exists()
    resident.close()


def test_a_child_that_ignores_the_end_of_its_input_is_ended_within_seconds(keeper: Keeper) -> None:
    resident = keeper.start("trap '' TERM; setsid sleep 61 & echo ready; while :; do sleep 0.1; done")
    keeper.hear(resident)
    began = time.monotonic()
    resident.close()
    assert time.monotonic() - began < 15
    assert keeper.left() == []


def test_a_child_that_floods_its_output_unheard_is_ended_too(keeper: Keeper) -> None:
    resident = keeper.start("echo ready; cat /dev/zero | tr '\\0' 'x'")
    keeper.hear(resident)
    resident.close()
    assert keeper.left() == []


def test_fifty_children_leave_no_zombie_and_no_open_file(keeper: Keeper) -> None:
    before, files = children(), len(os.listdir("/proc/self/fd"))
    for number in range(50):
        resident = keeper.start("read line; echo $line; read line; exit 3")
        resident.send(b"x\n")
        keeper.hear(resident)
        if number % 2:
            resident.send(b"x\n")
            assert keeper.attend(resident) is not None
        resident.close()
    assert len(os.listdir("/proc/self/fd")) == files
    assert children() <= before


def test_a_program_that_cannot_start_leaves_no_open_file(keeper: Keeper) -> None:
    files = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(StartFailed):
            keeper.attend(keeper.start("", "no-such-program-anywhere"))
    assert len(os.listdir("/proc/self/fd")) == files


# A runner of its own, between two sessions: nobody attends the child when it is killed.
RUNNER = """
import os, sys, time
from pathlib import Path
from marathon.process.signals import Signals
from marathon.process.start import Command
from marathon.process.supervisor import Resident
lines = []
with Signals() as signals:
    resident = Resident(Command(("sh", "-c", sys.argv[1]), Path.cwd(), dict(os.environ)))
    resident.attend(signals=signals, done=lambda: bool(lines), on_output=lambda *piece: lines.append(piece),
                on_tick=lambda: False, on_interrupt=lambda: None, on_resume=lambda: None, timeout=30)
    print("attended", flush=True)
    time.sleep(60)
"""


def test_a_runner_killed_by_nine_between_sessions_takes_everything_with_it(tmp_path: Path) -> None:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    script = f"sleep 61 & setsid sleep 62 & setsid sh -c \"trap '' TERM; sleep 63\" & trap '' TERM; {PATIENT}"
    argv = [sys.executable, "-c", RUNNER, script]
    with subprocess.Popen(
        argv, cwd=tmp_path, env=environment(MARATHON_TEST_MARK=mark), stdout=subprocess.PIPE
    ) as runner:
        try:
            assert runner.stdout is not None
            assert runner.stdout.readline() == b"attended\n"
            assert len(marked(mark)) >= 5
            runner.kill()
            runner.wait()
            until(lambda: not marked(mark), "the tree is gone with its runner", 10)
        finally:
            with contextlib.suppress(ProcessLookupError):
                runner.kill()
            tree.end(marked(mark), 0.2)
