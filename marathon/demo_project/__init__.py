"""The demo's small throw-away project; its files wait in `files/` under names our tools pass over."""

from datetime import datetime
from pathlib import Path

from marathon.agents.rehearsal.files import write_text
from marathon.agents.rehearsal.git import git, identity

HERE = Path(__file__).resolve().parent
TASK_NAME = "document-and-test"
# The human's own hooks and signing key have no business in a demo.
_ALONE = {"commit.gpgsign": "false", "core.hooksPath": "/dev/null"}


def unpack(into: Path) -> Path:
    """Write the project into an empty or new directory, commit it, and return its task's directory."""
    if into.exists() and any(into.iterdir()):
        raise FileExistsError(f"{into} is not empty: the demo needs a directory of its own")
    into.mkdir(parents=True, exist_ok=True)
    names = _write_files(into)
    _first_commit(into, names)
    task = into / "docs" / "tasks" / f"{datetime.now():%Y%m%d-%H%M%S}-{TASK_NAME}"
    write_text(task / "instructions.md", (HERE / "instructions.md").read_text(encoding="utf-8"))
    return task


def _write_files(into: Path) -> list[str]:
    names = []
    for source in sorted((HERE / "files").rglob("*.txt")):
        name = source.relative_to(HERE / "files").as_posix().removesuffix(".txt")
        if name.startswith("dot-"):  # A real .gitignore here would hide files from our own build.
            name = name.replace("dot-", ".", 1)
        write_text(into / name, source.read_text(encoding="utf-8"))
        names.append(name)
    return names


def _first_commit(into: Path, names: list[str]) -> None:
    """Make it a repository; without git it stays a plain folder, and the demo goes on."""
    git(into, "init", "-q", "--template=")
    git(into, "symbolic-ref", "HEAD", "refs/heads/main")
    for key, value in _ALONE.items():
        git(into, "config", key, value)
    git(into, "add", "--force", "--", *names)
    git(into, *identity(into), "commit", "-q", "-m", "textkit, a small kit for words")
