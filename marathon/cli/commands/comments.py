"""Commands of a review from a shell: comment, comments, rounds."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from marathon.cli.arguments import DIRECTORY, message_text, optional_task, task_and_text
from marathon.cli.commands.gate import recorded
from marathon.cli.human import refuse_in_a_session
from marathon.core.comments import lines_of
from marathon.core.differences import difference
from marathon.core.rounds import Round, comments_on, rounds_of
from marathon.errors import WrongUsage
from marathon.runner.commenting import add_comment, withdraw
from marathon.runner.review import document_text, standings, text_of
from marathon.runner.sights import document_at_hand
from marathon.runner.status_query import read_task
from marathon.show.review import comment_lines, round_lines
from marathon.surfaces.comment import kind_of, lines_in, lines_with
from marathon.surfaces.pager import page
from marathon.surfaces.paint import paint_diff

_FILE = "The document; as a rule the one that is to be reviewed."


@click.command("comment")
@task_and_text("active")
@click.option("--on", "heading", metavar="HEADING", help="On the heading, step or line with these words.")
@click.option("--lines", metavar="10-14", help="On this line or these lines.")
@click.option("--file", "file", metavar="NAME", help=_FILE)
@click.option("--must", is_flag=True, help="It must be answered. So does a question, and a text that begins with !.")
def comment(said: tuple[Path, str], heading: str | None, lines: str | None, file: str | None, must: bool) -> None:
    """Comment on a document of TASK: shown in human.md, answered by the next session. - reads standard input.

    It answers no gate.
    """
    recorded(said[0])
    known = read_task(said[0], Path.cwd())
    text, kind = kind_of(message_text(said[1]))
    if known.life.finished or known.life.cancelled:
        raise WrongUsage(f"{known.shown} is over, so no session will read it. Nothing was written.")
    name = file or document_at_hand(known, known.life.gate) or ""
    document = document_text(known, name)
    if (heading or lines or file) and not document:
        raise WrongUsage(f"There is no document {name or 'yet'} to comment on. Nothing was written.")
    place = lines_in(lines or "", len(lines_of(document))) if not heading else _line_of(heading, document, name)
    if place is None:
        raise WrongUsage(f"{name} has no lines {lines}. Nothing was written. Write them like 12 or 10-14.")
    kind = "must" if must else kind
    made = add_comment(known, text, kind=kind, file=name, first=place[0], last=place[1], document=document)
    about = f", {made.where()}" if made.file else ""
    click.echo(f"Written: {made.id} ({made.kind}{about}). The next session is asked to answer it.")


@click.command("comments")
@optional_task("latest")
@click.option("--withdraw", "withdrawn", metavar="ID", help="Take a comment back; its text stays on record.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list.")
def comments(shown: Path, withdrawn: str | None, as_json: bool) -> None:
    """The comments on TASK with their answers, those without an answer first."""
    if withdrawn:
        refuse_in_a_session("comments --withdraw")
        recorded(shown)
        withdraw(read_task(shown, Path.cwd()), withdrawn)
    found = standings(read_task(shown, Path.cwd()), withdrawn_too=True)
    if as_json:
        facts = [
            {**vars(each.comment), "lines": each.lines, "answer": each.answer, "open": each.open} for each in found
        ]
        click.echo(json.dumps(facts, indent=2, default=lambda reply: reply.text))
    else:
        click.echo(paint_diff("\n".join(comment_lines(found))))


@click.command("rounds")
@DIRECTORY
@click.argument("phase", required=False)
@click.argument("labels", metavar="[A B]", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="A JSON list.")
def rounds(shown: Path, phase: str | None, labels: tuple[str, ...], as_json: bool) -> None:
    """Every version of TASK that was reviewed or edited by hand; with A and B, what changed between two of them.

    A round is named by its number, as in: rounds TASK plan 1 2. An edit by hand is 2h; 1.2 is round 2 of run 1.
    """
    known = read_task(shown, Path.cwd())
    every = rounds_of(known.records)
    found = [each for each in every if phase in (None, each.phase)]
    commented = comments_on(every, known.life.comments)
    kept = {each: known.task.runs.round_file(each) for each in found}
    if labels:
        if len(labels) != 2 or phase is None:
            raise WrongUsage(f"Name two rounds: pi-marathon rounds {shlex.quote(str(shown))} {phase} 1 2")
        old, new = (kept[_named(label, found)] for label in labels)
        if not old or not new:
            raise WrongUsage("The copy of one of these rounds was not kept or was changed, so they cannot be compared.")
        diff = difference(text_of(old), text_of(new), *(f"{phase} round {label}" for label in labels))
        page(paint_diff(diff) if diff else "Nothing changed between these two.")
    elif as_json:
        more = {
            each: {"label": each.label, "path": str(kept[each] or ""), "commented": commented[each]} for each in found
        }
        click.echo(json.dumps([vars(each) | more[each] for each in found], indent=2, default=vars))
    else:
        click.echo("\n".join(round_lines(found, commented)))


def _line_of(heading: str, document: str, name: str) -> tuple[int, int]:
    """The heading, the step or the line that has these words. Two candidates are never guessed between."""
    found = lines_with(heading, document)
    if len(found) != 1:
        which = f"Lines {', '.join(str(at) for at, _ in found[:9])}" if found else "No lines"
        raise WrongUsage(f"{which} of {name} have {heading!r}. Nothing was written. Give the lines: --lines 10-14")
    return found[0][0], found[0][0]


def _named(label: str, found: Sequence[Round]) -> Round:
    """2 in the last run that has it, or 1.2 for run 1."""
    fits = [each for each in found if label in (each.label, f"{each.run}.{each.label}")]
    if not fits:
        known = ", ".join(f"{each.run}.{each.label}" for each in found) or "none"
        raise WrongUsage(f"There is no such round: {label}. There are: {known}")
    return fits[-1]
