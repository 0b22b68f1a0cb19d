"""The type of a task directory as an argument. It is a module of its own because `--help` loads it."""

from __future__ import annotations

import click

TYPE_CHECKING = False
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class TaskDirectory(click.ParamType[str]):
    """A path as typed; the shell completes directories."""

    name = "directory"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="dir")]


TASK_DIRECTORY = TaskDirectory()
