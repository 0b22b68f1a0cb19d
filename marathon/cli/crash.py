"""Keeps the details of an unexpected error in a private file instead of on the user's screen."""

from __future__ import annotations

import os
import tempfile
import traceback


def keep_traceback() -> str:
    """The path of a file with the current traceback; a word if even that cannot be written."""
    try:
        fd, path = tempfile.mkstemp(prefix="pi-marathon-", suffix=".log")
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            traceback.print_exc(file=file)
    except OSError:
        return "none could be written"
    return path
