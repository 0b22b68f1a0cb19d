"""The page: web, review, report."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace
from pathlib import Path

import click

from marathon.cli.arguments import optional_task
from marathon.cli.find import project_root
from marathon.cli.overview import LOOP_TASK, everywhere
from marathon.errors import WrongUsage
from marathon.process.linux import require_proc
from marathon.process.terminal import interactive
from marathon.show.listing import Row
from marathon.store.files import disk_errors
from marathon.store.places import index_folder, page_port
from marathon.store.task_index import remember_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from marathon.web.auth import Door

PORT = click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The port; without it, the last one if it is free."
)
PASSPHRASE = click.option(
    "--passphrase", is_flag=True, help="Ask for a passphrase now; the page wants it with every answer to a gate."
)


@click.command("web")
@PORT
@PASSPHRASE
def web(port: int, passphrase: bool) -> None:
    """Open a page over all tasks and loops of this machine, until Ctrl+C. Only this machine can reach it."""
    _serve(port, passphrase, project_root(Path.cwd()), None)


@click.command("review")
@optional_task("gate")
@PORT
@PASSPHRASE
def review(shown: Path, port: int, passphrase: bool) -> None:
    """Review TASK in the browser: starts a page of its own, until Ctrl+C."""
    folder = Path(os.path.realpath(shown))
    remember_task(index_folder(), folder, Path.cwd())
    _serve(port, passphrase, Path.cwd(), folder)


@click.command("report")
@optional_task("latest")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    is_eager=True,  # before the project becomes the current folder
    callback=lambda ctx, param, typed: typed and Path.cwd() / typed,
    help="Without it, standard output.",
)
@click.option("--markdown", is_flag=True, help="Markdown for the description of a pull request.")
def report(shown: Path, output: Path | None, markdown: bool) -> None:
    """Write a report of TASK: one HTML file with its course, rounds, differences, comments and answers."""
    from marathon.web.view import look

    view = look("", shown, Path.cwd())
    if markdown:
        from marathon.core.sessions import how_many
        from marathon.show.report import as_description

        text = as_description(view.status, how_many(view.known.records), view.rounds, view.standings)
    else:
        from marathon.web.report import as_page

        text = as_page(view)
    if output is None:
        click.echo(text, nl=False)
        return
    with disk_errors("write", output):
        output.write_text(text, encoding="utf-8")
    click.echo(f"Written: {output}")


def _serve(port: int, passphrase: bool, project: Path, task: Path | None) -> None:
    _refuse_programs()
    try:
        from marathon.web.app import name_of
        from marathon.web.serve import serve
    except ImportError as error:
        raise WrongUsage("The page needs two more packages: pip install 'pi-marathon[web]'") from error
    asked = "Passphrase for answers in the browser"
    secret = click.prompt(asked, hide_input=True, confirmation_prompt=True) if passphrase else ""

    def ready(door: Door) -> None:
        wanted = f"&task={name_of(task)}" if task else ""
        _tell(door, wanted)
        threading.Thread(target=_tell_again, args=(door, wanted), daemon=True).start()
        _open_browser(f"http://127.0.0.1:{door.port}/")

    try:
        serve(lambda: _tasks(project), project, port, page_port(), secret, ready)
    except KeyboardInterrupt:
        click.echo("Stopped. Nothing was lost.")


def _tasks(project: Path) -> list[Row]:
    """And the measured loops that wait for an answer. The page has a list of its own for loops."""
    rows = [row for row in everywhere(project) if not row.loop or row.waits_for_you]
    return [replace(row, folder=row.folder / LOOP_TASK) if row.loop else row for row in rows]


def _refuse_programs() -> None:
    """The address lets its reader answer gates, so only a person at a terminal gets it."""
    require_proc()
    if not interactive():
        raise WrongUsage("The page needs a terminal, because its address is a secret. Over ssh: ssh -t")


def _tell(door: Door, wanted: str) -> None:
    token = door.new_token()
    click.echo(f"\n  http://127.0.0.1:{door.port}/in?token={token}{wanted}\n")
    if os.environ.get("SSH_CONNECTION"):
        click.echo(f"From your own machine, first: ssh -L {door.port}:127.0.0.1:{door.port} {_this_host()}")
    click.echo(f"The address works once. On the page itself the word is: {token}")
    click.echo("Enter: another address. Ctrl+C: stop.")


def _this_host() -> str:
    import getpass
    import socket

    return f"{getpass.getuser()}@{socket.gethostname()}"


def _tell_again(door: Door, wanted: str) -> None:
    for _ in sys.stdin:
        _tell(door, wanted)


def _open_browser(address: str) -> None:
    """Only on a desktop, and without the word: what a program is started with, every process can read."""
    desktop = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin"
    if desktop and not os.environ.get("SSH_CONNECTION"):
        import webbrowser

        webbrowser.open(address)
