"""Talks to the place where a repository is shared, through the user's own gh: `gh api`, which works in every version.

gh is started outside of the project, and told which host to ask, so no repository says whom it talks to.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from marathon.core.forge import (
    Arrival,
    CheckRun,
    Hosted,
    Issue,
    PullRequest,
    Remark,
    Repo,
    Said,
    arrivals,
    repo_named,
    repo_of,
)
from marathon.core.text import one_line
from marathon.core.validation import Invalid, read
from marathon.errors import MarathonError, WrongUsage
from marathon.git.worktree import git

_PATIENCE = 60.0
_PAGE, _MOST_PAGES = 100, 10
_ENVIRONMENT = {"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1", "CLICOLOR": "0"}
_T = TypeVar("_T")


class ForgeFailed(MarathonError):
    """gh could not do what was asked of it."""


class Remote(NamedTuple):
    name: str  # as git knows it
    repo: Repo


def remote_of(project: Path, environ: Mapping[str, str] = os.environ) -> Remote:
    """Where a project is shared: origin, or its only remote. GH_REPO names another repository there."""
    names = git(project, "remote").splitlines()
    name = "origin" if "origin" in names else names[0] if len(names) == 1 else ""
    if not name:
        which = f"its remotes are {', '.join(names)}, and none is called origin" if names else "it has no remote"
        raise WrongUsage(f"Where {project} is shared is not known: {which}. Type: git remote add origin ADDRESS")
    url = git(project, "remote", "get-url", "--push", name)
    repo = repo_named(environ.get("GH_REPO", "")) or repo_of(url)
    if repo is None:
        cure = "If it is on GitHub, say where: export GH_REPO=HOST/OWNER/NAME"
        raise WrongUsage(f"{one_line(url, 200)}, where {name} leads, is no address of a shared repository. {cure}")
    return Remote(name, repo)


def issue_in(repo: Repo, number: int) -> tuple[Issue, list[Said]]:
    path = f"{repo.path}/issues/{number}"
    issue = _read(Issue, _api(repo, path), path)
    return issue, [_read(Said, each, path) for each in _pages(repo, f"{path}/comments")]


def hosted(repo: Repo) -> Hosted:
    return _read(Hosted, _api(repo, repo.path), repo.path)


def open_request(repo: Repo, head: str) -> PullRequest | None:
    """The pull request that is open for a branch (OWNER:BRANCH)."""
    from urllib.parse import quote

    path = f"{repo.path}/pulls?state=open&head={quote(head, safe='')}"
    found = _api(repo, path)
    return _read(PullRequest, found[0], path) if isinstance(found, list) and found else None


def create_request(repo: Repo, *, title: str, body: str, head: str, base: str, draft: bool) -> PullRequest:
    path = f"{repo.path}/pulls"
    asked = {"title": title, "body": body, "head": head, "base": base, "draft": draft}
    return _read(PullRequest, _api(repo, path, asked), path)


_PLACES = {"comment": "issues/{}/comments", "line": "pulls/{}/comments", "review": "pulls/{}/reviews"}
_FAILED = ("failure", "timed_out")
_LOG_END = 4000  # characters


def arrived(repo: Repo, request: PullRequest, listened_to: Sequence[str]) -> list[Arrival]:
    """What was said on a pull request by those who may write there, or who are named, and its failed checks."""
    found: list[Arrival] = []
    for kind, place in _PLACES.items():
        path = f"{repo.path}/{place.format(request.number)}"
        found += arrivals(kind, [_read(Remark, each, path) for each in _pages(repo, path)])
    may = {who: who in listened_to or _may_write(repo, who) for who in {each.who for each in found}}
    path = f"{repo.path}/commits/{request.head.sha}/check-runs?per_page={_PAGE}"
    told = _api(repo, path)
    runs = told.get("check_runs") if isinstance(told, dict) else None
    checks = [_read(CheckRun, each, path) for each in runs] if isinstance(runs, list) else []
    failed = [each for each in checks if each.conclusion in _FAILED]
    ends = [Arrival(f"check/{each.id}", "checks", f"{each.name}\n{_log_end(repo, each.id)}") for each in failed]
    return [*(each for each in found if may[each.who]), *ends]


def post_reply(repo: Repo, request: PullRequest, key: str, body: str) -> None:
    kind, _, number = key.partition("/")
    lines = f"pulls/{request.number}/comments/{number}/replies"
    _api(repo, f"{repo.path}/{lines if kind == 'line' else f'issues/{request.number}/comments'}", {"body": body})


def _may_write(repo: Repo, login: str) -> bool:
    """Asked of the API for each person: how they are called beside a comment says less."""
    from urllib.parse import quote

    try:
        told = _api(repo, f"{repo.path}/collaborators/{quote(login, safe='')}/permission")
    except ForgeFailed as refused:
        if "HTTP 404" in str(refused):
            return False
        raise
    return isinstance(told, dict) and told.get("permission") in ("admin", "write")


def _log_end(repo: Repo, job: int) -> str:
    try:
        return _gh(repo, f"{repo.path}/actions/jobs/{job}/logs").decode("utf-8", "replace")[-_LOG_END:]
    except ForgeFailed:  # of another service, or gone
        return "Its log cannot be read."


def _pages(repo: Repo, path: str) -> list[Any]:
    found: list[Any] = []
    for number in range(1, _MOST_PAGES + 1):
        page = _api(repo, f"{path}?per_page={_PAGE}&page={number}")
        found += page if isinstance(page, list) else []
        if not isinstance(page, list) or len(page) < _PAGE:
            break
    return found


def _api(repo: Repo, path: str, body: Mapping[str, Any] | None = None) -> Any:
    try:
        return json.loads(_gh(repo, path, body))
    except ValueError as error:
        raise ForgeFailed(f"{repo.host} did not answer with JSON ({path}).") from error


def _gh(repo: Repo, path: str, body: Mapping[str, Any] | None = None) -> bytes:
    words = () if body is None else ("--method", "POST", "--input", "-")
    try:
        done = subprocess.run(
            ["gh", "api", path, *words],
            cwd="/",
            env={**os.environ, **_ENVIRONMENT, "GH_HOST": repo.host},
            input=b"" if body is None else json.dumps(body).encode(),
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except FileNotFoundError as error:
        cure = "Install it from https://cli.github.com and type: gh auth login"
        raise ForgeFailed(f"gh is not installed, and issues and pull requests go through it. {cure}") from error
    except subprocess.TimeoutExpired as error:
        raise ForgeFailed(f"gh did not answer within {_PATIENCE:g} seconds ({repo.host}, {path}).") from error
    if done.returncode:
        raise ForgeFailed(_why(repo, path, done.stderr.decode("utf-8", "replace"), done.stdout))
    return done.stdout


def _why(repo: Repo, path: str, said: str, answer: bytes) -> str:
    what = f"gh could not ask {repo.host} for {one_line(path, 120)}: {one_line(said, 300)}"
    if "gh auth login" in said or "HTTP 401" in said:
        return f"{what}. Log in: gh auth login --hostname {repo.host}"
    if "rate limit" in said:
        return f"{what}. Type it again later; gh api rate_limit says when."
    if "HTTP 404" in said:
        return f"{what}. It is not there, or your login may not see it: gh auth status"
    if "HTTP 422" in said:  # its reasons stand in the answer only
        return f"{what}. It said: {one_line(answer.decode('utf-8', 'replace'), 400)}"
    return what


def _read(kind: type[_T], raw: object, path: str) -> _T:
    try:
        return read(kind, raw)
    except Invalid as error:
        raise ForgeFailed(f"The answer about {one_line(path, 120)} cannot be read: {error}.") from error
