"""The demos' small throw-away projects. Their files are in folders `files/`, under names that our own tools ignore."""

from datetime import datetime
from pathlib import Path

from marathon.agents.rehearsal.project import git

HERE = Path(__file__).resolve().parent
TASK_NAME = "document-textkit"
# The demo uses its own name and neither the human's hooks nor their signing key.
SETTINGS = {
    "user.name": "pi-marathon demo",
    "user.email": "demo@marathon.invalid",
    "core.hooksPath": "/dev/null",
    "commit.gpgsign": "false",
}


def unpack(into: Path) -> Path:
    """Write the project into an empty or new directory, commit it, and return its task's directory."""
    _write(HERE / "files", into, "textkit, a small kit for words")
    task = into / "docs" / "tasks" / f"{datetime.now():%Y%m%d-%H%M%S}-{TASK_NAME}"
    task.mkdir(parents=True)
    (task / "instructions.md").write_bytes((HERE / "instructions.md").read_bytes())
    return task


def unpack_loop(into: Path) -> bool:
    """Write the project of `demo --loop`. False if there is no git, without which nothing can be kept or reverted."""
    return _write(HERE / "loop" / "files", into, "anagrams, slow but right")


def _write(files: Path, into: Path, message: str) -> bool:
    if into.exists() and any(into.iterdir()):
        raise FileExistsError(f"{into} is not empty: the demo needs a directory of its own")
    names = []
    for source in sorted(files.rglob("*.txt")):
        name = source.relative_to(files).as_posix().removesuffix(".txt")
        names.append(name.replace("dot-", "."))  # A real .gitignore here would hide files from our own build.
        (into / names[-1]).parent.mkdir(parents=True, exist_ok=True)
        (into / names[-1]).write_bytes(source.read_bytes())
    return _first_commit(into, names, message)


def _first_commit(into: Path, names: list[str], message: str) -> bool:
    """Make the project a repository. Without git it stays a plain folder, and the demo still works."""
    git(into, "init", "-q", "--template=")
    git(into, "symbolic-ref", "HEAD", "refs/heads/main")
    for key, value in SETTINGS.items():
        git(into, "config", key, value)
    git(into, "add", "--force", "--", *names)
    return git(into, "commit", "-q", "-m", message)[0]
