"""Keeps the details of an unexpected error in a private file, not on the screen."""

from __future__ import annotations

import os
import tempfile
import traceback


def keep_traceback() -> str:
    """Write the current traceback to a file and return its path, or say that it could not be written."""
    try:
        fd, path = tempfile.mkstemp(prefix="pi-marathon-", suffix=".log")
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            traceback.print_exc(file=file)
    except OSError:
        return "they could not be written"
    return path
