"""The few git commands the agent needs; without git or a repository they answer so, and nothing breaks."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

NAME, EMAIL = "Rehearsal Agent", "rehearsal@marathon.invalid"


class Answer(NamedTuple):
    ok: bool
    text: str


def git(where: Path, *arguments: str) -> Answer:
    """Run git in a directory; never asks anything, never raises."""
    try:
        done = subprocess.run(
            ["git", "--literal-pathspecs", *arguments],
            cwd=where,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as trouble:
        return Answer(False, str(trouble))
    output = done.stdout if done.returncode == 0 else done.stderr or done.stdout
    return Answer(done.returncode == 0, output.decode("utf-8", "surrogateescape"))


def tracked(project: Path) -> list[str]:
    """The project's tracked files, relative to it."""
    answer = git(project, "ls-files", "-z")
    return [name for name in answer.text.split("\0") if name] if answer.ok else []


def is_changed(project: Path, path: str) -> bool:
    """Whether a file holds changes that are not committed."""
    return bool(git(project, "status", "--porcelain", "--", path).text.strip())


def identity(where: Path) -> list[str]:
    """Options that name an author, only where git is not told of one already."""
    if all(git(where, "config", "--get", key).ok for key in ("user.name", "user.email")):
        return []
    return ["-c", f"user.name={NAME}", "-c", f"user.email={EMAIL}"]


def commit(project: Path, paths: Sequence[str], message: str) -> str:
    """Commit exactly these files; what came of it, in words."""
    if not paths:
        return "nothing to commit"
    added = git(project, "add", "--", *paths)
    # Signing may open a window for a passphrase, and nobody sits in front of it.
    options = ["-c", "commit.gpgsign=false", *identity(project)]
    done = git(project, *options, "commit", "-q", "-m", message, "--", *paths) if added.ok else added
    if not done.ok:
        return f"not committed: {' '.join(done.text.split())[:200]}"
    return f"committed {git(project, 'rev-parse', '--short', 'HEAD').text.strip()}"
