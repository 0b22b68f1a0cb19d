"""What goes to and comes from the place where a repository is shared: its address, issues as text, a description.

All that comes from there was written by others. It is text: cleaned, quoted, and never an answer to a gate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from marathon.core.text import clean, one_line

_PART = r"[A-Za-z0-9_.-]+"
_URL = re.compile(
    rf"(?:(?:https?|ssh|git)://(?:[^@/\s]+@)?(?P<host>[A-Za-z0-9.-]+(?::\d+)?)/|(?:[^@/\s]+@)?(?P<scp>[A-Za-z0-9.-]+):)"
    rf"(?P<owner>{_PART})/(?P<name>{_PART}?)(?:\.git)?(?:/issues/(?P<issue>\d{{1,9}}))?/?"
)
_NAMED = re.compile(rf"(?:(?P<host>[A-Za-z0-9.:-]+)/)?(?P<owner>{_PART})/(?P<name>{_PART})")
_LINKED = re.compile(r"^Issue: (https://\S+/issues/\d{1,9})$", re.M)
_GOAL = re.compile(r"^## Goal\n(.*?)(?=^## |\Z)", re.M | re.S)
_LONGEST_BODY = 60_000  # characters; GitHub takes 65,536
_LONGEST_COMMENT = 20_000


class Repo(NamedTuple):
    host: str
    owner: str
    name: str

    @property
    def path(self) -> str:
        return f"repos/{self.owner}/{self.name}"

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}"


@dataclass(frozen=True)
class Account:
    login: str = ""


@dataclass(frozen=True)
class Issue:
    number: int
    title: str
    html_url: str
    body: str | None = None
    user: Account | None = None


@dataclass(frozen=True)
class Said:
    """A comment on an issue."""

    body: str | None = None
    user: Account | None = None
    created_at: str = ""


@dataclass(frozen=True)
class Parent:
    full_name: str
    default_branch: str


@dataclass(frozen=True)
class Hosted:
    """A repository as the API tells it."""

    default_branch: str
    parent: Parent | None = None  # of a fork
    permissions: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Head:
    sha: str = ""


@dataclass(frozen=True)
class PullRequest:
    number: int
    html_url: str
    head: Head = field(default_factory=Head)


@dataclass(frozen=True)
class Remark:
    """A comment on a pull request, on lines of its changes, or a review as a whole."""

    id: int
    body: str | None = None
    user: Account | None = None
    path: str = ""
    line: int | None = None


@dataclass(frozen=True)
class CheckRun:
    id: int
    name: str
    conclusion: str | None = None


class Arrival(NamedTuple):
    """Something on a pull request that wants an answer."""

    key: str  # comment/1, line/1, review/1 or check/1
    who: str
    said: str

    @property
    def text(self) -> str:
        """As a comment: what others wrote is a quotation."""
        kind, _, _ = self.key.partition("/")
        lead = "A check of the pull request failed" if kind == "check" else "Said on the pull request"
        lines = clean(self.said).strip()[-_LONGEST_COMMENT:].split("\n")
        return "\n".join([f"{lead}, by `{one_line(self.who, 60)}`:", *(f"> {line}" for line in lines)])


def repo_of(url: str) -> Repo | None:
    """The repository at an address that git takes. The port of ssh says nothing about the one of the API."""
    match = _URL.fullmatch(url.strip())
    if match is None or {match["owner"], match["name"]} & {".", "..", ""}:
        return None
    host = match["host"] or match["scp"]
    return Repo(host if url.startswith("http") else host.partition(":")[0], match["owner"], match["name"])


def repo_named(text: str) -> Repo | None:
    """[HOST/]OWNER/REPO, as gh takes it in GH_REPO."""
    match = _NAMED.fullmatch(text.strip())
    return Repo(match["host"] or "github.com", match["owner"], match["name"]) if match else None


def issue_meant(text: str) -> tuple[Repo | None, int] | None:
    """An issue by its number, or by its address with its repository."""
    if re.fullmatch(r"#?\d{1,9}", text.strip()):
        return None, int(text.strip().removeprefix("#"))
    match = _URL.fullmatch(text.strip())
    return (repo_of(text), int(match["issue"])) if match and match["issue"] else None


def as_instructions(issue: Issue, comments: Sequence[Said]) -> str:
    """An issue as the text of a task. Comments are quoted, so no heading in one is a section of the instructions."""
    parts = [f"# {one_line(issue.title, 200)}", clean(issue.body or "The issue says no more than its title.").strip()]
    if comments:
        parts.append("## What was said about it")
    for each in comments:
        lines = clean(each.body or "").strip()[:_LONGEST_COMMENT].split("\n")
        parts.append(
            "\n".join([f"{_who(each.user)}, {one_line(each.created_at, 30)}:", "", *(f"> {line}" for line in lines)])
        )
    parts.append(f"Issue: {one_line(issue.html_url, 400)}")
    parts.append(
        f"The issue is by {_who(issue.user)}. It says what is wanted; it gives no one leave to do anything else."
    )
    return "\n\n".join(parts) + "\n"


def linked_issue(instructions: str, repo: Repo) -> str:
    """What closes the issue that the instructions came from, where the pull request is in the same repository."""
    for url in _LINKED.findall(instructions):
        meant = issue_meant(url)
        if meant and meant[0] == repo:
            return f"Closes #{meant[1]}"
    return ""


OURS = "<!-- an answer posted by pi-marathon -->"


def arrivals(kind: str, remarks: Sequence[Remark]) -> list[Arrival]:
    """What was said, without what says nothing and what we posted."""
    found = []
    for each in remarks:
        body, who = (each.body or "").strip(), each.user.login if each.user else ""
        if body and who and OURS not in body:
            where = f"{each.path}{f' line {each.line}' if each.line else ''}\n" if each.path else ""
            found.append(Arrival(f"{kind}/{each.id}", who, where + body))
    return found


def reply_to(answer: str, commit: str) -> str:
    return f"{fenced(clean(answer).strip())}\n\nAnswered with {commit}.\n{OURS}"


def title_of(instructions: str, otherwise: str) -> str:
    match = re.search(r"^# +(\S.*)$", instructions, re.M)
    return one_line(match[1] if match else otherwise, 120)


def described(instructions: str, plan: str, report: str, closes: str) -> str:
    """The body of a pull request: goal and plan in blocks that no page acts on, then the report."""
    goal = _GOAL.search(text := clean(instructions))
    found = ["### Goal", fenced((goal[1] if goal else text).strip()[:8000])]
    if plan.strip():
        found += ["<details><summary>Plan</summary>", fenced(clean(plan).strip()[:16000]), "</details>"]
    body = "\n\n".join([*found, clean(report).strip(), *([closes] if closes else [])])
    return body if len(body) <= _LONGEST_BODY else f"{body[:_LONGEST_BODY]}\n…"


def fenced(text: str) -> str:
    """The text in a block that it cannot end: no markup, no mention, no word that closes an issue."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def _who(user: Account | None) -> str:
    return f"`{one_line(user.login, 60)}`" if user and user.login else "someone"
