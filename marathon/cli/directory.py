"""The kind of argument a task directory is. On its own: `--help` needs it, and nothing else of what reads arguments."""

from __future__ import annotations

import click

TYPE_CHECKING = False
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class TaskDirectory(click.ParamType[str]):
    """A path as typed; a shell completes it like one."""

    name = "directory"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="dir")]


TASK_DIRECTORY = TaskDirectory()
