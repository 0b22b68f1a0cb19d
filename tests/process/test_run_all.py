"""Commands beside each other: who runs when, what is kept of them, and that every tree ends whatever happens."""

from __future__ import annotations

import os
import resource
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from marathon.errors import DiskFailed
from marathon.process import tree
from marathon.process.signals import Interrupted, Signals
from marathon.process.start import Command
from marathon.process.supervisor import Done, Job, run_all
from tests.process.driver import PATIENCE, alive, children, marked, on_pty, shell, until

MEGABYTE = 1 << 20
LOG_LIMIT = 10 * MEGABYTE
# Says that it is there and stays, with a helper in a session of its own; neither cares for TERM.
DEAF = "trap '' TERM; setsid sh -c 'while :; do sleep 0.1; done' & touch $0; while :; do sleep 0.1; done"
LASTING = "touch $0; exec sleep 60"


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@dataclass
class Round:
    """run_all() in this process, with callbacks that collect; each job's mark is in the environment of its tree."""

    cwd: Path
    jobs: list[Job] = field(default_factory=list)
    seen: list[tuple[str, int]] = field(default_factory=list)
    done: dict[int, Done] = field(default_factory=dict)
    on_start: Callable[[int], None] = lambda number: None
    on_done: Callable[[int], None] = lambda number: None
    stop: Callable[[], bool] = lambda: False
    on_tick: Callable[[], None] = lambda: None
    birth: int = field(default_factory=time.monotonic_ns)

    def mark(self, number: int) -> str:
        return f"{os.getpid()}-{self.birth}-{number}"

    def file(self, number: int) -> Path:
        """What a script calls $0: its own, in the common directory."""
        return self.cwd / f"file-{number}"

    def sh(self, script: str, **options: Any) -> None:
        self.add("sh", "-c", script, str(self.file(len(self.jobs))), **options)

    def add(self, *argv: str, timeout: float | None = PATIENCE, cwd: Path | None = None, parallel: bool = True) -> None:
        number = len(self.jobs)
        env = {"PATH": os.environ["PATH"], "MARATHON_TEST_MARK": self.mark(number)}
        command = Command(argv, cwd or self.cwd, env)
        self.jobs.append(Job(command, timeout, self.cwd / f"log-{number}", parallel))

    def run(self, at_once: int = 4, grace: float = 1.0) -> list[Done]:
        with Signals() as signals:
            return run_all(
                self.jobs,
                signals=signals,
                at_once=at_once,
                on_start=self._started,
                on_done=self._ended,
                stop=self.stop,
                on_tick=self.on_tick,
                grace=grace,
            )

    def codes(self, at_once: int = 4) -> list[int | None]:
        return [done.exit.code if done.exit else None for done in self.run(at_once)]

    def all_there(self, *numbers: int) -> bool:
        return all(self.file(number).exists() for number in numbers)

    def left(self) -> list[psutil.Process]:
        return [process for number in range(len(self.jobs)) for process in marked(self.mark(number))]

    def _started(self, number: int) -> None:
        self.seen.append(("start", number))
        self.on_start(number)

    def _ended(self, number: int, done: Done) -> None:
        self.seen.append(("done", number))
        self.done[number] = done
        self.on_done(number)


@pytest.fixture
def several(tmp_path: Path) -> Iterator[Round]:
    used = Round(tmp_path)
    yield used
    tree.end(used.left(), 0.2)


def wait_for(*files: Path) -> str:
    return " ".join(f"until [ -e {file} ]; do sleep 0.02; done;" for file in files)


# Who runs when


def test_results_come_in_the_order_of_the_jobs(several: Round) -> None:
    several.sh(wait_for(several.file(1)) + "exit 3")
    several.sh("touch $0; exit 4")
    several.add("true", parallel=False)
    assert several.codes() == [3, 4, 0]
    assert several.seen[:2] == [("start", 0), ("start", 1)]
    assert several.seen[-2:] == [("start", 2), ("done", 2)]


def test_no_jobs_are_no_work(several: Round) -> None:
    assert several.run() == []


def test_nothing_at_once_is_refused(several: Round) -> None:
    several.add("true")
    with pytest.raises(ValueError, match="at_once"):
        several.run(at_once=0)


