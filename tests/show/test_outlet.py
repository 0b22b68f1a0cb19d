"""Output that nobody reads holds nothing up, and comes when somebody reads again."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

PATIENCE = 30.0

WRITER = textwrap.dedent(
    """
    import sys, time
    from marathon.show.outlet import Outlet
    outlet = Outlet(sys.stdout)
    began = time.monotonic()
    for number in range(int(sys.argv[1])):
        outlet.write(f"line {number}\\n" + "x" * 1000 + "\\n")
    print(f"written after {time.monotonic() - began}", file=sys.stderr, flush=True)
    sys.stdin.readline()
    outlet.write("and the last\\n")
    outlet.close()
    """
)


def start(count: int) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    argv = [sys.executable, "-c", WRITER, str(count)]
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_a_reader_who_pauses_gets_everything_later() -> None:
    with start(200) as writer:  # more than a pipe takes, less than is held
        assert writer.stderr is not None
        assert writer.stderr.readline().startswith("written after")
        out, _ = writer.communicate("\n", timeout=PATIENCE)
    lines = [line for line in out.splitlines() if line.startswith("line ")]
    assert lines == [f"line {number}" for number in range(200)]
    assert out.endswith("and the last\n")


def test_a_reader_who_never_reads_is_waited_for_once_and_misses_something() -> None:
    with start(5000) as writer:
        assert writer.stderr is not None
        took = float(writer.stderr.readline().split()[-1])
        out, _ = writer.communicate("\n", timeout=PATIENCE)
    assert took < PATIENCE
    assert "left out: no one read it" in out
    assert out.startswith("line 0\n")
    assert out.endswith("and the last\n")


def test_a_reader_who_has_gone_ends_nothing() -> None:
    with start(5000) as writer:
        assert writer.stdout is not None
        writer.stdout.close()
        writer.stdout = None
        assert writer.communicate("\n", timeout=PATIENCE)[1].startswith("written after")
        assert writer.returncode == 0


def test_a_terminal_that_was_stopped_holds_nothing_up() -> None:
    master, terminal = os.openpty()
    try:
        argv = [sys.executable, "-c", WRITER, "20"]
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=terminal, stderr=subprocess.PIPE, text=True
        ) as writer:
            os.write(master, b"\x13")  # Ctrl+S
            assert writer.stderr is not None
            assert writer.stderr.readline().startswith("written after")
            os.write(master, b"\x11")
            assert writer.stdin is not None
            writer.stdin.write("\n")
            writer.stdin.flush()
            seen, deadline = b"", time.monotonic() + PATIENCE
            while b"and the last" not in seen and time.monotonic() < deadline:
                seen += os.read(master, 65536)
        assert b"line 19" in seen
    finally:
        os.close(master)
        os.close(terminal)
