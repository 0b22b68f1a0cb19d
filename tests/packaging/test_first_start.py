"""bin/pi-marathon from nothing, really installing: many starts at once, and starts killed on the way."""

import os
import re
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.packaging.checkouts import PATIENCE, copy_checkout, environment, start

# Compiling everything ahead is only for speed later; without it an installation takes two thirds of the time.
QUICK = {"PIP_NO_COMPILE": "1"}


@contextmanager
def starting(checkout: Path, **changes: str | None) -> Iterator[subprocess.Popen[str]]:
    """`bin/pi-marathon --help` in a process group of its own, of which nothing is left afterwards."""
    with subprocess.Popen(
        [checkout / "bin" / "pi-marathon", "--help"],
        cwd=checkout,
        env=environment(**QUICK, **changes),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Whoever started the tests may have ignored it, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            yield process
        finally:
            signal_group(process, signal.SIGKILL)


@contextmanager
def starting_as_far_as(pattern: str, checkout: Path) -> Iterator[subprocess.Popen[str]]:
    """The same, from when a new .venv holds this; one left by an earlier start does not count."""
    venv, mark = checkout / ".venv", checkout / ".venv" / "left by an earlier start"
    if venv.exists():
        mark.touch()
    with starting(checkout) as process:
        wait_until(lambda: not mark.exists() and any(venv.glob(pattern)), process)
        yield process


def signal_group(process: subprocess.Popen[str], which: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, which)


def wait_until(moment: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not moment():
        assert process.poll() is None, "ended before the moment came"
        assert time.monotonic() < deadline
        time.sleep(0.005)


def the_python_below(process: subprocess.Popen[str]) -> int:
    """The process that the script started and waits for."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 1
    return int(children[0])


@pytest.mark.slow
def test_five_at_once_from_nothing(tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path / "a check out")
    shim = tmp_path / "shims" / "python3.14"
    shim.parent.mkdir()
    shim.write_text(f"#!/bin/sh\necho tried >>'{tmp_path}/tried'\nexit 1\n")
    shim.chmod(0o755)
    # Neither a broken shim that comes first, nor packages on PYTHONPATH that look installed, may mislead it.
    misleading = {
        "PATH": f"{shim.parent}:{os.environ['PATH']}",
        "PYTHONPATH": sysconfig.get_path("purelib"),
    }
    with ExitStack() as stack:
        processes = [stack.enter_context(starting(checkout, **misleading)) for _ in range(5)]
        results = [process.communicate(timeout=PATIENCE) for process in processes]

    assert [process.returncode for process in processes] == [0] * 5, results
    assert all("pi-marathon" in out for out, _ in results)
    assert sum("making .venv" in err for _, err in results) == 1
    assert all(err.count("\n") <= 1 for _, err in results)
    assert (tmp_path / "tried").exists()

    again = start(checkout / "bin" / "pi-marathon", "--help", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (0, "")
    # The pins are installed without looking for more: this says that they are complete.
    checked = start(checkout / ".venv" / "bin" / "python", "-I", "-m", "pip", "check", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.slow
def test_after_interrupted_and_killed_starts_an_ordinary_one_works(tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path / "checkout")
    venv_is_begun, pip_is_at_work = "pyvenv.cfg", "lib/python3.*/site-packages/click"

    with starting(checkout) as process:
        wait_until((checkout / ".venv.lock").exists, process)
        signal_group(process, signal.SIGKILL)

    with starting_as_far_as(venv_is_begun, checkout) as process:
        signal_group(process, signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode in (130, -signal.SIGINT)
        assert "interrupted" in errors

    with starting_as_far_as(pip_is_at_work, checkout) as process:
        signal_group(process, signal.SIGKILL)

    with starting_as_far_as(venv_is_begun, checkout) as orphaning:
        # Only the one in charge is killed; its child would go on writing into .venv.
        signal_group(orphaning, signal.SIGSTOP)
        os.kill(the_python_below(orphaning), signal.SIGKILL)
        with starting(checkout) as process:
            assert process.stderr is not None
            assert "waiting for another start" in process.stderr.readline()
            signal_group(orphaning, signal.SIGCONT)
            _, errors = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, errors
            assert "making .venv" in errors

    again = start(checkout / "bin" / "pi-marathon", "--help", cwd=checkout)
    assert (again.returncode, again.stderr) == (0, "")
    assert {path.name for path in checkout.glob(".venv*")} == {".venv", ".venv.lock", ".venv.log"}


@pytest.mark.slow
def test_a_person_at_a_terminal_sees_how_far_it_is(tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path / "checkout")
    shown = start("script", "-qec", f"{checkout}/bin/pi-marathon --help", "/dev/null", cwd=tmp_path, **QUICK).stdout
    assert re.search(r"making \.venv.*\n.*\[K +[1-9]\d* of 16 packages, \d+ s.*Usage", shown, re.DOTALL)
