"""A disk that is soon full: a small tmpfs where we may mount one, else a limit on the size of files."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.world import World, as_human

SIZE = 512 * 1024


@dataclass
class SmallDisk:
    """`full` is what the system says there."""

    folder: Path
    mounted: bool

    @property
    def full(self) -> str:
        return "No space left on device" if self.mounted else "File too large"

    def fill(self) -> None:
        """Leave no room, on a mounted disk; elsewhere the limit does it."""
        if self.mounted:
            with (self.folder / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(b"x" * 1024):
                    pass

    def free(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)

    def run(self, world: World, *args: str, limited: int | None = None) -> subprocess.CompletedProcess[str]:
        """A command; `limited`: no file may become longer than this where the disk itself has no limit."""
        return subprocess.run(
            world.argv(*as_human(args, world.project, world.home)),
            cwd=world.project,
            # A compiled module that does not fit would be left cut off in our own checkout.
            env=world.env(PYTHONDONTWRITEBYTECODE="1"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=None if self.mounted or limited is None else limit(limited),
        )


def limit(size: int) -> Callable[[], None]:
    """For preexec_fn: a write beyond this fails."""

    def apply() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return apply


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    folder.mkdir()
    mounted = os.geteuid() == 0 and _mount(folder)
    try:
        yield SmallDisk(folder, mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def _mount(folder: Path) -> bool:
    argv = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},nr_inodes=300", "tmpfs", str(folder)]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0
