"""Measured loops: `loop start`, `iterate`, `measure`, `decide` and the other verbs, for people and for agents."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import click
from click.core import ParameterSource

from marathon.cli.arguments import DURATION, MONEY, SANDBOX, TIME, TOKENS, Amount
from marathon.cli.human import typed_by_a_human
from marathon.cli.options import CommandLine
from marathon.core.lanes import names, verbs
from marathon.core.lanes.also import parse_also
from marathon.core.lanes.model import Acceptance, Check, Direction, LaneState, Measurer, Mode, Refused, Row
from marathon.core.lanes.numbers import number
from marathon.core.lanes.reading import regex_mistake
from marathon.core.lanes.rules import end_of, lesson, reanchors
from marathon.core.text import clean, utc
from marathon.errors import MarathonError
from marathon.git.lanes import diff_of
from marathon.process.terminal import interactive
from marathon.show import lane_plot
from marathon.show import lanes as show
from marathon.store.evaluator import Evaluator, freeze
from marathon.store.files import SHARED_FILE, write_atomic
from marathon.store.lanes import Lane, Lanes, find_project
from marathon.store.places import index_folder
from marathon.store.task_index import remember_task
from marathon.surfaces.paint import paint_diff

_CHECK = re.compile(r"(?P<name>.*?)=(?P<verdict>pass|fail)(?::(?P<about>.*))?", re.S)
# Numbers may follow one --value, also negative ones, which look like options.
_NUMBERS = {"ignore_unknown_options": True}
VALUES = click.option("--value", "values", type=float, multiple=True, metavar="X…", help="What verify printed.")
MORE = click.argument("more", nargs=-1, type=float, metavar="[X]...")
JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
LANE = click.argument("target", metavar="LANE")
NAMED = click.argument("target", metavar="LANE[/RUN]")
ANY = click.argument("target", metavar="[LANE[/RUN]]", default="")
BOUNDS = (
    click.option("--target", "target_metric", type=float, metavar="X", help="Complete when the number is reached."),
    click.option("--max-iterations", type=click.IntRange(min=1), help="Complete after so many."),
    click.option("--plateau", type=click.IntRange(min=1), metavar="N", help="Complete after N without a gain."),
)
SAID = (
    click.option("--hypothesis", metavar="TEXT", help="What you expect, and why."),
    click.option("--changes", metavar="TEXT", help="What you change."),
)


@click.group("loop")
def loop() -> None:
    """Measured loops: change one thing, measure, keep what improves the number.

    \b
    pi-marathon loop start "Make parse() faster" --lane perf \\
      --verify ./bench.sh --guard "make test"
    pi-marathon loop run perf            the runner measures, a session per change

    \b
    Or you, or an agent, measure and report:
    pi-marathon loop measure perf --value 120         first number: the baseline
    pi-marathon loop iterate perf --hypothesis "…"    change, run verify and guard
    pi-marathon loop measure perf --value 98 --check "guard=pass:make test"
    pi-marathon loop decide perf keep --value 98
    """


def _verb(
    name: str, *parameters: Callable[..., Any], **settings: Any
) -> Callable[[Callable[..., None]], click.Command]:
    """A command of the group, with --json. A refusal is an object then too, so that an agent finds the way on."""

    def made(call: Callable[..., None]) -> click.Command:
        @functools.wraps(call)
        def guarded(*, as_json: bool, **given: Any) -> None:
            try:
                call(as_json=as_json, **given)
            except Refused as refused:
                if as_json:
                    _say(as_json, {"refused": refused.reason, "recovery": refused.recovery}, [])
                raise

        for parameter in reversed((*parameters, JSON)):
            parameter(guarded)
        return loop.command(name, **settings)(guarded)

    return made


@_verb(
    "start",
    click.argument("goal"),
    click.option("--lane", help="Its name; without it, from the words of the goal."),
    click.option("--run", "tag", metavar="TAG", help="The name of this run; without it, run-YYYYMMDD-HHMMSS."),
    click.option("--mode", type=click.Choice(get_args(Mode)), help="Without it, from the words of the goal."),
    click.option("--verify", "verify_command", metavar="CMD", help="Prints the number."),
    click.option("--guard", "guard_command", metavar="CMD", help="Has to pass before anything is kept."),
    click.option("--prompt-verifier", metavar="TEXT", help="A question that has to be judged before anything is kept."),
    click.option("--acceptance-policy", metavar="TEXT", help="When a change is accepted, in words. Only noted."),
    click.option("--scope", metavar="TEXT", help="What may be changed, in words. Only told."),
    click.option("--metric", "metric_name", metavar="NAME", help="The number's name; verify prints METRIC NAME=X."),
    click.option("--metric-json", metavar="PATH", help="Where the number stands in verify's JSON, such as a.b.0."),
    click.option("--metric-regex", metavar="RE", help="Finds the number in verify's output; one group."),
    click.option(
        "--direction", "metric_direction", type=click.Choice(get_args(Direction)), default="lower", help="Else lower."
    ),
    click.option("--acceptance", "acceptance_mode", type=click.Choice(get_args(Acceptance)), help="Else by the mode."),
    click.option("--samples", "min_measurements", type=click.IntRange(min=1), help="At least so many numbers at once."),
    click.option("--timeout", type=DURATION, help="For one run of verify or guard; without it, 1h; 0: none."),
    *BOUNDS,
    click.option("--also", multiple=True, metavar="NAME:lower|higher:X[%]", help="May get worse by at most X."),
    click.option("--protect", "protected_paths", multiple=True, metavar="PATH", help="Must not change; repeatable."),
    click.option("--holdout", metavar="CMD", help="A guard that only the runner knows."),
    click.option("--measured-by", type=click.Choice(get_args(Measurer)), help="Without it, who measures the baseline."),
    click.option("--in-place", is_flag=True, help="Work in this tree instead of a worktree."),
)
def start(goal: str, lane: str | None, tag: str | None, as_json: bool, holdout: str | None, **options: Any) -> None:
    """Start a loop for GOAL. Nothing runs yet; the next step is its baseline."""
    lanes, now = Lanes(find_project(Path.cwd())), _now()
    with lanes.locked():
        runs = lanes.runs()
        lane = names.valid_name(lane, "lane") if lane else names.free(names.lane_of(goal), {run.lane for run in runs})
        taken = {run.tag for run in runs if run.lane == lane}
        if tag and names.valid_name(tag, "run") in taken:
            raise Refused(f"{lane}/{tag} exists already.", "Choose another name for --run, or leave it out.")
        tag = tag or names.free(f"run-{datetime.now(UTC):%Y%m%d-%H%M%S}", taken)
        state = _frozen(_new_state(goal, lane, tag, now, {**options, "holdout": holdout}), lanes.project)
        lanes.create(state)
        state = lanes.load(names.Run(lane, tag, state.status)).state
        remember_task(index_folder(), lanes.root, lanes.project)
        if holdout:
            lanes.set_holdout(state, holdout)
    if state.verify_command and typed_by_a_human():
        from marathon.cli.loop_run import remember_agreement

        remember_agreement(state, lanes)
    mode = f"{state.mode}, {state.metric_direction} is better, {state.acceptance}"
    lines = [f"Started {state.name} ({mode}).", f"Next, the baseline: {show.next_command(state)}"]
    if state.verify_command and state.measured_by is None and not state.prompt_verifier:
        lines.append(f"Or let the runner measure: {verbs.command('run', state)}")
    _tell(state, as_json, lines)


def _new_state(goal: str, lane: str, tag: str, now: str, options: dict[str, Any]) -> LaneState:
    if not goal.strip():
        raise Refused("The goal is empty.", 'Say what should get better: pi-marathon loop start "GOAL"')
    mode = options["mode"] or names.mode_of(goal)
    only_runner = next((option for name, option in _ONLY_RUNNER.items() if options[name]), None)
    if only_runner and options["measured_by"] == "agent":
        advice = f"Leave out {only_runner} or --measured-by agent."
        raise Refused(f"{only_runner} needs a loop that the runner measures.", advice)
    measurer: Measurer | None = options["measured_by"] or ("runner" if only_runner else None)
    del options["holdout"]  # it lies elsewhere
    if measurer == "runner":
        if not options["verify_command"]:
            raise Refused("The runner needs a command that prints the number.", "Name it: --verify CMD")
        if options["prompt_verifier"]:
            raise Refused("The runner cannot judge a --prompt-verifier.", "Write it as a --guard, or leave it out.")
    if options["metric_regex"] and (mistake := regex_mistake(options["metric_regex"])):
        raise Refused(f"--metric-regex: {mistake}.", r"Write it like: --metric-regex 'time: ([0-9.]+)'")
    metric = options["metric_name"] or ("open_or_partial_items" if mode == "punchlist" else None)
    given = {name: value for name, value in options.items() if value not in (None, ()) and value is not False}
    given |= {"mode": mode, "goal": goal.strip(), "measured_by": measurer, "metric_name": metric}
    state = LaneState(lane=lane, run_tag=tag, started_at=now, last_updated=now, **given)
    if state.also:
        _check_also(state)
    return state.with_(acceptance_mode=state.acceptance)


_ONLY_RUNNER = {"holdout": "--holdout", "in_place": "--in-place", "also": "--also", "timeout": "--timeout"}


def _check_also(state: LaneState) -> None:
    """Secondary metrics come as METRIC lines beside a named one, and are compared when a gain is confirmed."""
    for text in state.also or ():
        parse_also(text)
    if not state.metric_name:
        raise Refused("--also needs the name of the number that decides.", "Verify prints METRIC lines: --metric NAME")
    if state.metric_json or state.metric_regex:
        raise Refused("--also reads METRIC lines.", "Leave out --metric-json and --metric-regex.")
    if state.acceptance == "log":
        raise Refused("--also needs a loop that keeps and reverts.", "Leave it out, or use --acceptance keep-revert.")


def _frozen(state: LaneState, project: Path) -> LaneState:
    """With --protect, what measures is hashed at the start. A runner hashes it again in its own tree."""
    if not state.protected_paths:
        return state
    commands = filter(None, (state.verify_command, state.guard_command))
    evaluator = freeze(project, commands, state.protected_paths)
    return state.with_(frozen_paths=list(evaluator.roots), frozen=dict(evaluator.digests))


@_verb(
    "run",
    NAMED,
    click.argument("agent_args", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]"),
    click.option("--agent", default="pi", show_default=True, metavar="NAME", help="As for --task."),
    click.option("--mode", type=click.Choice(["tui", "stream"]), help="As for --task."),
    *BOUNDS,
    click.option("--max-time", type=TIME, default="0", help="Working time such as 90m or 8h; 0: no limit."),
    click.option("--max-cost", type=MONEY, default="0", help="What the agent may cost; 0: no limit."),
    click.option("--max-tokens", type=TOKENS, default="0", help="Tokens, all kinds together; 0: no limit."),
    click.option("--session-timeout", type=DURATION, default="2h", show_default=True, help="For one session; 0: none."),
    click.option("--trust", is_flag=True, help="Agree to the loop's commands as they are now."),
    click.option("--detach", is_flag=True, help="As for --task."),
    click.option("--sandbox", is_flag=False, flag_value="on", type=SANDBOX, help="As for --task."),
)
def run(target: str, as_json: bool, trust: bool, **options: Any) -> None:
    """Run a loop, one session per change. The runner measures, and keeps what improves the number."""
    from marathon.cli.loop_run import run_loop

    bounds = {name: options.pop(name) for name in ("max_iterations", "target_metric", "plateau")}
    ctx = click.get_current_context()
    typed = frozenset(name for name in options if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE)
    line = CommandLine(task=None, as_json=as_json, trust=trust, typed=typed, max_iterations=Amount(0), **options)
    ctx.exit(run_loop(target, line, **bounds))


@_verb("iterate", LANE, *SAID)
def iterate(target: str, as_json: bool, **said: str | None) -> None:
    """Start the next iteration. Tells what was tried, what to beat, and what to run."""
    with _changing(target, "iterate") as change:
        state = change.to(verbs.iterate(change.state, change.now, **said))
    lessons, whole = change.lanes.lessons(change.run), reanchors(state.iteration)
    brief = show.brief(state, change.lane.rows, lessons, whole=whole)
    _tell(state, as_json, brief, lessons=lessons, reanchored=whole)


@_verb(
    "measure",
    LANE,
    MORE,
    VALUES,
    click.option("--check", "checks", multiple=True, metavar="NAME=pass|fail[:COMMAND or PROMPT]", help="A verdict."),
    context_settings=_NUMBERS,
)
def measure(target: str, more: Sequence[float], values: Sequence[float], checks: Sequence[str], as_json: bool) -> None:
    """Record what verify printed, and the verdicts. The first measurement is the baseline."""
    with _changing(target, "measure") as change:
        given = [_check(each, change.state) for each in checks]
        if change.state.frozen_paths:
            evaluator = Evaluator(tuple(change.state.frozen_paths), change.state.frozen or {})
            given.append(evaluator.check(change.lanes.project))
        before = change.state.reference
        state, row = verbs.measure(change.state, change.now, [*values, *more], given)
        change.to(state, row)
    if state.active_iteration and before is not None:
        _tell(state, as_json, show.measured_lines(state, state.active_iteration, before))
        return
    assert row is not None
    missing = show.check_lines([each for each in row.checks or () if not each.passed])
    said = [f"Baseline of {state.name}: {number(row.metric or 0)}", *missing, *_way_on(state)]
    _tell(state, as_json, said, row)


@_verb(
    "decide",
    LANE,
    click.argument("action", type=click.Choice(["keep", "revert", "log", "skip"])),
    *(MORE, VALUES, *SAID),
    context_settings=_NUMBERS,
)
def decide(
    target: str, action: str, more: Sequence[float], values: Sequence[float], as_json: bool, **said: str | None
) -> None:
    """Finish the measured iteration. Its measurement says with which action."""
    with _changing(target, "decide") as change:
        state, row = verbs.decide(change.state, change.now, action, [*values, *more], **said)
        change.to(state, row)
    _tell_row(state, row, as_json)


@_verb(
    "log",
    LANE,
    click.argument("action", type=click.Choice(["log", "skip", "crash", "blocked"]), default="log"),
    click.option("--value", type=float, metavar="X", help="The number, if it is not measured yet."),
    click.option("--note", metavar="TEXT", help="Why."),
)
def log(target: str, action: str, value: float | None, note: str | None, as_json: bool) -> None:
    """Finish an iteration without a decision. It does not move the reference of a loop that keeps and reverts."""
    with _changing(target, "log") as change:
        measured = change.state if value is None else verbs.with_value(change.state, change.now, value)
        state, row = verbs.log(measured, change.now, action, note)
        change.to(state, row)
    _tell_row(state, row, as_json)


@_verb("status", ANY)
def status(target: str, as_json: bool) -> None:
    """Where a loop stands, and the next command. Without a name: every loop that is not archived."""
    from marathon.cli.loop_run import runner_lines, runner_of

    lanes = Lanes(find_project(Path.cwd()))
    told, texts = [], []
    for run in names.chosen(target, lanes.runs(), "status"):
        lane, lessons, does = _load(lanes, run), lanes.lessons(run), runner_lines(lanes, run)
        text = "\n".join(show.status_lines(lane.state, lane.rows, lessons, at_work=runner_of(lanes, run) is not None))
        facts = {"rows": [row.facts() for row in lane.rows], "lessons": lessons, "runner": does, "text": text}
        told.append({**_facts(lane.state), **facts})
        texts.append("\n".join([text, *does]))
    _say(as_json, told[0] if target.strip() else told, ["\n\n".join(texts) or _NONE])


@_verb("show", NAMED, click.argument("iteration", type=click.IntRange(min=0), metavar="N"))
def show_iteration(target: str, iteration: int, as_json: bool) -> None:
    """Show iteration N with its diff, numbers, verdicts and lesson. 0 is the baseline."""
    lanes, run, lane = _named(target)
    found = [row for row in lane.rows if row.iteration == iteration and (not row.is_mark or row.action == "baseline")]
    if not found:
        see = f"It has {lane.state.iteration}: pi-marathon loop status {run.name}"
        raise Refused(f"{run.name} has no iteration {iteration}.", see)
    row = found[-1]
    commit = row.commit or row.tried
    diff = diff_of(lanes.project, commit) if commit else ""
    _say(
        as_json,
        {"target": run.name, "row": row.facts(), "lesson": lesson(row), "diff": diff},
        [*show.iteration_lines(row, lane.state, lesson(row)), *([paint_diff(clean(diff))] if diff else [])],
    )


@_verb(
    "plot",
    NAMED,
    click.option("-o", "--output", type=Path, metavar="FILE", help="Where to write; .svg and .html are added."),
)
def plot(target: str, output: Path | None, as_json: bool) -> None:
    """Draw the course of a loop. Writes an SVG, and an HTML page that needs nothing else."""
    lanes, run, lane = _named(target)
    base = output or lanes.folder(run) / "plot"
    files = {
        str(base.with_suffix(".svg")): lane_plot.svg(lane.state, lane.rows),
        str(base.with_suffix(".html")): lane_plot.page(lane.state, lane.rows, lanes.lessons(run)),
    }
    for name, text in files.items():
        write_atomic(Path(name), text.encode("utf-8", "replace"), mode=SHARED_FILE)
    _say(as_json, {"target": run.name, "files": list(files)}, [clean(f"Wrote {name}") for name in files])


@_verb(
    "finalize",
    NAMED,
    click.option("--branch", metavar="NAME", help="Its name; without it, loop/LANE. Several get -1, -2, …."),
    click.option("--split", is_flag=True, help="Several branches where the kept commits touch different files."),
    click.option("--yes", is_flag=True, help="Make what the preview shows, without asking."),
)
def finalize(target: str, branch: str | None, split: bool, yes: bool, as_json: bool) -> None:
    """Make a branch of what was kept, after a preview. Nothing is merged or pushed; your files stay as they are."""
    from marathon.cli.loop_finalize import finalize_loop

    finalize_loop(target, branch, split=split, yes=yes, as_json=as_json)


@_verb("ls", click.option("--archived", is_flag=True, help="The archived ones too."))
def ls(archived: bool, as_json: bool) -> None:
    """The loops of this project, newest first."""
    lanes = Lanes(find_project(Path.cwd()))
    order = get_args(LaneState.model_fields["status"].annotation)
    runs = sorted(
        (run for run in lanes.runs() if archived or run.status != "archived"), key=lambda run: order.index(run.status)
    )
    states = [_readable(lanes, run) for run in runs]
    known = zip(runs, states, strict=True)
    facts = [{"target": run.name, "status": run.status, "state": state and state.facts()} for run, state in known]
    _say(as_json, facts, show.list_lines(runs, states) or [_NONE])


@_verb("resume", ANY, *BOUNDS)
def resume(target: str, as_json: bool, **bounds: float | None) -> None:
    """Let a loop run again. One that had ended gets a fresh ladder."""
    from marathon.cli.loop_run import task_of, waits_at_gate

    with _changing(target, "resume") as change:
        known = task_of(change.lanes, change.run)
        if known and known.life.gate and change.state.status == "stopped":
            raise waits_at_gate(known, change.run.name)
        state, row = verbs.resume(change.state, change.now, **bounds)
        change.to(state, row)
    _tell(state, as_json, [f"{state.name} is running.", *_way_on(state)], row)


@_verb("pause", ANY)
def pause(target: str, as_json: bool) -> None:
    """Pause a loop. Without a name: every running one."""
    _end(target, "pause", "paused", as_json)


@_verb("stop", ANY)
def stop(target: str, as_json: bool) -> None:
    """Stop a loop. Without a name: every running one."""
    _end(target, "stop", "stopped", as_json)


@_verb("archive", ANY)
def archive(target: str, as_json: bool) -> None:
    """Move a loop to the archive. Without a name: those that are stopped or completed."""
    _end(target, "archive", "archived", as_json)


@_verb("rm", click.argument("target", metavar="LANE/RUN"), click.option("--yes", is_flag=True, help="Do not ask."))
def rm(target: str, yes: bool, as_json: bool) -> None:
    """Remove a loop with all of its files. It has to be named exactly. The branch with what was kept stays."""
    from marathon.cli.loop_run import clear_away, runner_of

    lanes = Lanes(find_project(Path.cwd()))
    lane, tag = names.split(target)
    matches = [run for run in lanes.runs() if run.lane == lane and tag in (None, run.tag)]
    if tag is None:
        example = matches[0].name if matches else f"{lane}/RUN"
        raise Refused("rm needs the exact name of a run.", f"Type: pi-marathon loop rm {example}")
    if not matches:
        raise Refused(f"There is no loop {lane}/{tag}.", "See all of them: pi-marathon loop ls --archived")
    if not yes and not as_json and interactive():
        click.confirm(f"Remove {matches[0].name} with its results and lessons?", abort=True)
    with lanes.locked():
        clear_away(lanes, matches[0], runner_of(lanes, matches[0]), for_good=True)
        lanes.remove(matches[0])
    _say(as_json, {"target": matches[0].name, "status": "removed"}, [f"Removed {matches[0].name}."])


# One change of one loop


@dataclass
class _Change:
    lanes: Lanes
    run: names.Run
    lane: Lane
    now: str

    @property
    def state(self) -> LaneState:
        return self.lane.state

    def to(self, state: LaneState, row: Row | None = None) -> LaneState:
        self.lanes.save(self.lane, state, row, self.now)
        return state


@contextmanager
def _changing(target: str, verb: str) -> Iterator[_Change]:
    """The loop that a target names, held under the lock from its reading to its writing."""
    lanes = Lanes(find_project(Path.cwd()))
    _one(target, lanes.runs(), verb)  # before the lock, so that a refusal in a foreign folder makes no files there
    with lanes.locked():
        run = _one(target, lanes.runs(), verb)
        yield _Change(lanes, run, _load(lanes, run), _now())


def _named(target: str) -> tuple[Lanes, names.Run, Lane]:
    """The loop that a target names, to be looked at."""
    lanes = Lanes(find_project(Path.cwd()))
    run = names.pick(target, lanes.runs(), "status")
    return lanes, run, _load(lanes, run)


def _one(target: str, runs: Sequence[names.Run], verb: str) -> names.Run:
    fits = _some(target, runs, verb)
    if len(fits) > 1:
        raise names.ambiguous(fits, verb, f"{len(fits)} loops match.")
    return fits[0]


def _end(target: str, verb: str, status: str, as_json: bool) -> None:
    """Pause, stop or archive one loop, or without a name those that the verb is about then."""
    from marathon.cli.loop_run import TASK, ask_to_stop, clear_away, runner_of
    from marathon.store.home import Home

    lanes, now = Lanes(find_project(Path.cwd())), _now()
    _some(target, lanes.runs(), verb)
    ended = []
    with lanes.locked():
        for run in _some(target, lanes.runs(), verb):
            lane = _load(lanes, run)
            state = verbs.ended(lane.state, status, now)
            holder = runner_of(lanes, run)
            if status == "archived":
                clear_away(lanes, run, holder)
                home = Home(lanes.folder(run) / TASK)
                home.move_to(lanes.archive(state, now) / TASK)
            else:
                lanes.save(lane, state, None, now)
                ask_to_stop(lanes, run, holder)
            ended.append(state)
    facts = [{**_facts(state), "text": "\n".join(show.card(state))} for state in ended]
    _say(as_json, facts[0] if target.strip() else facts, [each["text"] for each in facts])


def _some(target: str, runs: Sequence[names.Run], verb: str) -> list[names.Run]:
    found = names.chosen(target, runs, verb)
    if not found:
        kinds = " or ".join(names.UNNAMED[verb])
        raise Refused(f"No loop is {kinds}. To {verb} another one, name it.", "See all of them: pi-marathon loop ls")
    return found


# Words in and out


def _check(text: str, state: LaneState) -> Check:
    """NAME=pass or NAME=fail, and after a colon the command or the prompt that was judged. Or a check as JSON."""
    if text.startswith("{"):
        return verbs.parsed_check(text)
    match = _CHECK.fullmatch(text)
    if match is None:
        wanted = state.guard_command or state.prompt_verifier
        example = verbs.measure_command(state) if wanted else "--check tests=pass"
        raise Refused(f"{clean(text)!r} is not a check.", f"Write NAME=pass or NAME=fail, such as: {example}")
    about = (match["about"] or "").strip() or None
    is_prompt = about is not None and about == (state.prompt_verifier or "").strip()
    given = {"prompt": about} if is_prompt else {"command": about}
    return Check(name=match["name"].strip(), passed=match["verdict"] == "pass", **given)


def _tell_row(state: LaneState, row: Row, as_json: bool) -> None:
    lines = [show.settled_line(state, row)]
    lines += [_ESCALATIONS[row.escalation_type]] if row.escalation_type else []
    _tell(state, as_json, [*lines, *_way_on(state)], row)


def _way_on(state: LaneState) -> list[str]:
    return [f"Next: {show.next_command(state)}"] if state.status == "running" else show.card(state)


_ESCALATIONS = {
    "refine": "Several failures in a row: refine the approach before the next change.",
    "pivot": "Five failures in a row: leave this strategy and choose another one.",
    "stop": "The pivots are used up, so the loop stopped. Look at the results and lessons before you resume it.",
}


def _tell(state: LaneState, as_json: bool, lines: Iterable[str], row: Row | None = None, **more: Any) -> None:
    told = "\n".join(map(clean, lines))
    _say(as_json, {**_facts(state), **more, **({"row": row.facts()} if row else {}), "text": told}, [told])


def _facts(state: LaneState) -> dict[str, Any]:
    return {
        "target": state.name,
        "status": state.status,
        "ended": end_of(state) if state.status == "completed" else "",
        "next": show.next_command(state),
        "state": state.facts(),
    }


def _readable(lanes: Lanes, run: names.Run) -> LaneState | None:
    """None for a loop whose files are damaged: the others are still listed."""
    try:
        return lanes.load(run).state
    except MarathonError:
        return None


def _load(lanes: Lanes, run: names.Run) -> Lane:
    """A loop. What is wrong with its files is told."""
    lane = lanes.load(run)
    for notice in lane.notices:
        click.echo(f"pi-marathon: {clean(notice)}", err=True)
    return lane


def _say(as_json: bool, facts: object, lines: Iterable[str]) -> None:
    click.echo(json.dumps(facts, indent=2, ensure_ascii=False) if as_json else "\n".join(lines))


def _now() -> str:
    return utc(datetime.now(UTC))


_NONE = 'There are no loops here. Start one: pi-marathon loop start "GOAL" --verify CMD'
