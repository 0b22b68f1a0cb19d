"""The few git commands the agent needs; without git or a repository they answer so, and nothing breaks."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

LONGEST_COMMAND = 120
NAME, EMAIL = "Rehearsal Agent", "rehearsal@marathon.invalid"
# A git hook that starts us has these set, and they would lead every command into its repository.
_LEADING_ASTRAY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


class Answer(NamedTuple):
    ok: bool
    text: str


class Commit(NamedTuple):
    """The short id of a commit, or why there is none."""

    id: str
    why_not: str


def git(where: Path, *arguments: str) -> Answer:
    """Run git in a directory; never asks anything, never raises."""
    environment = {key: value for key, value in os.environ.items() if key not in _LEADING_ASTRAY}
    try:
        done = subprocess.run(
            ["git", "--literal-pathspecs", *arguments],
            cwd=where,
            env=environment | {"GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST_COMMAND,
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


def has_repository(project: Path) -> bool:
    """Whether commits made here belong to this project, and not to a repository it merely lies in."""
    top = git(project, "rev-parse", "--show-toplevel")
    return top.ok and (Path(top.text.strip()) == project.resolve() or bool(tracked(project)))


def is_changed(project: Path, path: str) -> bool:
    """Whether a file differs from what is committed (a new file does)."""
    return bool(git(project, "status", "--porcelain", "--", path).text.strip())


def changed_files(project: Path) -> list[str]:
    """Tracked files with changes that are not committed."""
    answer = git(project, "diff", "--name-only", "-z", "--relative", "HEAD")
    return [name for name in answer.text.split("\0") if name] if answer.ok else []


def committed_text(project: Path, path: str) -> str | None:
    """The file as it stands in HEAD."""
    answer = git(project, "show", f"HEAD:./{path}")
    return answer.text if answer.ok else None


def identity(where: Path) -> list[str]:
    """Options that name an author, only where git is not told of one already."""
    if all(git(where, "config", "--get", key).ok for key in ("user.name", "user.email")):
        return []
    return ["-c", f"user.name={NAME}", "-c", f"user.email={EMAIL}"]


def commit(project: Path, paths: Iterable[str], message: str) -> Commit:
    """Commit exactly these files; what else is staged or changed stays as it is."""
    names = list(paths)
    added = git(project, "add", "--", *names)
    # Signing may open a window for a passphrase, and nobody sits in front of it.
    options = ["-c", "commit.gpgsign=false", *identity(project)]
    done = git(project, *options, "commit", "-q", "-m", message, "--", *names) if added.ok else added
    if not done.ok:
        return Commit("", " ".join(done.text.split()) or "git refused without a word")
    return Commit(git(project, "rev-parse", "--short", "HEAD").text.strip(), "")
