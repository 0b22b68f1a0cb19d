"""pr: the work of a task as a pull request, after a look and a yes. Nothing is pushed or opened by itself."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from marathon.cli.arguments import optional_task
from marathon.core.carried import lies_in
from marathon.core.forge import described, linked_issue, repo_named, title_of
from marathon.core.names import called
from marathon.core.sessions import how_many
from marathon.core.text import clean, counted, one_line
from marathon.errors import MarathonError, WrongUsage
from marathon.git.forge import create_request, hosted, open_request, remote_of
from marathon.git.programs import started
from marathon.git.run import push_as_the_user
from marathon.git.worktree import commits_of, uncommitted
from marathon.process.terminal import interactive
from marathon.show.program import program
from marathon.show.report import as_description
from marathon.store.home import INSTRUCTIONS


@click.command("pr")
@optional_task("latest")
@click.option("--base", metavar="BRANCH", help="What it is to be merged into; else the repository's usual branch.")
@click.option("--title", metavar="TEXT", help="Else the title of the instructions.")
@click.option("--ready", is_flag=True, help="Open it ready for review, not as a draft.")
def pr(shown: Path, base: str | None, title: str | None, ready: bool) -> None:
    """Propose the branch of TASK as a pull request, through your own gh.

    Shows title, text and push, and asks. The push is your own git, with your login and hooks. If a pull request of the
    branch is open, it is pushed to. Nothing is merged.
    """
    from marathon.web.view import look

    view, project = look("", shown, Path.cwd()), Path.cwd()
    place, name = view.known.life.worktree, called(shown.parts)
    if place is None:
        how = f"Work in a branch of its own begins with: {program()} --task {shlex.quote(str(shown))} --worktree"
        raise WrongUsage(f"{name} works in the project itself, so it has no branch that could be proposed. {how}")
    branch = place.branch
    files = commits_of(project, branch)
    if not files:
        raise WrongUsage(f"The branch {branch} has no commit that the project's own branch does not have.")
    if held := sorted(each for each in files if lies_in(each, place.copied)):
        cure = "Take them out of every commit of the branch first"
        raise WrongUsage(f"{branch} holds files that were only lent to its worktree: {_few(held)}. {cure}.")
    remote = remote_of(project)
    there = hosted(remote.repo)
    if there.permissions.get("push") is False:
        raise WrongUsage(f"You may not push to {remote.repo}. Make a copy of your own: gh repo fork --remote")
    target = (repo_named(f"{remote.repo.host}/{there.parent.full_name}") if there.parent else None) or remote.repo
    base = base or (there.parent.default_branch if there.parent else there.default_branch)
    known = open_request(target, f"{remote.repo.owner}:{branch}")
    instructions, plan = ((view.known.task.document(each) or b"").decode("utf-8", "replace") for each in _DOCUMENTS)
    title = clean(title) if title else title_of(instructions, name)
    report = as_description(view.status, how_many(view.known.records), view.rounds, view.standings)
    body = described(instructions, plan, report, linked_issue(instructions, target))
    if known is None:
        draft = "ready for review" if ready else "a draft"
        click.echo(f"Pull request in {target} ({draft}), {branch} into {base}:\n\n{title}\n\n{body}\n")
    _warn(Path(place.folder), project)
    click.echo(f"To be pushed: git push {remote.name} {branch}")
    asked = f"Push to {one_line(known.html_url, 200)}?" if known else "Push the branch and open it?"
    if not interactive():
        click.echo("Nothing was pushed. It is asked at a terminal first.", err=True)
        raise click.exceptions.Exit(3)
    if not click.confirm(asked):
        click.echo("Nothing was pushed.")
        return
    if code := push_as_the_user(project, remote.name, branch):
        raise MarathonError(
            f"git push ended with exit code {code}, so nothing was opened. Type it again when it works."
        )
    if known is None:
        head = branch if target == remote.repo else f"{remote.repo.owner}:{branch}"
        known = create_request(target, title=title, body=body, head=head, base=base, draft=not ready)
    click.echo(clean(known.html_url))


_DOCUMENTS = (INSTRUCTIONS, "plan.md")


def _warn(folder: Path, project: Path) -> None:
    """What is not in the pull request, and what the push would start."""
    if os.path.isdir(folder) and (left := uncommitted(folder)):
        click.echo(f"Not in it, because not committed: {counted(len(left), 'file')} in {folder}")
    if said := started("push", str(project), [str(project), str(folder)]):
        click.echo(clean(f"Mind that {said}."))


def _few(names: list[str]) -> str:
    return ", ".join(one_line(each, 100) for each in names[:8]) + (", …" if len(names) > 8 else "")
