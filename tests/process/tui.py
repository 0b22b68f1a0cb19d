"""A full-screen program in small: raw keys, alternate screen, mouse, no cursor. It acts on single keys."""

from __future__ import annotations

import os
import signal
import sys
import termios
import tty
from types import FrameType

ENTER = b"\x1b[?1049h\x1b[?1000h\x1b[?1006h\x1b[?2004h\x1b[>7u\x1b[?25l"


def write(text: bytes) -> None:
    os.write(1, text)


def resized(signum: int, frame: FrameType | None) -> None:
    size = os.get_terminal_size()
    write(b"<%dx%d>" % (size.lines, size.columns))


def leave(signum: int, frame: FrameType | None) -> None:
    termios.tcsetattr(0, termios.TCSADRAIN, SAVED)
    write(b"<bye>")
    sys.exit(0)


SAVED = termios.tcgetattr(0)
signal.signal(signal.SIGWINCH, resized)
signal.signal(signal.SIGTERM, leave)
signal.signal(signal.SIGHUP, leave)
tty.setraw(0)
write(ENTER + b"<tui %d>" % os.getpid())
while key := os.read(0, 1):
    if key == b"q":
        leave(0, None)
    elif key == b"k":
        os.kill(os.getpid(), signal.SIGKILL)
    elif key == b"z":
        os.kill(0, signal.SIGTSTP)
        write(b"<again>")
    else:
        write(b"<key %s>" % key.hex().encode())
