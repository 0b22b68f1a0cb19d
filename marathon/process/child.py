"""Run one agent: start it, stream its output, stop it and everything it started."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from marathon.process.adopted import Adopted, our_children
from marathon.process.command import Command, Exit, Reason, StartFailed
from marathon.process.launch import launch, part
from marathon.process.output import Output
from marathon.process.signals import Signals
from marathon.process.terminal import Terminal
from marathon.process.watch import Callbacks, Watch

__all__ = ["Command", "Exit", "Reason", "StartFailed", "run"]


def run(
    command: Command,
    *,
    signals: Signals,
    on_output: Callable[[str, bytes, bool], None],
    on_tick: Callable[[], bool],
    on_interrupt: Callable[[], None],
    on_resume: Callable[[], None],
    timeout: float | None,
    grace: float = 5.0,
    tick: float = 0.25,
) -> Exit:
    """Returns when the agent and its whole tree are gone.

    on_output(stream, line, complete): stream is "out" or "err", the line comes without its newline, and an
    overlong one in pieces of which the last is complete. on_tick is called at least every `tick` seconds;
    True asks to stop the child now. An exception from a callback ends the tree and is raised on.
    """
    callbacks = Callbacks(on_tick, on_interrupt, on_resume)
    with contextlib.ExitStack() as cleanup:
        terminal = Terminal() if command.terminal else None
        if terminal:
            cleanup.callback(terminal.close)
            terminal.wait_for_foreground()
            terminal.lent = True
            cleanup.callback(terminal.take_back)
        known = our_children()
        launched = launch(command, terminal, stay=True)
        for fd in launched.streams.values():
            cleanup.callback(os.close, fd)
        adopted = Adopted(known)
        output = Output(launched.streams, on_output)
        watch = Watch(command, launched, terminal, signals, callbacks, timeout=timeout, grace=grace, tick=tick)
        try:
            watch.until_the_tree_is_gone(output)
        finally:
            part(launched, adopted, tree_is_gone=watch.tree_is_gone)
        output.drain()
        return watch.verdict(adopted)
