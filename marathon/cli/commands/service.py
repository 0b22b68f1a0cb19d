"""After a reboot, resumes what ran in the background: the systemd unit of `install --service`, and what it runs."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

import click
import platformdirs

from marathon.errors import WrongUsage
from marathon.store.home import home_of
from marathon.store.lock import holder_of, last_holder
from marathon.store.places import background_folder
from marathon.store.task_index import known_tasks

NAME = "pi-marathon.service"
RESUME = "run --after-reboot"
UNIT_FILE = platformdirs.user_config_path("systemd") / "user" / NAME
UNIT = """\
[Unit]
Description=Resume the marathons that ran in the background

[Service]
Type=oneshot
RemainAfterExit=yes
KillMode=mixed
Environment="PATH={path}"
ExecStart="{python}" -P -m marathon {resume}

[Install]
WantedBy=default.target
"""


def install(only_print: bool) -> None:
    """Write a systemd user unit that resumes everything after a boot, and enable it."""
    if only_print:
        click.echo(unit(), nl=False)
        return
    _systemctl("--version")
    UNIT_FILE.parent.mkdir(parents=True, exist_ok=True)
    UNIT_FILE.write_text(unit())
    _systemctl("daemon-reload")
    _systemctl("enable", NAME)
    click.echo(f"Installed {UNIT_FILE}. To start it at boot, before you log in: loginctl enable-linger")


def unit() -> str:
    path = os.environ.get("PATH", os.defpath)
    return UNIT.format(path=path.replace("%", "%%"), python=sys.executable.replace("%", "%%"), resume=RESUME)


def uninstall() -> None:
    """Disable and remove the unit. What runs goes on."""
    _systemctl("disable", NAME)
    UNIT_FILE.unlink(missing_ok=True)
    click.echo(f"Removed {UNIT_FILE}.")


def resume_all() -> None:
    """Start every marathon again that ran in the background when this machine went down."""
    failed = 0
    for known in known_tasks(background_folder()):
        lock = home_of(known.task) / "lock"
        before = last_holder(lock)
        if holder_of(lock) is not None or before is None or not os.path.isdir(before.cwd):
            continue
        words = shlex.split(before.resume)
        if "--task" in words:
            words = ["--detach", *words[words.index("--task") :]]
        else:  # loop run LANE
            words = ["loop", "run", "--detach", *words[words.index("run") + 1 :]]
        end = words.index("--") if "--" in words else len(words)
        if "--mode" in words[:end]:  # as of a loop: it may have had the terminal before it was left at a gate
            words[end:end] = ["--mode", "stream"]
        command = [sys.executable, "-P", "-m", "marathon", *words]
        failed += subprocess.run(command, cwd=before.cwd, check=False).returncode != 0
    if failed:
        raise WrongUsage("Not every marathon could be resumed. See: pi-marathon list --all")


def _systemctl(*words: str) -> None:
    if not shutil.which("systemctl"):
        raise WrongUsage("This machine has no systemctl. To see the unit: pi-marathon install --service --print")
    done = subprocess.run(["systemctl", "--user", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise WrongUsage(f"systemctl --user {' '.join(words)} failed: {done.stderr.strip() or done.returncode}")
