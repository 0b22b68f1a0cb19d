"""A headless session: what the child gets, what we hear of it, and how it ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from marathon.process.start import StartFailed
from tests.process.driver import Session, alive, children, marked


def test_output_and_exit_code_arrive(session: Session) -> None:
    ran = session.sh("echo one; echo two; echo three >&2; exit 7")
    assert ran.exit.code == 7
    assert (ran.exit.signal, ran.exit.reason, ran.exit.swept) == (None, "exited", 0)
    assert ran.text() == b"one\ntwo"
    assert ran.text("err") == b"three"


def test_a_signal_that_killed_it_is_named(session: Session) -> None:
    ran = session.sh("kill -SEGV $$")
    assert (ran.exit.code, ran.exit.signal, ran.exit.reason) == (None, signal.SIGSEGV, "exited")


def test_a_missing_program_is_named(session: Session) -> None:
    with pytest.raises(StartFailed) as failed:
        session.run("no-such-program-anywhere")
    assert (failed.value.errno, failed.value.filename) == (errno.ENOENT, "no-such-program-anywhere")


def test_a_program_that_may_not_run_is_named(session: Session) -> None:
    program = session.cwd / "program"
    program.write_text("echo")
    with pytest.raises(StartFailed) as failed:
        session.run(str(program))
    assert failed.value.errno == errno.EACCES


@pytest.mark.parametrize("words", [("echo", "nul\0here"), ("ec\0ho",), ("\ud800",)])
def test_a_word_that_cannot_be_passed_is_refused(session: Session, words: tuple[str, ...]) -> None:
    with pytest.raises(StartFailed) as failed:
        session.run(*words)
    assert failed.value.errno == errno.EINVAL


def test_what_cannot_be_run_is_passed_over_on_the_search_path(session: Session) -> None:
    """A folder of that name, a file that may not run, and a script whose interpreter is gone."""
    folders = [session.cwd / name for name in ("folder", "forbidden", "gone", "good")]
    for folder in folders:
        folder.mkdir()
    (folders[0] / "program").mkdir()
    for folder, first, mode in zip(
        folders[1:], ("/bin/sh", "/nowhere/sh", "/bin/sh"), (0o600, 0o700, 0o700), strict=True
    ):
        (folder / "program").write_text(f"#!{first}\necho {folder.name}\n")
        (folder / "program").chmod(mode)
    session.env = {"PATH": os.pathsep.join(map(str, folders))}
    assert session.run("program").text() == b"good"
    (folders[3] / "program").unlink()
    with pytest.raises(StartFailed) as failed:
        session.run("program")
    assert failed.value.errno == errno.EACCES


def test_a_directory_is_the_one_it_is_to_us_every_time(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    (session.cwd / "below").mkdir()
    monkeypatch.chdir(session.cwd)
    session.cwd = Path("below")
    for _ in range(2):
        assert session.sh("pwd").text().endswith(b"/below")


def test_a_missing_directory_is_named(session: Session) -> None:
    session.cwd = session.cwd / "gone"
    with pytest.raises(StartFailed) as failed:
        session.run("true")
    assert (failed.value.errno, failed.value.filename) == (errno.ENOENT, str(session.cwd))


def test_nothing_is_called_before_the_program_runs(session: Session) -> None:
    session.on_tick = lambda: pytest.fail("ticked")
    with pytest.raises(StartFailed):
        session.run("no-such-program-anywhere")


def test_it_has_exactly_the_environment_and_directory_it_was_given(session: Session) -> None:
    ran = session.py("import os; print(os.getcwd()); print(*sorted(os.environ))")
    where, names = ran.text().split(b"\n")
    assert where == os.fsencode(session.cwd)
    assert set(names.split()) - {b"LC_CTYPE"} == {b"MARATHON_TEST_MARK", b"MARATHON_TREE", b"PATH"}


def test_it_starts_with_default_signals_and_its_own_session(session: Session) -> None:
    ran = session.sh("grep -E '^Sig(Blk|Ign)' /proc/self/status; ps -o pid=,sid=,pgid= -p $$")
    *masks, ids = ran.text().split(b"\n")
    # Not the two that glibc keeps for itself: its posix_spawn leaves them ignored, and no program can change that.
    usable = sum(1 << (number - 1) for number in signal.valid_signals())
    assert [int(mask.split()[1], 16) & usable for mask in masks] == [0, 0]
    assert len(set(ids.split())) == 1


def test_it_gets_no_open_files_but_the_inherited_one(session: Session, tmp_path: Path) -> None:
    secret = os.open(tmp_path / "secret", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(secret, True)
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    try:
        ran = session.sh("ls -l /proc/$$/fd", inherit=(lock,))
    finally:
        os.close(secret)
        os.close(lock)
    links = [line.split(b" -> ")[0].split()[-1] + b" " + line.split(b" -> ")[1] for line in ran.text().split(b"\n")[1:]]
    assert [link.split()[0] for link in links if int(link.split()[0]) <= 2] == [b"0", b"1", b"2"]
    inherited = [link for link in links if int(link.split()[0]) > 2]
    assert inherited == [b"%d %s" % (lock, os.fsencode(tmp_path / "lock"))]
    assert links[0] == b"0 /dev/null"


def test_a_prompt_of_a_megabyte_comes_by_stdin_and_not_in_ps(session: Session, tmp_path: Path) -> None:
    prompt = b"a secret prompt\n" * 65536
    (tmp_path / "prompt").write_bytes(prompt)
    file = os.open(tmp_path / "prompt", os.O_RDONLY)
    try:
        ran = session.sh("wc -c; ps -eo args | grep -c 'a secret [p]rompt'", stdin=file)
    finally:
        os.close(file)
    assert ran.text().split() == [b"%d" % len(prompt), b"0"]


def test_it_works_when_we_have_no_stdio_ourselves(session: Session) -> None:
    script = (
        "import os, sys; [os.close(fd) for fd in (0, 1, 2)]\n"
        "from pathlib import Path\n"
        "from tests.process.driver import Session\n"
        "ran = Session(Path('.')).sh('echo out; echo err >&2; cat')\n"
        "os._exit(ran.lines != [('out', b'out', True), ('err', b'err', True)])\n"
    )
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", script], {**os.environ, "PYTHONPATH": os.getcwd()})
    assert os.waitpid(pid, 0)[1] == 0


def test_a_silent_child_runs_into_its_timeout(session: Session) -> None:
    ran = session.sh("exec sleep 60", timeout=0.3)
    assert (ran.exit.signal, ran.exit.reason) == (signal.SIGTERM, "timeout")
    assert 0.3 <= ran.exit.seconds < 10


def test_a_tick_that_says_so_stops_it(session: Session) -> None:
    ticks: list[int] = []

    def third() -> bool:
        ticks.append(1)
        return len(ticks) >= 3

    session.on_tick = third
    ran = session.sh("exec sleep 60")
    assert ran.exit.reason == "stopped"
    assert len(ticks) >= 3


def test_term_goes_to_the_agent_first_so_that_it_can_say_goodbye(session: Session) -> None:
    session.on_tick = lambda: (session.cwd / "ready").exists()
    ran = session.sh("trap 'kill $!; wait $!; echo $?; exit 5' TERM; sleep 60 & touch ready; wait", grace=20.0)
    assert ran.text() == b"143"
    assert (ran.exit.code, ran.exit.reason, ran.exit.swept) == (5, "stopped", 0)


@pytest.mark.parametrize("trick", ["while :; do sleep 0.1; done", "kill -STOP $$", "kill -STOP $!; kill -STOP $$"])
def test_what_ignores_term_or_stands_still_is_gone_after_the_grace(session: Session, trick: str) -> None:
    session.on_tick = lambda: (session.cwd / "ready").exists()
    started = time.monotonic()
    ran = session.sh(f"trap '' TERM; sleep 60 & touch ready; {trick}; sleep 60", grace=1.0)
    assert ran.exit.signal == signal.SIGKILL
    assert time.monotonic() - started < 5
    assert marked(session.mark) == []


def test_an_exception_in_a_callback_ends_the_tree_and_comes_out(session: Session) -> None:
    def fail(line: bytes) -> None:
        raise ValueError(line)

    session.on_line = fail
    with pytest.raises(ValueError, match="hello"):
        session.sh("setsid sleep 60 & echo hello; sleep 60")
    assert marked(session.mark) == []


def test_three_hundred_sessions_leave_no_zombie_and_no_open_file(session: Session) -> None:
    before = children()
    files = len(os.listdir("/proc/self/fd"))
    for number in range(300):
        assert session.run("true" if number % 2 else "false").exit.code == (number + 1) % 2
    assert len(os.listdir("/proc/self/fd")) == files
    assert children() <= before


def test_our_other_children_are_left_alone(session: Session) -> None:
    other = os.posix_spawnp("sleep", ["sleep", "60"], os.environ)
    try:
        session.on_line = lambda line: os.kill(int(line), signal.SIGKILL)
        session.sh("echo $PPID; sleep 60")
        assert alive(other)
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)


def test_an_inherited_lock_is_held_as_long_as_anything_of_the_session_lives(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "lock"

    def free() -> bool:
        with path.open() as other, contextlib.suppress(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    lock = os.open(path, os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    seen: list[bool] = []

    def let_go(line: bytes) -> None:
        os.close(lock)
        seen.append(free())

    session.on_line = let_go
    script = f"import os, time; os.close({lock}); print('closed', flush=True); time.sleep(0.3)"
    assert session.py(script, inherit=(lock,)).text() == b"closed"
    assert seen == [False]
    assert free()
