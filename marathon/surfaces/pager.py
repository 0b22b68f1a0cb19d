"""Shows a long text through the user's pager."""

from __future__ import annotations

import os
import shutil
import subprocess

from marathon.process.terminal import on_terminal


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
