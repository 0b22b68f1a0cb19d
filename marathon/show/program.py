"""How the human's shell starts this program."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import sys
from pathlib import Path

NAME = "pi-marathon"


@functools.cache
def program() -> str:
    """What to type, quoted. From a checkout that is not on the PATH this is the whole path."""
    if shutil.which(NAME):
        return NAME
    checkout = Path(__file__).resolve().parents[2] / "bin" / NAME
    for path in (checkout, Path(sys.executable).parent / NAME):
        if os.access(path, os.X_OK):
            return shlex.quote(str(path))
    return f"{shlex.quote(sys.executable)} -P -m marathon"


def as_typed(command: str) -> str:
    """A command that begins with pi-marathon, as it works in this shell."""
    return program() + command.removeprefix(NAME) if command.startswith(f"{NAME} ") else command
