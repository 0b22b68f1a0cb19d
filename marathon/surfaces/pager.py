"""What takes the terminal for a while: the pager for a long text, the editor, and the server of the page."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from marathon.process.terminal import on_terminal
from marathon.show.program import program

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


def open_page(task: Path, answered: Callable[[], bool]) -> None:
    """Serve the page of a task until Ctrl+C, or until its gate was answered there or anywhere else."""
    print("The page opens. Ctrl+C: back to this gate.", flush=True)
    page = subprocess.Popen([*shlex.split(program()), "review", str(task)])
    while page.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            page.wait(_LOOK_AGAIN)
        if answered():
            with contextlib.suppress(subprocess.TimeoutExpired):
                page.wait(_LAST_ANSWER)  # the browser is being told
            page.terminate()