def test_a_job_that_is_not_parallel_runs_alone(several: Round) -> None:
    for number, parallel in enumerate([True, True, False, False, True, False]):
        several.sh(f"echo begin {number} >>all; sleep 0.1; echo end {number} >>all", parallel=parallel)
    assert several.codes() == [0] * 6
    lines = (several.cwd / "all").read_text().split("\n")
    for alone in (2, 3, 5):
        begin = lines.index(f"begin {alone}")
        assert lines[begin + 1] == f"end {alone}"
        assert {line.split()[1] for line in lines[:begin]} == {str(number) for number in range(alone)}


def test_parallel_neighbours_really_run_beside_each_other(several: Round) -> None:
    several.sh("touch $0;" + wait_for(several.file(1)))
    several.sh("touch $0;" + wait_for(several.file(0)))
    assert several.codes(at_once=2) == [0, 0]


def test_no_more_than_at_once_run_and_all_the_places_are_used(several: Round) -> None:
    (several.cwd / "running").mkdir()
    count = "ls running | wc -l >>counts;"
    for number in range(12):
        fill = "until [ -e full ]; do [ $(ls running | wc -l) -lt 3 ] || touch full; sleep 0.02; done;"
        several.sh(f"touch running/{number}; {count} {fill} {count} rm running/{number}")
    assert several.codes(at_once=3) == [0] * 12
    assert max(map(int, (several.cwd / "counts").read_text().split())) == 3


def test_a_free_place_is_taken_while_a_neighbour_still_runs(several: Round) -> None:
    several.sh(wait_for(several.file(3)))
    several.add("true")
    several.add("true")
    several.sh("touch $0")
    assert several.codes(at_once=2) == [0] * 4


# What is kept


def test_output_is_kept_in_a_private_file_and_its_end_in_memory(several: Round) -> None:
    old = os.umask(0)
    try:
        several.sh("echo one; echo two >&2; echo three; cat; exit 7")
        (several.cwd / "log-0").write_text("from an earlier time")
        (done,) = several.run()
    finally:
        os.umask(old)
    assert (done.reason, done.log) == ("", several.cwd / "log-0")
    assert done.exit
    assert (done.exit.code, done.exit.signal, done.exit.reason, done.exit.swept) == (7, None, "exited", 0)
    assert done.tail == done.log.read_text() == "one\ntwo\nthree\n"
    assert stat.S_IMODE(done.log.stat().st_mode) == 0o600


def test_a_log_that_is_a_link_is_not_followed(several: Round) -> None:
    (several.cwd / "precious").write_text("precious")
    (several.cwd / "log-0").symlink_to("precious")
    several.add("echo", "hello")
    assert several.codes() == [0]
    assert (several.cwd / "precious").read_text() == "precious"
    assert (several.cwd / "log-0").read_text() == "hello\n"


def test_output_can_be_read_while_the_command_runs(several: Round) -> None:
    def look() -> None:
        if several.jobs[0].log.read_text() == "hello\n":
            several.file(0).touch()

    several.on_start = lambda number: several.jobs[0].log.touch()
    several.on_tick = lambda: look() if several.seen else None
    several.sh("echo hello; " + wait_for(several.file(0)))
    assert several.codes() == [0]


def test_a_long_tail_is_cut_between_characters_and_garbage_is_shown_as_such(several: Round) -> None:
    several.add(sys.executable, "-c", "print('ä' * 5000 + 'a', end='')")
    several.sh(r"printf 'a\377b\nhalf'")
    long, garbage = several.run()
    assert long.tail == "ä" * 1999 + "a"
    assert garbage.tail == "a�b\nhalf"


def test_floods_fill_neither_memory_nor_disk_and_hold_nobody_up(several: Round) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    on = "until [ -e small ]; do head -c 1M /dev/zero; done; sleep 1"  # until the small one came through beside it
    several.sh(f"head -c 100M /dev/zero; {on}; echo the end", timeout=120.0)
    several.sh(f"yes | head -c 100M >&2; {on} >&2; echo the end", timeout=120.0)
    several.sh("echo small; touch small")
    floods = several.run()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 30
    assert several.seen[3] == ("done", 2)
    for flood in floods[:2]:
        assert flood.exit
        assert flood.exit.code == 0
        assert flood.tail.endswith("the end\n")
        assert len(flood.tail) == 4000
        assert LOG_LIMIT < flood.log.stat().st_size < LOG_LIMIT + 100
        assert (
            flood.log.read_bytes()[-100:].split(b"\n")[-2] == b"[more than 10 MiB: the rest of the output was left out]"
        )


