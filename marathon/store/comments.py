"""Comments in human.md. A comment is there the moment it is made, and several processes may write at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from marathon.core.comments import Comment, Kind, block, comments_in, next_id, quote_of, withdrawal
from marathon.core.human_note import TITLE
from marathon.core.text import clean, utc
from marathon.errors import WrongUsage
from marathon.store.files import SHARED_FILE, append_durable, disk_errors
from marathon.store.task import HUMAN, Task


def comments_of(task: Task) -> list[Comment]:
    return comments_in(task.human_text().decode("utf-8", "replace"))


def add_comment(
    task: Task, text: str, *, kind: Kind = "note", file: str = "", first: int = 0, last: int = 0, document: str = ""
) -> Comment:
    """Write a comment on these lines of the document, or on all of it, and return it with its id."""
    said = clean(text).strip()
    if not said:
        raise WrongUsage("The comment is empty. Nothing was written.")
    first, last, quote = quote_of(document, first, max(first, last)) if first else (0, 0, "")
    made = Comment("", said, kind, file, first, last, quote, utc(datetime.now(UTC)))

    def written(human_md: str) -> tuple[Comment, str]:
        comment = Comment(**{**vars(made), "id": next_id(human_md)})
        return comment, block(comment)

    return _append(task, written)


def withdraw(task: Task, comment_id: str) -> Comment:
    """Take a comment back. Its text stays in human.md, and a line says that it does not count any more."""

    def written(human_md: str) -> tuple[Comment, str]:
        known = {each.id: each for each in comments_in(human_md)}
        if comment_id not in known or known[comment_id].withdrawn:
            open_ids = ", ".join(each.id for each in known.values() if not each.withdrawn) or "none"
            raise WrongUsage(f"There is no comment {comment_id!r} to withdraw. There are: {open_ids}")
        return known[comment_id], withdrawal(comment_id, utc(datetime.now(UTC)))

    return _append(task, written)


def _append(task: Task, written: Callable[[str], tuple[Comment, str]]) -> Comment:
    """Add what `written` makes of human.md as it is, in one piece, while no other comment is added."""
    path = task.folder / HUMAN
    with disk_errors("append to", path), task.inbox.alone():
        data = task.human_text()
        comment, text = written(data.decode("utf-8", "replace"))
        before = f"{TITLE}\n\n" if not data.strip() else "\n" if data.endswith(b"\n") else "\n\n"
        append_durable(path, f"{before}{text}".encode("utf-8", "replace"), mode=SHARED_FILE)
    return comment
