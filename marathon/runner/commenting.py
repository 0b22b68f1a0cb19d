"""A human comments on a document. Each comment is a record; human.md only shows it.

It travels through the inbox, so that it is safe at once whoever makes it. The runner puts it on record, and where none
lives, the command that made it does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from marathon.core.comments import Comment, Kind, next_id, noted, quote_of
from marathon.core.events import Notice, Sink
from marathon.core.text import clean, utc
from marathon.errors import MarathonError, NotAdopted, TaskBusy, WrongUsage
from marathon.runner.journal import Journal, at_rest
from marathon.runner.status_query import Known
from marathon.store.base import Store
from marathon.store.comments import unrecorded
from marathon.store.file_store import FileStore
from marathon.store.task import Task

if TYPE_CHECKING:
    from marathon.runner.gate_view import TaskAtGate


def add_comment(
    seen: TaskAtGate, text: str, *, kind: Kind, file: str = "", first: int = 0, last: int = 0, document: str = ""
) -> Comment:
    """Comment on these lines of the document, or on all of it. The comment with its id."""
    said = clean(_writable(text)).strip()
    if not said:
        raise WrongUsage("The comment is empty. Nothing was written.")
    first, last, quote = quote_of(document, first, max(first, last)) if first else (0, 0, "")
    made = Comment("", said, kind, _writable(file), first, last, _writable(quote), utc(datetime.now(UTC)))
    return _send(seen, lambda known: replace(made, id=next_id(known)))


def withdraw(seen: TaskAtGate, comment_id: str) -> Comment:
    """Take a comment back. Its text stays in the journal."""

    def taken_back(known: Sequence[Comment]) -> Comment:
        counting = [each for each in known if not each.withdrawn]
        for each in counting:
            if each.id == comment_id:
                return replace(each, withdrawn=True)
        ids = ", ".join(each.id for each in counting) or "none"
        raise WrongUsage(f"There is no comment {comment_id!r} to withdraw. There are: {ids}")

    return _send(seen, taken_back)


def _send(seen: TaskAtGate, made: Callable[[Sequence[Comment]], Comment]) -> Comment:
    with seen.task.inbox.alone():  # of several who comment at once, no two get the same id
        comment = made(seen.anew().life.comments)
        seen.task.inbox.put("comment", comment=comment)
    if isinstance(seen, Known):
        _record_at_rest(seen)
    else:
        seen.anew()
    return comment


def _record_at_rest(known: Known) -> None:
    """A task that no runner has begun, or that one has, keeps the comment in its inbox for that runner."""
    if known.life.begun:
        store = FileStore(known.task, lambda: datetime.now(UTC))
        with (
            contextlib.suppress(TaskBusy, NotAdopted),
            at_rest(store, known.course, known.task, known.shown) as journal,
        ):
            take_comments(journal, store, known.task)


def take_comments(journal: Journal, store: Store, task: Task, tell: Sink = lambda event: None) -> None:
    """Put on record what has come, then show it in human.md."""
    messages = [each for each in store.messages() if each.kind == "comment"]
    for record in unrecorded(task, (), journal.life):
        journal.record(record)
    for message in messages:
        for record in unrecorded(task, [message], journal.life):
            if noted(journal.life.comments, record.comments) != journal.life.comments:
                journal.record(record)
        store.remove(message.id)
        try:
            journal.write_owed_words()
        except MarathonError as error:  # the next start tries again
            tell(Notice(f"{error} The comment is on record all the same.", "warning"))


def _writable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
