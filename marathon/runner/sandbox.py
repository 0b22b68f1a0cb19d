"""What a sandboxed session may write: the project with its repository, the task, and the agent's own folders.

What would lead out later is held: what tells git which programs to start, and the folders of other tasks. What the
runner reads back is not there at all, but for the session's own channel.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from marathon.agents.pi.tui import PiTui
from marathon.core.carried import may_be_secret
from marathon.core.courses.workflow import Phase
from marathon.errors import TaskInvalid
from marathon.git.run import read_settings, top_above
from marathon.git.worktree import GitFailed, git
from marathon.process.sandbox import WRAP, Place, arguments, as_variable
from marathon.runner.meanwhile import is_held, other_tasks
from marathon.store.files import disk_errors, make_private_directory, read_regular, unused_name
from marathon.store.places import claude_folder, config_folder, pi_folder

if TYPE_CHECKING:
    from marathon.runner.marathon import Marathon

_PATIENCE = 20.0
_FOLDERS, _FILES = ("hooks", "info"), ("config",)  # of a repository: they say what git starts


def for_session(marathon: Marathon, phase: Phase, prompt: str, log: str, usage_file: str) -> str:
    """The sandbox of the next session, as `process.start` reads it."""
    agent = marathon.agent_of(phase)
    session = [Place(Path(prompt), "read"), Place(Path(usage_file), "write")]
    if isinstance(agent, PiTui):  # our extension in pi writes the log
        session.append(Place(Path(log), "write"))
    for each in session:
        each.path.touch(mode=0o600)
    own = of_agent(agent.name, marathon.environ)
    return as_variable(_wall(marathon, own, read_only=is_held(marathon, phase)), session)


def for_commands(marathon: Marathon) -> dict[str, str]:
    """The same for commands that run what the agent wrote, as the environment takes it."""
    return {WRAP: as_variable(_wall(marathon, (), read_only=False), ())} if marathon.options.sandbox else {}


def for_ground(marathon: Marathon, writable: Sequence[Path]) -> dict[str, str]:
    """For the commands of a measured loop. They write where they run, and nowhere else."""
    if not marathon.options.sandbox:
        return {}
    state = Place(Path(os.path.realpath(platformdirs.user_state_path("pi-marathon"))), "nothing")
    ground = [Place(Path(os.path.realpath(each)), "write") for each in writable]
    return {WRAP: as_variable(arguments([state, *ground], offline=marathon.options.sandbox == "offline"), ())}


def _wall(marathon: Marathon, agents: Sequence[Path], *, read_only: bool) -> list[str]:
    task, channel = marathon.task, marathon.channel
    project = Path(os.path.realpath(marathon.project))
    rounds = task.runs.folder(marathon.life.run) / "rounds"  # a prompt may name what lies there
    state = platformdirs.user_state_path("pi-marathon")
    for folder in (state, rounds, channel.box):
        make_private_directory(folder)
    places = [
        *(Place(each, "write") for each in marathon.options.sandbox_write),  # what follows holds there, too
        Place(project, "read" if read_only else "write"),
        *_repository(project, read_only=read_only),
        *(Place(each, "read") for each in _secrets(marathon)),
        *(Place(each, "read") for each in other_tasks(marathon) if each != project and each.is_relative_to(project)),
        *([Place(marathon.workbench.lanes.root, "read")] if marathon.workbench else []),
        Place(task.folder, "write"),
        *(Place(each, "write") for each in agents),
        Place(config_folder(), "read"),
        Place(state, "nothing"),
        *(Place(each, "read") for each in (rounds, task.journal_path, task.home.note, task.lock_path)),  # for `status`
        Place(channel.folder, "write", instead=channel.box),
    ]
    real = [place._replace(path=Path(os.path.realpath(place.path))) for place in places]
    return arguments(real, offline=marathon.options.sandbox == "offline")


def _secrets(marathon: Marathon) -> Iterator[Path]:
    """Of what was copied into the worktree, what may be a secret."""
    place, top = marathon.life.worktree, top_above(marathon.project)
    if place is None or top is None:
        return
    for name in filter(may_be_secret, place.copied):
        path = Path(os.path.realpath(top / name))  # an agent may have put a link there
        if path.is_relative_to(os.path.realpath(top)) and path.is_file():
            yield path


def of_agent(name: str, environ: Mapping[str, str]) -> list[Path]:
    """The folders in which an agent keeps its sessions and its login."""
    home, usual = environ.get("HOME") or "/", {"DATA": ".local/share", "STATE": ".local/state", "CONFIG": ".config"}
    known = {
        "pi": [pi_folder(environ)],
        "claude": [claude_folder(environ), Path(home, ".claude.json")],
        "codex": [Path(environ.get("CODEX_HOME") or Path(home, ".codex"))],
        "gemini": [Path(environ.get("GEMINI_CLI_HOME") or home, ".gemini")],
        "opencode": [
            Path(environ.get(f"XDG_{kind}_HOME") or Path(home, below), "opencode")
            for kind, below in {**usual, "CACHE": ".cache"}.items()
        ],
    }
    return known.get(name, [])


# The repository


def _repository(project: Path, *, read_only: bool) -> Iterator[Place]:
    """git works in it, but for what says which programs git starts, for whoever uses it next."""
    top = top_above(project)
    if top is None:
        return
    if top not in (project, Path("/")):
        yield Place(top, "read")
    entry, own, common = _git_folders(top)
    if read_only or (top == project and not _belongs(own, common, entry)):
        yield from (Place(common, "read"), Place(own, "read"))
        return
    yield Place(common, "write")
    for folder in (common, *_modules(common), *_modules(own)):
        yield from _held(folder)
    with contextlib.suppress(OSError):  # other worktrees
        yield from (Place(each, "read") for each in sorted((common / "worktrees").iterdir()) if each != own)
    if own != common:
        yield Place(own, "write")
        yield from (Place(own / name, "read") for name in ("commondir", "gitdir", "config.worktree"))
    if entry.is_file():
        yield Place(entry, "read")
    for setting in read_settings(project, _PATIENCE):
        if setting.name == "core.hookspath":
            path = Path(top, os.path.expanduser(setting.value))
            yield Place(path.parent if path.name == "_" else path, "read")  # husky's hooks start those beside them
        elif setting.name.startswith("include") and setting.name.endswith(".path"):
            yield Place(Path(common, os.path.expanduser(setting.value)), "read")


def _git_folders(top: Path) -> tuple[Path, Path, Path]:
    """What is called .git here, the git directory of this working tree, and the one of the repository.

    Read from the entry alone: what stands in the git directory may be an agent's.
    """
    entry = top / ".git"
    if entry.is_symlink():
        raise TaskInvalid(
            f"{entry} is a link, which nothing can hold. For --sandbox put what it leads to in its place."
        )
    if entry.is_dir():
        return entry, entry, entry
    said = os.fsdecode((read_regular(entry, 4096) or b"").removeprefix(b"gitdir:").strip())
    own = Path(os.path.realpath(top / said))
    return entry, own, own.parents[1] if own.parent.name == "worktrees" else own


def _belongs(own: Path, common: Path, entry: Path) -> bool:
    """Whether a repository says itself that this working tree is one of its own. An agent may have written the entry,
    and must not choose the folder that the next session may write."""
    if own == common == entry:
        return True
    if own != common:
        named = (read_regular(own / "gitdir", 4096) or b"").strip()
        return own.parent == common / "worktrees" and os.path.realpath(os.fsdecode(named)) == str(entry)
    with contextlib.suppress(GitFailed):  # a submodule
        tree = git(entry.parent, "config", "--file", str(own / "config"), "--get", "core.worktree")
        return os.path.realpath(own / tree) == str(entry.parent)
    return False


def _modules(folder: Path) -> Iterator[Path]:
    """The repositories of submodules."""
    for path, folders, files in os.walk(folder / "modules"):
        if {"HEAD", "config"} <= {*files}:
            folders[:] = [name for name in folders if name == "modules"]
            yield Path(path)


def _held(folder: Path) -> Iterator[Place]:
    """What is missing is made, because only what is there can be held."""
    for name in (*_FOLDERS, *_FILES):
        path = folder / name
        if path.is_symlink():
            raise TaskInvalid(f"{path} is a link, which nothing can hold. For --sandbox put a copy in its place.")
        path.mkdir(exist_ok=True) if name in _FOLDERS else path.touch()
        yield Place(path, "read")


def put_right(marathon: Marathon) -> None:
    """A file that is not there cannot be held. This one would lead git to another folder, and to the hooks there."""
    top = top_above(marathon.project) if marathon.options.sandbox else None
    if top is None or (top / ".git").is_symlink():
        return
    led = _git_folders(top)[2] / "commondir"
    if os.path.lexists(led):
        kept = unused_name(led.with_name("commondir.found"))
        with disk_errors("take away", led):
            os.rename(led, kept)
        marathon.tell(f"Something put {led} there, which leads git elsewhere. It is kept as {kept.name}.", "warning")
