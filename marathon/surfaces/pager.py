"""What takes the terminal for a while: the pager for a long text, the editor, and the server of the page."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from marathon.core.comments import lines_of, lines_said
from marathon.core.differences import changed_places
from marathon.process.terminal import on_terminal
from marathon.show.program import program
from marathon.store.files import read_regular

_LOOK_AGAIN = 0.5  # seconds
_LAST_ANSWER = 2.0


def page(text: str, *, from_end: bool = False) -> None:
    """Shown until the human leaves the pager, also where the text is short. Without a pager it is printed."""
    command = os.environ.get("PAGER") or next(filter(shutil.which, ("less", "more")), "")
    if not on_terminal() or not command:
        print(text, flush=True)
        return
    # -R shows colours. With the others only the human ends less, whatever is set for other programs.
    options = f"{os.environ.get('LESS', '')} -R -+F -+E -+e{' +G' if from_end else ''}".strip()
    env = {"LESSCHARSET": "utf-8", **os.environ, "LESS": options}  # less goes by the locale, which may be C
    data = f"{text}\n".encode("utf-8", "replace")
    done = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env=env)  # as git and man do it
    done.communicate(data)
    if done.returncode in (126, 127):
        print(text, flush=True)


def edit(path: Path) -> None:
    """In the foreground, like any program."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        subprocess.run([*shlex.split(editor), str(path)], check=False)
    except OSError as error:
        print(f"Could not start {editor!r}: {error.strerror}. Set EDITOR to your editor.", flush=True)


def edit_document(path: Path) -> str:
    """Edit it, and say what was saved and where, such as: Saved: task/plan.md 12–14 (+3 −1)."""
    before = read_regular(path) or b""
    edit(path)
    after = read_regular(path) or b""
    if after == before:
        return f"Nothing was changed in {path}."
    then, now = (lines_of(data.decode("utf-8", "replace")) for data in (before, after))
    changes = [each for group in changed_places(then, now) for each in group if each[0] != "equal"]
    if not changes:  # such as the ends of the lines
        return f"Saved: {path}."
    removed, added = sum(b - a for _, a, b, _, _ in changes), sum(d - c for _, _, _, c, d in changes)
    first = changes[0][3] + 1
    return f"Saved: {path} {lines_said(first, max(first, changes[-1][4]))} (+{added} −{removed})."


def open_page(task: Path, answered: Callable[[], bool]) -> None:
    """Serve the page of a task until Ctrl+C, or until its gate was answered there or anywhere else."""
    print("The page opens. Ctrl+C: back to the terminal.", flush=True)
    page = subprocess.Popen([*shlex.split(program()), "review", str(task)])
    while page.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            page.wait(_LOOK_AGAIN)
        if answered():
            with contextlib.suppress(subprocess.TimeoutExpired):
                page.wait(_LAST_ANSWER)  # the browser is being told
            page.terminate()