def test_what_is_still_in_the_pipe_when_all_are_gone_is_kept(several: Round) -> None:
    said = b"x" * 600_000
    speak = f"fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, {MEGABYTE}); os.write(1, b'x' * {len(said)})"
    several.sh(f'{sys.executable} -c "import fcntl, os; {speak}"; echo $PPID >$0.new; mv $0.new $0')
    several.add("true")

    def listen_no_more(number: int) -> None:
        if number == 1:
            until(lambda: several.all_there(0), "it has said everything")
            until(lambda: not alive(int(several.file(0).read_text())), "its guardian is gone")

    several.on_done = listen_no_more
    assert several.codes() == [0, 0]
    assert several.jobs[0].log.read_bytes() == said


def test_a_log_of_exactly_the_limit_is_whole(several: Round) -> None:
    several.sh(f"head -c {LOG_LIMIT} /dev/zero")
    assert several.codes() == [0]
    assert several.jobs[0].log.stat().st_size == LOG_LIMIT


# How they end


def test_a_timeout_ends_one_whole_tree_and_the_others_go_on(several: Round) -> None:
    left: list[psutil.Process] = []
    several.sh(DEAF, timeout=3.0)
    several.sh(wait_for(several.cwd / "go") + "exit 5")

    def ended(number: int) -> None:
        left.extend(marked(several.mark(number)))
        (several.cwd / "go").touch()

    several.on_done = ended
    deaf, other = several.run()
    assert deaf.exit
    assert other.exit
    assert (deaf.exit.signal, deaf.exit.reason) == (signal.SIGKILL, "timeout")
    assert deaf.exit.seconds >= 3.0
    assert (other.exit.code, other.exit.reason) == (5, "exited")
    assert left == []


def test_a_command_without_a_timeout_is_waited_for(several: Round) -> None:
    several.sh("sleep 0.6; exit 6", timeout=None)
    assert several.codes() == [6]


def test_what_a_command_leaves_in_the_background_is_ended_with_it(several: Round) -> None:
    left: list[psutil.Process] = []
    several.sh("setsid sleep 60 & sleep 60 & exit 0")
    several.on_done = lambda number: left.extend(marked(several.mark(number)))
    (done,) = several.run()
    assert done.exit
    assert (done.exit.code, done.exit.swept) == (0, 2)
    assert left == []


def test_what_cannot_be_started_is_told_and_the_rest_goes_on(several: Round) -> None:
    several.add("no-such-program-anywhere")
    several.add("true", cwd=several.cwd / "gone")
    several.add("echo", "nul\0here", parallel=False)
    several.sh("exit 4", parallel=False)
    done = several.run()
    assert [each.exit is None for each in done] == [True, True, True, False]
    assert done[0].reason == "no-such-program-anywhere: No such file or directory"
    assert done[1].reason == f"{several.cwd / 'gone'}: No such file or directory"
    assert done[2].reason == "echo: Invalid argument"
    assert several.done[3].exit
    assert sorted(several.seen) == [(what, number) for what in ("done", "start") for number in range(4)]


