"""pi-marathon loop finalize LANE: shows which branches the kept commits would make, and makes them after a yes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from marathon.core.lanes import names
from marathon.core.lanes.model import LaneState, Refused, Row
from marathon.core.lanes.numbers import change, number
from marathon.core.text import clean, counted, one_line
from marathon.errors import WaitsForHuman
from marathon.git import finalize
from marathon.git.worktree import git, top_of
from marathon.process.terminal import interactive
from marathon.store.lanes import Lanes, find_project

_MOST_FILES = 8


def finalize_loop(target: str, branch: str | None, *, split: bool, yes: bool, as_json: bool) -> None:
    lanes = Lanes(find_project(Path.cwd()))
    run = names.pick(target, lanes.runs(), "status")
    lane, top = lanes.load(run), top_of(lanes.project)
    rows = [row for row in lane.rows if row.commit and row.action in ("keep", "log")]
    if not rows:
        raise Refused(f"{run.name} has kept no commit.", f"See what it did: pi-marathon loop status {run.name}")
    kept = finalize.read_kept(top, [row.commit for row in rows if row.commit])
    branches = finalize.plan(kept, branch or f"loop/{run.lane}", split=split)
    if taken := finalize.name_taken(top, branches):
        raise Refused(taken, f"Choose another name: pi-marathon loop finalize {run.name} --branch NAME")
    by_commit = {each.commit: row for each, row in zip(kept, rows, strict=True)}
    options = [*(["--branch", branch] if branch else []), *(["--split"] if split else []), "--yes"]
    again = f"pi-marathon loop finalize {run.name} {shlex.join(options)}"
    if not as_json:
        subject = one_line(git(top, "show", "-s", "--format=%s", kept[0].parent), 60)
        _print(_preview(lane.state, f"{kept[0].parent[:12]} ({subject})", branches, by_commit))
    elif not yes:
        _print_json(run.name, kept, branches, {})
    if not yes:
        _ask(again, branches, as_json=as_json)
    tips = finalize.make(top, kept, branches)
    if as_json:
        _print_json(run.name, kept, branches, tips)
        return
    _print([f"Made {each.name} at {tips[each.name][:12]}." for each in branches])
    _print([f"Nothing was merged or pushed. To take it: git merge {' '.join(tips)}"])


def _ask(again: str, branches: Sequence[finalize.Branch], *, as_json: bool) -> None:
    if as_json or not interactive():
        raise WaitsForHuman(f"No branch was made yet. To make {'it' if len(branches) == 1 else 'them'}: {again}")
    what = "this branch" if len(branches) == 1 else f"these {len(branches)} branches"
    click.confirm(f"Make {what}?", abort=True)


def _preview(state: LaneState, base: str, branches: Sequence[finalize.Branch], rows: dict[str, Row]) -> Iterable[str]:
    yield f"{state.name} kept {counted(len(rows), 'commit')} on top of {base}."
    for branch in branches:
        yield f"Branch {branch.name}, {counted(len(branch.files), 'file')}: {_files(branch.files)}"
        for each in branch.commits:
            row = rows[each.commit]
            yield f"  {each.commit[:12]}  {row.iteration:>3}  {_gain(state, row)}  {one_line(row.hypothesis or '', 80)}"
    if len(branches) > 1:
        yield "Each was measured only together with the others. No file is in two of them."


def _gain(state: LaneState, row: Row) -> str:
    if row.metric is None or row.baseline is None:
        return ""
    return f"{number(row.baseline)} → {number(row.metric)}, {change(row.metric, row.baseline, state.metric_direction)}"


def _files(paths: Sequence[str]) -> str:
    shown = ", ".join(one_line(path, 100) for path in paths[:_MOST_FILES])
    return f"{shown} and {len(paths) - _MOST_FILES} more" if len(paths) > _MOST_FILES else shown


def _print_json(
    target: str, kept: Sequence[finalize.Kept], branches: Sequence[finalize.Branch], tips: Mapping[str, str]
) -> None:
    """The commit of a branch is null while it is only planned."""
    planned = [{"branch": each.name, "commit": tips.get(each.name), "files": each.files} for each in branches]
    facts = {"target": target, "made": bool(tips), "base": kept[0].parent, "branches": planned}
    click.echo(json.dumps(facts, indent=2))


def _print(lines: Iterable[str]) -> None:
    click.echo("\n".join(map(clean, lines)))
