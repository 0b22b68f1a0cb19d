"""Makes .venv hold the pinned packages and pi-marathon itself; setup.sh runs it, with any Python >= 3.11.

Safe to start many times at once and to kill anywhere: one lock, and a record in .venv that is written last.
"""

import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
# This folder says that we made .venv; a copy of a pins file in it says that those pins are installed.
RECORD = VENV / "pi-marathon"
LOCK, LOG = ROOT / ".venv.lock", ROOT / ".venv.log"
BEGUN, DISCARDED = ROOT / ".venv.begun", ROOT / ".venv.discarded"


class SetUpError(Exception):
    """Set-up cannot go on; the text says what the user has to look at."""


def main(command: str, pins: list[str]) -> int:
    try:
        with only_one() as lock:
            if not is_ready(pins):
                set_up(pins, lock)
    except (SetUpError, OSError) as error:
        say(f"cannot set up .venv: {error}. When that is fixed, type: {shlex.quote(command)}")
        return 1
    except KeyboardInterrupt:
        say(f"set-up interrupted; to do it again type: {shlex.quote(command)}")
        return 130
    return 0


@contextmanager
def only_one() -> Iterator[int]:
    """Hold the lock. Children of the holder hold it too: an orphaned pip still keeps others out."""
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another start that is setting up .venv ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def is_ready(pins: list[str]) -> bool:
    return python_works() and all(is_recorded(name) for name in pins)


def is_recorded(name: str) -> bool:
    copy = RECORD / name
    return copy.exists() and copy.read_bytes() == (ROOT / name).read_bytes()


def python_works() -> bool:
    new_enough = "import sys; sys.exit(sys.version_info < (3, 11))"
    command = [str(PYTHON), "-I", "-c", new_enough]
    return PYTHON.exists() and subprocess.run(command, capture_output=True).returncode == 0


def set_up(pins: list[str], lock: int) -> None:
    discard_unfinished()
    LOG.write_bytes(b"")
    if not VENV.exists():
        make_venv(lock)
    elif not python_works():
        raise SetUpError(f"{VENV} is not ours and has no working Python >= 3.11: move it away")
    else:
        say("bringing .venv up to date ...")
        # Without network this fails before anything is changed: the pins of before go on working.
        install(pins, lock, "--dry-run")
    forget_record()
    install(pins, lock)
    add_ourselves()
    write_record(pins)


def discard_unfinished() -> None:
    """Clear away what a killed set-up left. A .venv without our record is somebody's own: never deleted."""
    for leftover in (BEGUN, DISCARDED):
        shutil.rmtree(leftover, ignore_errors=True)
    if RECORD.exists() and not (python_works() and any(RECORD.iterdir())):
        VENV.rename(DISCARDED)
        shutil.rmtree(DISCARDED)


def make_venv(lock: int) -> None:
    say(f"making .venv with Python {sys.version.split()[0]} (once, less than a minute) ...")
    # .venv appears together with our record, in one step.
    (BEGUN / RECORD.name).mkdir(parents=True)
    BEGUN.rename(VENV)
    # The real path: a link like /usr/bin/python3 may point to another version tomorrow.
    python = os.path.realpath(sys.executable)
    run([python, "-I", "-m", "venv", str(VENV)], lock, "Python's venv module failed", "Python itself")


def forget_record() -> None:
    if RECORD.exists():
        for copy in RECORD.iterdir():
            copy.unlink()


def install(pins: list[str], lock: int, *options: str) -> None:
    # -I: packages on PYTHONPATH would count as installed. --no-deps: the pins are complete.
    pip = [str(PYTHON), "-I", "-m", "pip", "--disable-pip-version-check", "--no-input"]
    what = [option for name in pins for option in ("-r", name)]
    command = [*pip, "install", "--no-user", "--no-deps", *options, *what]
    run(command, lock, "pip failed (is the network up?)", f"of {packages(pins)} packages")


def packages(pins: list[str]) -> int:
    lines = [line for name in pins for line in (ROOT / name).read_text().splitlines()]
    return len({line for line in lines if "==" in line})


def run(argv: list[str], lock: int, failure: str, progress: str) -> None:
    """A person at a terminal sees how far it is: pip's log has a line for each package it takes."""
    begun, before = time.monotonic(), LOG.stat().st_size
    with LOG.open("ab") as log:
        child = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[lock])
    try:
        while sys.stderr.isatty() and child.poll() is None:
            with LOG.open("rb") as log:
                log.seek(before)
                taken = sum(line.startswith(b"Collecting ") for line in log)
            seconds = int(time.monotonic() - begun)
            print(f"\r\033[K  {taken or ''} {progress}, {seconds} s", end="", file=sys.stderr, flush=True)
            time.sleep(0.2)
        child.wait()
    except BaseException:
        child.kill()
        child.wait()
        raise
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    if child.returncode != 0:
        raise SetUpError(f"{failure}; see {LOG}")


def add_ourselves() -> None:
    """Make `import marathon` and the command work, by relative ways: a moved checkout goes on working."""
    for site_packages in VENV.glob("lib/python3.*/site-packages"):
        up = os.path.relpath(ROOT, site_packages)
        (site_packages / "pi-marathon-checkout.pth").write_text(up + "\n")
    script = VENV / "bin" / "pi-marathon"
    script.unlink(missing_ok=True)
    script.symlink_to("../../bin/pi-marathon")


def write_record(pins: list[str]) -> None:
    RECORD.mkdir(exist_ok=True)
    for name in pins:
        shutil.copyfile(ROOT / name, RECORD / name)


def say(text: str) -> None:
    print(f"pi-marathon: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