def test_when_there_are_no_files_left_to_open_that_is_the_reason(several: Round) -> None:
    several.add("true")
    several.add("true")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def leave_room_for_the_log(number: int) -> None:
        free = os.open(os.devnull, os.O_RDONLY)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 2 if number == 0 else soft, hard))

    several.on_start = leave_room_for_the_log
    try:
        first, second = several.run(at_once=1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (first.exit, first.reason) == (None, "Too many open files")
    assert second.exit


def kill_guardians(several: Round, *numbers: int) -> None:
    """Once all of them have written down who their guardian is."""
    if several.all_there(*numbers):
        for number in numbers:
            os.kill(int(several.file(number).read_text()), signal.SIGKILL)
            several.file(number).unlink()


GUARDED = "setsid sleep 60 & echo $PPID >$0.new; mv $0.new $0; sleep 60"


def test_a_killed_guardian_costs_its_own_tree_only(several: Round) -> None:
    left: list[psutil.Process] = []
    other = os.posix_spawnp("sleep", ["sleep", "60"], os.environ)
    several.sh(GUARDED)
    several.sh(wait_for(several.cwd / "go") + "exit 5")

    def ended(number: int) -> None:
        left.extend(marked(several.mark(number)))
        (several.cwd / "go").touch()

    several.on_done = ended
    several.on_tick = lambda: kill_guardians(several, 0)
    try:
        killed, neighbour = several.run()
        assert alive(other)
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
    assert killed.exit
    assert neighbour.exit
    assert (killed.exit.code, killed.exit.signal, killed.exit.reason) == (None, signal.SIGKILL, "exited")
    assert (neighbour.exit.code, neighbour.exit.swept) == (5, 0)
    assert left == []


def test_guardians_killed_together_are_each_told(several: Round) -> None:
    several.sh(GUARDED)
    several.sh(GUARDED)
    several.on_tick = lambda: kill_guardians(several, 0, 1)
    done = several.run()
    assert [each.exit.signal for each in done if each.exit] == [signal.SIGKILL] * 2
    assert several.left() == []


def test_a_guardian_that_was_put_to_sleep_is_woken(several: Round) -> None:
    several.sh("kill -STOP $PPID; exit 3")
    (done,) = several.run()
    assert done.exit
    assert (done.exit.code, done.exit.reason) == (3, "exited")


# Stopping all


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything_and_comes_out(several: Round, signum: int) -> None:
    several.sh(DEAF)
    several.sh(LASTING)
    several.sh("touch $0", parallel=False)
    several.on_tick = lambda: os.kill(os.getpid(), signum) if several.all_there(0, 1) else None
    with pytest.raises(Interrupted) as interrupted:
        several.run()
    assert interrupted.value.signum == signum
    assert several.seen == [("start", 0), ("start", 1)]
    assert several.left() == []
    assert not several.all_there(2)


@pytest.mark.parametrize(
    ("signum", "heard"), [(signal.SIGINT, "TERM"), (signal.SIGTERM, "TERM"), (signal.SIGHUP, "HUP")]
)
def test_a_command_can_clean_up_when_a_signal_ends_it(several: Round, signum: int, heard: str) -> None:
    several.sh(f"trap 'touch cleaned; exit' {heard}; touch $0; while :; do sleep 0.05; done")
    several.on_tick = lambda: os.kill(os.getpid(), signum) if several.all_there(0) else None
    with pytest.raises(Interrupted):
        several.run(grace=20.0)
    assert (several.cwd / "cleaned").exists()


def test_an_interrupt_is_not_kept_waiting_by_a_long_grace(several: Round) -> None:
    several.sh(DEAF)
    several.on_tick = lambda: os.kill(os.getpid(), signal.SIGINT) if several.all_there(0) else None
    started = time.monotonic()
    with pytest.raises(Interrupted):
        several.run(grace=60.0)
    assert time.monotonic() - started < 25


def test_a_signal_that_came_before_lets_nothing_start(several: Round) -> None:
    several.add("true")
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted):
            run_all(
                several.jobs,
                signals=signals,
                at_once=1,
                on_start=lambda number: pytest.fail("started"),
                on_done=lambda number, done: None,
                stop=lambda: False,
                on_tick=lambda: None,
            )


def test_stop_ends_what_runs_and_starts_nothing_more(several: Round) -> None:
    several.add("true")
    several.sh(DEAF)
    several.sh(LASTING)
    several.sh("touch $0", parallel=False)
    several.stop = lambda: several.all_there(1, 2) and 0 in several.done
    assert several.run() == [several.done[0]]
    assert several.done.keys() == {0}
    assert several.left() == []
    assert not several.all_there(3)


def test_a_command_that_had_ended_by_itself_was_not_stopped(several: Round) -> None:
    asked: list[bool] = []

    def ended_for_a_while() -> bool:
        if several.all_there(0) and not alive(int(several.file(0).read_text())):
            asked.append(True)
        return len(asked) >= 2  # it was reported in between; what it left behind takes longer to end

    several.stop = ended_for_a_while
    several.sh("trap '' TERM; sleep 60 & echo $$ >$0.new; mv $0.new $0; exit 3")
    (done,) = several.run()
    assert done.exit
    assert (done.exit.code, done.exit.reason) == (3, "exited")


def test_stop_from_the_beginning_starts_nothing(several: Round) -> None:
    several.add("true")
    several.stop = lambda: True
    assert several.run() == []
    assert several.seen == []


class Refused(Exception):
    pass


@pytest.mark.parametrize("callback", ["on_start", "on_done", "on_tick", "stop"])
def test_an_exception_in_a_callback_ends_everything_and_comes_out(several: Round, callback: str) -> None:
    def fail(number: int = 0) -> bool:
        if several.all_there(0, 1) or number == 2:
            until(lambda: several.all_there(0, 1), "both run")
            raise Refused
        return False

    before, files = children(), open_files()
    several.sh(DEAF)
    several.sh(DEAF)
    several.sh("touch $0; " + wait_for(several.file(0), several.file(1)))
    setattr(several, callback, fail)
    with pytest.raises(Refused):
        several.run()
    assert several.left() == []
    assert open_files() == files
    assert children() <= before


