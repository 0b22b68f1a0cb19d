"""pr: the work of a task as a pull request, after a look and a yes. Nothing is pushed or opened by itself."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from marathon.cli.arguments import optional_task
from marathon.core.carried import lies_in
from marathon.core.comments import Comment, next_id
from marathon.core.forge import PullRequest, Repo, described, linked_issue, reply_to, repo_named, title_of
from marathon.core.names import called
from marathon.core.records import Commented, Followed, Replied, WorktreeSet
from marathon.core.sessions import how_many
from marathon.core.text import clean, counted, one_line, utc
from marathon.errors import MarathonError, WrongUsage
from marathon.git.forge import Remote, arrived, create_request, hosted, open_request, post_reply, remote_of
from marathon.git.programs import started
from marathon.git.run import push_as_the_user
from marathon.git.worktree import commits_of, tip_of, uncommitted
from marathon.process.terminal import interactive
from marathon.runner.journal import at_rest
from marathon.runner.marathon import utc_now
from marathon.runner.review import standings
from marathon.runner.status_query import Known
from marathon.show.program import program
from marathon.show.report import as_description
from marathon.store.file_store import FileStore
from marathon.store.home import INSTRUCTIONS


@click.command("pr")
@optional_task("latest")
@click.option("--base", metavar="BRANCH", help="What it is to be merged into; else the repository's usual branch.")
@click.option("--title", metavar="TEXT", help="Else the title of the instructions.")
@click.option("--ready", is_flag=True, help="Open it ready for review, not as a draft.")
@click.option("--follow", is_flag=True, help="Have what was said on it, and its failed checks, worked on.")
@click.option("--from", "listened_to", multiple=True, metavar="NAME", help="Listen to them too, beside who may write.")
@click.option("--pr-rounds", default=3, show_default=True, metavar="N", help="How often --follow goes on with one run.")
def pr(
    shown: Path,
    base: str | None,
    title: str | None,
    ready: bool,
    follow: bool,
    listened_to: tuple[str, ...],
    pr_rounds: int,
) -> None:
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
    remote = remote_of(project)
    there = hosted(remote.repo)
    if there.permissions.get("push") is False:
        raise WrongUsage(f"You may not push to {remote.repo}. Make a copy of your own: gh repo fork --remote")
    target = (repo_named(f"{remote.repo.host}/{there.parent.full_name}") if there.parent else None) or remote.repo
    known = open_request(target, f"{remote.repo.owner}:{place.branch}")
    _refuse_lent(project, place)
    if follow:
        if known is None:
            raise WrongUsage(f"No pull request of {place.branch} is open in {target}. Open one: {program()} pr {name}")
        _follow(view.known, remote, target, known, place, listened_to, pr_rounds)
        return
    base = base or (there.parent.default_branch if there.parent else there.default_branch)
    instructions, plan = ((view.known.task.document(each) or b"").decode("utf-8", "replace") for each in _DOCUMENTS)
    title = clean(title) if title else title_of(instructions, name)
    report = as_description(view.status, how_many(view.known.records), view.rounds, view.standings)
    body = described(instructions, plan, report, linked_issue(instructions, target))
    if known is None:
        draft = "ready for review" if ready else "a draft"
        click.echo(f"Pull request in {target} ({draft}), {place.branch} into {base}:\n\n{title}\n\n{body}\n")
    _warn(Path(place.folder), project)
    click.echo(f"To be pushed: git push {remote.name} {place.branch}")
    _ask(f"Push to {one_line(known.html_url, 200)}?" if known else "Push the branch and open it?")
    _push(project, remote, place.branch)
    if known is None:
        head = place.branch if target == remote.repo else f"{remote.repo.owner}:{place.branch}"
        known = create_request(target, title=title, body=body, head=head, base=base, draft=not ready)
    click.echo(clean(known.html_url))


def _follow(
    known: Known,
    remote: Remote,
    target: Repo,
    request: PullRequest,
    place: WorktreeSet,
    listened_to: Sequence[str],
    most: int,
) -> None:
    """Post what was answered, then have what is new worked on. Each takes a yes of its own."""
    life, store = known.life, FileStore(known.task, utc_now)
    if not life.finished:
        raise WrongUsage(f"{known.shown} is not finished. First: {program()} --task {shlex.quote(str(known.shown))}")
    commit = tip_of(Path.cwd(), place.branch)
    heard = {each.comment.id: each.answer.text for each in standings(known) if each.answer}
    answers = {**dict(life.comment_answers), **heard}
    said = [(key, name) for key, name in life.followed if not key.startswith("check/") and key not in life.replied]
    owed = [(key, answers[name]) for key, name in said if name in answers]
    if owed:
        click.echo("\n\n".join(clean(f"To {key}:\n{reply_to(text, commit[:10])}") for key, text in owed))
        _ask(f"Push, and post {counted(len(owed), 'answer')}?")
        _push(Path.cwd(), remote, place.branch)
        with at_rest(store, known.course, known.task, known.shown) as journal:
            for key, text in owed:
                post_reply(target, request, key, reply_to(text, commit[:10]))
                journal.record(Replied(to=key, commit=commit))
    new = [each for each in arrived(target, request, listened_to) if each.key not in dict(life.followed)]
    if not new:
        click.echo("Nothing new was said, and no other check failed.")
        return
    click.echo("\n\n".join(each.text for each in new))
    if life.follow_rounds >= most:
        raise WrongUsage(f"This run went on {life.follow_rounds} times already (--pr-rounds). Nothing was started.")
    checks = sum(each.key.startswith("check/") for each in new)
    parts = [counted(len(new) - checks, "comment")] * (checks < len(new))
    _ask(f"{', '.join([*parts, *[counted(checks, 'failed check')] * bool(checks)])}: work on them?")
    with at_rest(store, known.course, known.task, known.shown) as journal:
        taken = {}
        for each in new:
            comment = Comment(next_id(journal.life.comments), each.text, "must", at=utc(utc_now()))
            journal.record(Commented(comments=[comment]))
            journal.write_owed_words()
            taken[each.key] = comment.id
        journal.record(Followed(taken=taken))
    os.execv(sys.executable, [sys.executable, "-P", "-m", "marathon", "--task", str(known.shown)])


def _refuse_lent(project: Path, place: WorktreeSet) -> None:
    files = commits_of(project, place.branch)
    if not files:
        raise WrongUsage(f"The branch {place.branch} has no commit that the project's own branch does not have.")
    if held := sorted(each for each in files if lies_in(each, place.copied)):
        cure = "Take them out of every commit of the branch first"
        raise WrongUsage(f"{place.branch} holds files that were only lent to its worktree: {_few(held)}. {cure}.")


def _ask(question: str) -> None:
    """Goes on only after a yes."""
    if not interactive():
        click.echo("Nothing was pushed. It is asked at a terminal first.", err=True)
        raise click.exceptions.Exit(3)
    if not click.confirm(question):
        click.echo("Nothing was pushed.")
        raise click.exceptions.Exit(0)


def _push(project: Path, remote: Remote, branch: str) -> None:
    if code := push_as_the_user(project, remote.name, branch):
        raise MarathonError(f"git push ended with exit code {code}. Nothing else was done. Try again when it works.")


_DOCUMENTS = (INSTRUCTIONS, "plan.md")


def _warn(folder: Path, project: Path) -> None:
    """What is not in the pull request, and what the push would start."""
    if os.path.isdir(folder) and (left := uncommitted(folder)):
        click.echo(f"Not in it, because not committed: {counted(len(left), 'file')} in {folder}")
    if said := started("push", str(project), [str(project), str(folder)]):
        click.echo(clean(f"Mind that {said}."))


def _few(names: list[str]) -> str:
    return ", ".join(one_line(each, 100) for each in names[:8]) + (", …" if len(names) > 8 else "")
