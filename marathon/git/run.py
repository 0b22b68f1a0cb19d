"""The one place that runs git for the runner, and obeys no one: neither the repository nor the shell that started us.

Agents write in a repository, and its configuration, its hooks and its attributes name programs. So the settings that
name one are replaced: by the user's own for what changes files (Git LFS is such a filter), otherwise by none.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

# What no configuration has a say in. The command line's scope comes last, so these win.
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.askPass": "",
    "core.sshCommand": "false",
    "credential.helper": "",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "log.showSignature": "false",  # it would start gpg.program
    "submodule.recurse": "false",
    "safe.bareRepository": "explicit",  # a folder with HEAD, objects and refs may be any file of the project
}
_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",  # a partial clone may name the program that sends its objects
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}
# How far git looks for a repository. Every other variable of this kind redirects it.
_WHERE = {"GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM"}
# Of the user's own settings, what says whose the work is and which files count. In a repository its own win.
_USERS = re.compile(
    r"core\.(excludesfile|attributesfile|autocrlf|eol|safecrlf|filemode|ignorecase|precomposeunicode|symlinks)"
    r"|(user|author|committer)\.(name|email|useconfigonly)|init\.defaultobjectformat"
)
_SAFE = "safe.directory"  # counts only where it is the user's own
_FILTER = re.compile(r"filter\..+\.(clean|smudge|process|required)", re.S)
# What else names a program that git, or a filter of the user, would start.
_COMMAND = re.compile(
    r"diff\..+\.(command|textconv)|merge\..+\.driver|credential\..+\.helper|gpg(\..+)?\.(program|defaultkeycommand)"
    r"|core\.(gitproxy|alternaterefscommand|editor|pager)|lfs\.(.+\.)?standalonetransferagent"
    r"|lfs\.(customtransfer|extension)\..+|remote\..+\.(vcs|uploadpack|receivepack)",
    re.S,
)
_HOOK = re.compile(r"(hook\..+)\.(command|event|enabled)", re.S)  # newer git finds hooks in its configuration, too
_OWN_SCOPES = ("local", "worktree")
# These start nothing that a setting names, so what the configuration said before is good enough.
_READING = {
    *("cat-file", "check-attr", "check-ignore", "check-ref-format", "diff", "diff-tree", "for-each-ref", "log"),
    *("ls-files", "ls-tree", "merge-base", "rev-list", "rev-parse", "show", "var"),
}
_PLAINLY = ("--no-ext-diff", "--no-textconv", "--no-color")
_NAMES_READ = {".gitignore", ".gitattributes", ".gitmodules"}
_MOST_LOOKED_AT = 50_000


class GitTookTooLong(Exception):
    """git did not end in its time; says so as a sentence."""


class Setting(NamedTuple):
    scope: str
    name: str  # in lower case, but for what stands between its dots
    value: str


_known: dict[Path, list[Setting]] = {}  # what the configuration said last, in each folder
_stuck: dict[tuple[Path, str], Path] = {}  # a repository and a command, and the pipe that git waited for


def run(
    folder: Path | None,
    *args: str,
    seconds: float,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    private: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder. Without one, `env` has to name the repository. OSError: it cannot be started.

    `private` is for files that only we may read, otherwise the user's own umask counts.
    """
    until = time.monotonic() + seconds
    command = next((word for word in args if not word.startswith("-")), "")
    own, top = dict(env or {}), None
    settings = list(_SETTINGS.items())
    if "GIT_DIR" not in own and folder is not None:
        top = top_above(folder)
        if top is not None:
            own["GIT_WORK_TREE"] = str(top)  # core.worktree of the repository would name another
        found = _known.get(folder) if command in _READING else None
        found = _known[folder] = read_settings(folder, seconds) if found is None else found
        settings += _replaced(found, filters=command not in _READING)
    if command in ("diff", "log", "show"):
        at = args.index(command) + 1
        args = (*args[:at], *_PLAINLY, *args[at:])
    place = ("-C", str(folder)) if folder is not None else ()
    where = top or Path(own.get("GIT_WORK_TREE", os.devnull))
    done = _finish(
        ("git", *place, *args),
        where,
        command,
        {**_bare(), **own, **_as_variables(settings)},
        until,
        stdin,
        private,
    )
    if done.returncode:
        _known.clear()  # the user may change their settings because of it
    return done


def push_as_the_user(folder: Path, remote: str, branch: str) -> int:
    """The one command that obeys the user's own git with its login, hooks and LFS, because they have just said yes."""
    return subprocess.run(
        ["git", "push", "--", remote, f"refs/heads/{branch}:refs/heads/{branch}"], cwd=folder
    ).returncode