def test_a_log_that_cannot_be_made_ends_everything_and_is_named(several: Round) -> None:
    files = open_files()
    several.sh(LASTING)
    several.add("true")
    several.jobs[1] = Job(several.jobs[1].command, None, several.cwd / "gone" / "log", parallel=True)
    several.on_start = lambda number: until(lambda: number == 0 or several.all_there(0), "the other runs")
    with pytest.raises(DiskFailed, match="gone/log"):
        several.run()
    assert several.left() == []
    assert open_files() == files


def test_a_disk_that_takes_no_more_ends_everything_and_is_named(several: Round) -> None:
    several.sh(LASTING)
    several.sh(wait_for(several.file(0)) + "head -c 3M /dev/zero; sleep 60")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MEGABYTE, hard))
    try:
        with pytest.raises(DiskFailed, match="log-1"):
            several.run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert several.left() == []


def test_a_hundred_quick_jobs_leave_no_zombie_and_no_open_file(several: Round) -> None:
    before, files = children(), open_files()
    for number in range(100):
        several.add("true" if number % 2 else "false", parallel=number % 10 != 0)
    assert several.codes() == [1, 0] * 50
    assert open_files() == files
    assert children() <= before


# The runner as a process of its own

RUNNER = """
import os, sys
from pathlib import Path
from marathon.process.signals import Interrupted, Signals
from marathon.process.start import Command
from marathon.process.supervisor import Job, run_all

def say(*words):
    print("<" + " ".join(map(str, words)) + ">", flush=True)

jobs = [
    Job(Command(("sh", "-c", script), Path.cwd(), dict(os.environ)), float(sys.argv[1]), Path(f"log-{n}"), True)
    for n, script in enumerate(sys.argv[2:])
]
say("runner", os.getpid())
with Signals() as signals:
    try:
        run_all(
            jobs,
            signals=signals,
            at_once=8,
            on_start=lambda n: say("start", n),
            on_done=lambda n, done: say("done", n, done.exit.reason, done.exit.code),
            stop=lambda: False,
            on_tick=lambda: None,
            grace=2.0,
        )
    except Interrupted as interrupted:
        say(interrupted)
say("end")
"""


def runner(folder: Path, timeout: float, *scripts: str) -> list[str]:
    (folder / "runner.py").write_text(RUNNER)
    return ["env", "-C", str(folder), sys.executable, "runner.py", str(timeout), *scripts]


def test_ctrl_c_on_the_terminal_ends_everything(several: Round) -> None:
    mark = several.mark(0)
    deaf = [DEAF.replace("$0", str(several.file(number))) for number in (0, 1)]
    with on_pty(runner(several.cwd, 60, *deaf), MARATHON_TEST_MARK=mark) as terminal:
        until(lambda: several.all_there(0, 1), "both run")
        terminal.send(b"\x03")
        terminal.expect(b"<SIGINT>")
        terminal.expect(b"<end>")
        assert terminal.wait() == 0
        assert marked(mark) == []


def test_a_runner_killed_by_nine_takes_every_tree_along(several: Round) -> None:
    mark = several.mark(0)
    deaf = [DEAF.replace("$0", str(several.file(number))) for number in (0, 1, 2)]
    with on_pty(runner(several.cwd, 60, *deaf), MARATHON_TEST_MARK=mark) as terminal:
        until(lambda: several.all_there(0, 1, 2), "all run")
        os.kill(terminal.pid, signal.SIGKILL)
        until(lambda: not marked(mark), "all are gone")


def test_ctrl_z_suspends_the_runner_and_no_timeout_counts_that_time(several: Round) -> None:
    script = f"touch {several.file(0)}; {wait_for(several.cwd / 'go')} exit 5"
    argv = " ".join(f"'{word}'" for word in runner(several.cwd, 5.0, script))
    with shell(MARATHON_TEST_MARK=several.mark(0)) as terminal:
        terminal.send(argv.encode() + b"\n")
        until(lambda: several.all_there(0), "it runs")
        terminal.send(b"\x1a")
        terminal.expect(b"Stopped")
        terminal.send(b"sleep 6; echo $((6*7))\n")
        terminal.expect(b"42")
        terminal.send(b"fg\n")
        (several.cwd / "go").touch()
        terminal.expect(b"<done 0 exited 5>")
