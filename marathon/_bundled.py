"""Finds the folders that ship with pi-marathon (`skills`, `task-template`): in a checkout and in a wheel."""

from pathlib import Path


def bundled(name: str) -> Path:
    """The shipped file or folder of this name, such as `skills` or `task-template/instructions.md`."""
    package = Path(__file__).resolve().parent
    in_wheel = package / "_data"
    found = (in_wheel if in_wheel.is_dir() else package.parent) / name
    if not found.exists():
        raise FileNotFoundError(f"pi-marathon is not whole: {found} is missing; install it again")
    return found
