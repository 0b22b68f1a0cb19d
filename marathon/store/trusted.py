"""Remembers which commands a human agreed to, outside of every project, so that no repository can agree."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marathon.store.files import make_private_directory, write_atomic

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Trusted:
    """A folder with a file for each set of commands, named by its digest. Files are only added."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, digest: str) -> bool:
        return bool(_DIGEST.fullmatch(digest)) and (self._folder / f"{digest}.json").is_file()

    def remember(self, digest: str, facts: Mapping[str, Any]) -> None:
        """Remember the agreement. `facts` tell a human who opens the file what it was about."""
        if not self.has(digest):
            make_private_directory(self._folder)
            write_atomic(self._folder / f"{digest}.json", (json.dumps(facts, indent=2) + "\n").encode())
