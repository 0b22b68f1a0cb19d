"""What falls to the runner when a guardian dies before its work is done."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

from marathon.process import tree

_GRACES = (0.5, 0.0, 0.0, 0.0, 0.0)  # patience for TERM, round by round; what is left then cannot be killed
_GUARDIAN_PATIENCE = 3.0  # more than it needs to end a tree once we have let go of it

GUARDIANS: set[int] = set()  # ours by right: the pids of those that were not dismissed


def our_children() -> list[int]:
    return tree.child_pids(os.getpid())


class Adopted:
    """Children that were not ours before: we are a subreaper, so orphans of a dead guardian become ours."""

    def __init__(self, known: Iterable[int] | None = None) -> None:
        """`known` are the pids of our children before there was a tree. Who they are is asked only now, for an agent
        may be waited for: a pid is not used again that soon."""
        others = [pid for pid in (our_children() if known is None else known) if pid not in GUARDIANS]
        self._before = {identity for pid in others if (identity := tree.identity(pid))}
        self.ended: set[tuple[int, int]] = set()
        self.statuses: dict[int, int] = {}  # exit codes as of waitstatus_to_exitcode, by pid

    @staticmethod
    def dismiss(guardian: int) -> None:
        """Reap the guardian; one that does not go on its own (somebody stopped it) is killed."""
        process = tree.look(guardian)
        for stubborn in tree.wait([process], _GUARDIAN_PATIENCE) if process else ():
            tree.send(stubborn, signal.SIGKILL)
        os.waitpid(guardian, 0)
        GUARDIANS.discard(guardian)

    def end_all(self) -> None:
        """Until a look finds nobody, not even dead: whoever dies while we look may leave us its children."""
        graces = iter(_GRACES)
        while children := [child for child in _children() if self._was_adopted(child)]:
            living = [child for child in children if not self._collect(child)]
            if not living:
                continue
            if (grace := next(graces, None)) is None:
                return
            strays = [stray for child in living for stray in (child, *tree.descendants(child.pid))]
            self.ended |= {stray.identity for stray in strays}
            tree.end(strays, grace)

    def _was_adopted(self, child: tree.Process) -> bool:
        return child.identity not in self._before and child.pid not in GUARDIANS

    def _collect(self, child: tree.Process) -> bool:
        """True if it was dead, and is gone now."""
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        if pid:
            self.statuses[pid] = os.waitstatus_to_exitcode(status)
        return bool(pid)


def _children() -> list[tree.Process]:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    return [process for process in tree.everybody() if process.parent == os.getpid()]
