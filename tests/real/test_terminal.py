"""The terminal that a killed pi leaves behind."""

from __future__ import annotations

import os
import re
import signal

from tests.real.model_server import Turn, bash
from tests.real.real_world import RealWorld, pis

PI = "newest"
USUALLY_ON = {b"7", b"25"}  # lines wrap, and the cursor is shown


def left_switched(written: bytes) -> set[bytes]:
    """The modes that are not as a shell has them."""
    last = dict(re.findall(rb"\x1b\[\?(\d+)([hl])", written))
    return {mode for mode, switch in last.items() if switch != (b"h" if mode in USUALLY_ON else b"l")}


def test_a_killed_pi_leaves_no_mode_of_the_terminal_switched(real: RealWorld) -> None:
    real.pi.has_settings(terminal={"showTerminalProgress": True})
    real.plays([Turn("I work.", tools=[bash("echo begun; sleep 60")])])
    terminal = real.tui("--retries", "0")
    try:
        seen = terminal.expect(b"begun")
        terminal._read(0.3)
        assert {b"7", b"1049"} <= left_switched(seen + terminal.seen)
        for pid in pis(real):
            os.kill(pid, signal.SIGKILL)
        seen += terminal.expect(b"[q]      Quit marathon")
        terminal.send(b"q")
        terminal.wait()
        seen += terminal.seen
    finally:
        terminal.close()
    assert not left_switched(seen)
    assert re.findall(rb"\x1b\]9;4;(\d)", seen)[-1] == b"0"