def top_above(folder: Path) -> Path | None:
    """The folder whose `.git` is the repository of this one, whatever the repository says of itself."""
    folder = folder.resolve()
    return next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)


def read_settings(folder: Path, seconds: float) -> list[Setting]:
    """What the configuration says in this folder: the user's, and the repository's own. Nothing of it is started."""
    until = time.monotonic() + seconds
    users = {name: value for name, value in os.environ.items() if name.startswith("GIT_CONFIG_")}
    env = {name: value for name, value in _bare().items() if not name.startswith("GIT_CONFIG_")} | users
    listing = ("git", "-C", str(folder), "config", "--list", "--show-scope", "-z")
    done = _finish(listing, top_above(folder) or folder, "config", env, until)
    fields = os.fsdecode(done.stdout).split("\0")
    named = ((scope, *item.partition("\n")[::2]) for scope, item in zip(fields[0:-1:2], fields[1::2], strict=True))
    return [Setting(scope, _lower(name), value) for scope, name, value in named]


def nested_in(listing: bytes) -> list[bytes]:
    """The repositories inside this one, of `ls-files -s -z`. git would look into them, as their own settings say."""
    return [line.partition(b"\t")[2] for line in listing.split(b"\0") if line.startswith(b"160000 ")]


def users_own(folder: Path, name: str, seconds: float) -> list[str]:
    """What the user's own configuration says of this, the last value only."""
    found = [
        each.value for each in read_settings(folder, seconds) if each.name == name and each.scope not in _OWN_SCOPES
    ]
    return found[-1:]


def _lower(name: str) -> str:
    section, dot, rest = name.partition(".")
    middle, last_dot, key = rest.rpartition(".")
    return section.lower() + dot + middle + last_dot + key.lower()


def _replaced(found: Sequence[Setting], *, filters: bool) -> Iterator[tuple[str, str]]:
    """The user's own settings as far as they count, and nothing for what the repository wants to be started."""
    theirs = {each.name for each in found if each.scope in _OWN_SCOPES}
    users = [each for each in found if each.scope not in _OWN_SCOPES]
    yield from ((each.name, each.value) for each in users if each.name == _SAFE)
    yield from ((each.name, each.value) for each in users if _USERS.fullmatch(each.name) and each.name not in theirs)
    for name in sorted(theirs):
        if hook := _HOOK.fullmatch(name):
            yield f"{hook[1]}.enabled", "false"
        elif _COMMAND.fullmatch(name):
            yield name, ""
        elif _FILTER.fullmatch(name):
            yield name, "false" if name.endswith(".required") else ""
    if filters:
        yield from ((each.name, each.value) for each in users if _FILTER.fullmatch(each.name))


def _bare() -> dict[str, str]:
    """Our environment without what redirects git."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _WHERE}
    return kept | _ENVIRONMENT


def _as_variables(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Settings as git takes them from its environment. On its command line a name with = could not stand."""
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings):
        found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def _finish(
    argv: Sequence[str],
    top: Path,
    command: str,
    env: Mapping[str, str],
    until: float,
    stdin: bytes = b"",
    private: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    if _is_pipe(pipe := _stuck.get((top, command))):
        raise GitTookTooLong(_waits_for(pipe))
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        process_group=0,  # Ctrl+C is for the runner; it must not end git between two steps
        umask=0o077 if private else -1,
    )
    try:
        began, left = time.monotonic(), max(0.1, until - time.monotonic())
        out, err = process.communicate(stdin, timeout=left)
    except subprocess.TimeoutExpired as late:
        if pipe := _pipe_below(top):
            _stuck[top, command] = pipe
            raise GitTookTooLong(_waits_for(pipe)) from late
        raise GitTookTooLong(f"git {command} took longer than {time.monotonic() - began:.0f} seconds.") from late
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with what it started, such as a filter
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


def _waits_for(pipe: Path | None) -> str:
    return f"git waits for {pipe}, which is a pipe and no file. Remove it."


def _is_pipe(path: Path | None) -> bool:
    try:
        return path is not None and stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def _pipe_below(top: Path) -> Path | None:
    """The pipe that keeps git waiting: in the place of a file that it reads by its name."""
    looked = 0
    for folder, folders, names in os.walk(top):
        ours = ".git" in Path(folder).parts[len(top.parts) :]
        folders[:] = [name for name in folders if not (ours and name == "objects")]
        looked += len(folders) + len(names)
        for name in names:
            if (ours or name in _NAMES_READ) and _is_pipe(path := Path(folder, name)):
                return path
        if looked > _MOST_LOOKED_AT:
            break
    return None
