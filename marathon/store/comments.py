"""Comments that are not in the journal yet: on their way there, or from before comments were kept there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from marathon.core.comments import comments_in, is_id
from marathon.core.life import Life
from marathon.core.records import Commented
from marathon.store.inbox import Message
from marathon.store.task import Task


def unrecorded(task: Task, messages: Iterable[Message], life: Life) -> list[Commented]:
    """What a runner would put on record now. The messages were read first: one goes once its record is there."""
    older = life.begun and not life.comments_on_record
    sent = [each.comment for each in messages if each.kind == "comment" and each.comment and is_id(each.comment.id)]
    made = [Commented(comments=[replace(each, sent=False)]) for each in sent]
    return [_from_human_md(task, life), *made] if older else made


def _from_human_md(task: Task, life: Life) -> Commented:
    """An older version kept comments in human.md alone. They are taken over once, as they stand there then."""
    new = {each.id for each in comments_in(task.new_from_human(life.delivered)[0])}
    found = comments_in(task.human_text().decode("utf-8", "replace"))
    return Commented(comments=[replace(each, sent=each.id not in new) for each in found], shown=True)
