"""What the user's git would start when someone else uses it in a folder: programs that lie where an agent can write."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from marathon.core.text import one_line
from marathon.git.run import GitTookTooLong, Setting, read_settings, run, top_above

_PATIENCE = 5.0
_SWITCHES = {"", "true", "false", "yes", "no", "on", "off", "0", "1"}
_NAMED = re.compile(r"filter\..+\.(clean|smudge|process)|hook\..+\.command|gpg(\..+)?\.program|core\.fsmonitor", re.S)
_OF_COMMIT = "commit"
_OF_EVERY_CHANGE = "post-index-change"  # the hook that status and add start as well


def started(verb: str, folder: str, roots: Sequence[str]) -> str:
    """Which program of the project git VERB would start in this folder, as a part of a sentence. Empty: none."""
    place = Path(folder)
    if bare := _bare_repository(place, roots):
        return f"git would obey the settings in {one_line(str(bare), 100)}, which may be a repository"
    try:
        settings = read_settings(place, _PATIENCE) if place.is_dir() else []
        hooks = _hooks(place, settings)
    except (OSError, ValueError, GitTookTooLong) as error:
        return f"what git would start is not known: {one_line(str(error), 200)}"
    for each in settings:
        named = _NAMED.fullmatch(each.name) and each.value.casefold() not in _SWITCHES
        if named and each.scope in ("local", "worktree") and not each.value.startswith("git-lfs "):
            return f"git starts {one_line(each.value, 100)}, which .git/config names as {one_line(each.name, 60)}"
    inside = [each for each in hooks if _is_in(each, roots)]
    if verb != _OF_COMMIT:
        inside = [each for each in inside if os.path.basename(each) == _OF_EVERY_CHANGE or each.is_dir()]
        inside = [each for each in inside if not each.is_dir() or (each / _OF_EVERY_CHANGE).exists()]
    return f"git {verb} starts the hooks in {one_line(os.path.relpath(inside[0], roots[0]), 100)}" if inside else ""


def _hooks(folder: Path, settings: Sequence[Setting]) -> list[Path]:
    """The folder of the hooks, and where each of them really lies."""
    top, named = top_above(folder), [each.value for each in settings if each.name == "core.hookspath"]
    if top is None:
        return []
    if named and named[-1]:
        where = top / Path(named[-1]).expanduser()
    else:
        said = run(top, "rev-parse", "--path-format=absolute", "--git-common-dir", seconds=_PATIENCE).stdout
        where = Path(os.fsdecode(said).strip() or top / ".git", "hooks")
    try:
        links = [each.resolve() for each in where.iterdir() if each.suffix != ".sample" and each.is_symlink()]
    except OSError:
        links = []
    return [where.resolve(), *links]


def _is_in(path: Path, roots: Sequence[str]) -> bool:
    """Whether an agent can write it. What lies in .git it cannot."""
    return any(path.is_relative_to(root) and ".git" not in path.relative_to(root).parts for root in roots)


def _bare_repository(folder: Path, roots: Sequence[str]) -> Path | None:
    """A folder that may be a repository without being called .git. An agent can make its files like any other."""
    for each in (folder, *folder.parents):
        if not any(each.is_relative_to(root) for root in roots) or os.path.lexists(each / ".git"):
            return None
        if os.path.lexists(each / "HEAD"):
            return each
    return None
