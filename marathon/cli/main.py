"""pi-marathon: the entry, its options, and the one boundary where errors become a sentence and an exit code."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from marathon import __version__
from marathon.cli.arguments import BUDGETS, DURATION, HOURS, MONEY, SANDBOX, SESSIONS, TASK, TIME, TOKENS, usual_value
from marathon.cli.unseen import arguments
from marathon.errors import MarathonError

# name: (the module below marathon.cli.commands, what --help says); a module is loaded only when its command is typed.
COMMANDS = {
    "demo": ("demo", "A whole marathon in a throw-away project; no key, no network."),
    "new": ("task", "Make a task directory."),
    "run": ("pool", "Run several tasks, some of them at a time."),
    "repeat": ("repeat", "Make a task with a checklist and work on it: the plain loop."),
    "loop": ("loop", "Measured loops: keep what improves a number."),
    "score": ("task", "Advice on a task's instructions."),
    "list": ("status", "The tasks of this project; --all: of this machine."),
    "status": ("status", "Where a task stands and what it waits for."),
    "attach": ("attach", "Watch a running marathon, steer it, answer its gate."),
    "logs": ("attach", "What a marathon has done, as plain lines."),
    "web": ("web", "All tasks of this machine in the browser."),
    "review": ("web", "Review a task in the browser."),
    "comment": ("comments", "Comment on lines of a document, for the next session."),
    "comments": ("comments", "The comments on a task with their answers."),
    "rounds": ("comments", "Every reviewed version, and what changed between two."),
    "check": ("check", "Run the checks of a task."),
    "approve": ("gate", "Answer an open gate: continue."),
    "redo": ("gate", "Answer an open gate: do a phase again."),
    "answer": ("gate", "Answer the agent's question."),
    "accept": ("gate", "End a task although not every criterion is met (asks first)."),
    "undo": ("gate", "What changed meanwhile, and undo some of it at an open gate."),
    "cancel": ("gate", "End a run for good (asks first)."),
    "steer": ("gate", "Send guidance to the agent."),
    "feedback": ("feedback", "Give feedback without a restart; it is kept in human.md."),
    "pr": ("pr", "Propose a task's branch as a pull request (asks first)."),
    "report": ("web", "One HTML file about a task, or Markdown for a pull request."),
    "stop": ("gate", "Ask the running marathon to stop after this session."),
    "kill": ("gate", "End a running marathon and its agent at once."),
    "clean": ("removal", "Remove what the runner kept of finished tasks (asks first)."),
    "archive": ("removal", "Move a finished task to docs/tasks/archive (asks first)."),
    "rm": ("removal", "Remove a task with everything that belongs to it (asks first)."),
    "repair": ("repair", "Repair a damaged or changed journal (asks first)."),
    "doctor": ("setup", "Check this machine and say what to fix."),
    "install": ("install", "Give pi the extension and the skills, or Claude Code the hooks."),
    "uninstall": ("install", "Take back what install added."),
    "service": ("service", "After a reboot, resume what ran in the background."),
    "workflow": ("setup", "List, show and check workflow definitions."),
    "completion": ("setup", "Print the shell completion script."),
    "wait": ("agent", "Ask for a pause before the next session."),
    "ask": ("agent", "Ask the human a question."),
    "mcp": ("mcp", "Our tools over the Model Context Protocol."),
    "hook": ("hook", "For Claude Code's hooks: may it stop, what should it know."),
    "claude-loop": ("claude_loop", "A goal that Claude Code's Stop hook holds it to."),
}


# The sections of --help, each by its first command.
SECTIONS = {
    "demo": "Begin",
    "list": "Watch",
    "review": "Review and answer",
    "stop": "Stop and tidy up",
    "doctor": "Set up",
    "wait": "For agents",
}


class LazyGroup(click.Group):
    """Commands by table, and everything after a bare `--` kept for the agent."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"marathon.cli.commands.{COMMANDS[cmd_name][0]}")
        commands = (each for each in vars(module).values() if isinstance(each, click.Command))
        return next(command for command in commands if command.name == cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: list[tuple[str, list[tuple[str, str]]]] = []
        for name, (_, told) in COMMANDS.items():
            if name in SECTIONS:
                sections.append((SECTIONS[name], []))
            sections[-1][1].append((f"{name:11}", told))
        for heading, rows in sections:
            with formatter.section(heading):
                formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            before = args[: args.index("--")]
            if self._no_command_in(ctx, before):
                ctx.meta["agent_args"] = tuple(args[len(before) + 1 :])
                args = before
        try:
            return super().parse_args(ctx, args)
        except click.BadOptionUsage as error:
            if error.option_name not in ("-h", "--human"):
                raise
            said = f"{error.message} It restarts a task with what you say; help is --help."
            raise click.BadOptionUsage(error.option_name, said, ctx) from error

    def _no_command_in(self, ctx: click.Context, args: list[str]) -> bool:
        try:
            return not self.make_parser(ctx).parse_args(list(args))[1]
        except click.UsageError:
            return True

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if ctx.params.get("task") is not None:
            raise click.UsageError(
                f"--task stands alone; {args[0]!r} is not expected. Arguments for the agent go after --."
            )
        if args[0] not in COMMANDS:
            raise click.UsageError(f"No such command {args[0]!r}. {_meant(args[0])}", ctx)
        if not ctx.resilient_parsing:
            _refuse_agents(args)
        return super().resolve_command(ctx, args)


def _refuse_agents(args: Sequence[str]) -> None:
    """Some commands do nothing in an agent's session, except to explain themselves."""
    from marathon.cli.human import FOR_HUMANS, refuse_in_a_session

    for words in (1, 2):
        command = " ".join(args[:words])
        if command in FOR_HUMANS and args[words:] != ["--help"]:  # elsewhere it may be the value of an option
            refuse_in_a_session(command)


def _agents(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from marathon.agents.table import AGENTS

    return [name for name in AGENTS if name.startswith(incomplete)]


def _meant(word: str) -> str:
    import difflib  # only for someone who mistyped
    import shlex

    from marathon.cli.find import is_named

    if os.path.isdir(word) or is_named(word):
        return f"A task is given by its option: pi-marathon --task {shlex.quote(word)}"
    close = difflib.get_close_matches(word, COMMANDS, 1)
    return f"Did you mean: pi-marathon {close[0]}" if close else "All of them: pi-marathon --help"


_CHOSEN = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)  # whatever the files say
COUNT = click.IntRange(min=0)
_AGENT = "pi, claude, codex, gemini, opencode, rehearsal; acp or command (a program after --). a,b: b takes over."
_SET = "For one phase: agent, model, thinking, args or tools, such as plan.model=opus; plan= forgets it."
_SANDBOX = "Run the agent behind a wall (bubblewrap): it writes only the task, and the project where its phase may."
_HUMAN = "Restart a finished or paused task with this feedback (help is --help)."
_HERE = "Work in this directory, not in the project's root or where the task last ran."
_WORKTREE = "Work in a git worktree on its own branch, marathon/TASK if none is given."
_HOURS = "Start sessions only then, such as 20:00-07:00; any: at any hour."
_SETUP = "Run this once in a new worktree, such as 'npm ci'; 'setup' in checks.toml does the same."
_ADOPT = "Take over a task that was copied here, or whose reviews are not on record."
_TRUST = "Agree to the checks and the workflow as they are now, for CI."
_DETACH = "Go on in the background; see it with: pi-marathon attach."
_FILE = click.Path(dir_okay=False, resolve_path=True, path_type=Path)
_OUTAGE = "Wait so long for a network or provider that is away; 0: as any failure."
_BREAKER = "When it counts as stuck; same-error=3, … 0: never."
EPILOG = (
    "Exit codes: 0 completed, 1 failed, 2 wrong usage, 3 waits for a human, 4 limit, 5 stuck, 6 busy, 7 invalid task."
)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["--help"], "max_content_width": 110, "auto_envvar_prefix": "PI_MARATHON"},
    epilog=EPILOG,
)
@click.version_option(__version__, prog_name="pi-marathon")
@click.option("--task", metavar="TASK", type=TASK, allow_from_autoenv=False, help="Run the marathon of this task.")
@click.option("-h", "--human", metavar="TEXT", allow_from_autoenv=False, help=_HUMAN)
@click.option("--agent", default="pi", show_default=True, metavar="NAME", shell_complete=_agents, help=_AGENT)
@click.option(
    "--mode", type=click.Choice(["tui", "stream"]), help="Give the agent the terminal, or show its work as lines."
)
@click.option("--set", "settings", multiple=True, metavar="PHASE.NAME=VALUE", allow_from_autoenv=False, help=_SET)
@click.option("--workflow", default="rpi", show_default=True, metavar="KEY", help="For a new task; see: workflow list.")
@click.option(
    "--oversight",
    "--shape",
    "oversight",
    envvar=["PI_MARATHON_OVERSIGHT", "PI_MARATHON_SHAPE"],
    type=click.Choice(["tool", "colleague"]),
    help="tool: you are asked at reviews only; colleague: after every session.",
)
@click.option("--auto-approve", is_flag=True, help="Approve review gates automatically (recorded as unreviewed).")
@click.option("--answers-here", is_flag=True, help="Take answers to gates only at this terminal.")
@click.option("--trust", is_flag=True, allow_from_autoenv=False, help=_TRUST)
@click.option("--yes", is_flag=True, allow_from_autoenv=False, help="With -h: restart also where work is not finished.")
@click.option("--here", is_flag=True, allow_from_autoenv=False, help=_HERE)
@click.option("--worktree", is_flag=False, flag_value="", metavar="[BRANCH]", allow_from_autoenv=False, help=_WORKTREE)
@click.option("--setup", metavar="CMD", allow_from_autoenv=False, help=_SETUP)
@click.option("--adopt", is_flag=True, allow_from_autoenv=False, help=_ADOPT)
@click.option("--detach", is_flag=True, allow_from_autoenv=False, help=_DETACH)
@click.option("--sandbox", is_flag=False, flag_value="on", type=SANDBOX, help=_SANDBOX)
@click.option("--max-iterations", type=SESSIONS, default="100", show_default=True, help="Sessions; 0: no limit.")
@click.option("--max-time", type=TIME, default="0", help="Working time such as 90m or 8h; 0: no limit.")
@click.option("--max-cost", type=MONEY, default="0", help="What the agent may cost; +10: so much more. 0: no limit.")
@click.option("--max-tokens", type=TOKENS, default="0", help="Tokens, all kinds together; 0: no limit.")
@click.option("--reflect-every", type=COUNT, default=0, metavar="N", help="Look back after every N sessions.")
@click.option("--breaker", "breakers", multiple=True, metavar="NAME=N", help=_BREAKER)
@click.option("--session-timeout", type=DURATION, default="2h", show_default=True, help="For one session; 0: none.")
@click.option("--retries", type=COUNT, default=3, show_default=True, help="Tries after a failed session.")
@click.option(
    "--retry-wait", type=DURATION, default="2s", show_default=True, help="Before the first retry; then doubling."
)
@click.option("--outage", type=DURATION, default="6h", show_default=True, help=_OUTAGE)
@click.option("--hours", type=HOURS, default="", help=_HOURS)
@click.option("--allow-sleep", is_flag=True, help="Let the machine fall asleep while a session runs.")
@click.option("--keep-events", type=COUNT, default=200, show_default=True, help="Logs of a run; 0: keep all.")
@click.option("--json", "as_json", is_flag=True, help="Ask nothing; print one JSON object at the end.")
@click.option("--summary", type=_FILE, help="Write summary.md here too, for CI.")
@click.option("--notify/--no-notify", default=True, help="Bell, notification, title and progress of the window.")
@click.pass_context
def cli(ctx: click.Context, /, **options: Any) -> None:
    """Lets a coding agent work for hours on one task: research, plan, implement, with you at the gates.

    \b
    pi-marathon new                         make a task
    pi-marathon --task TASK                 run it with pi; part of a name will do
    pi-marathon --task TASK -h "feedback"   run a finished one again
    pi-marathon                             pi; in it: /marathon-loop DIR
    pi-marathon --task TASK --agent command -- PROGRAM ARGS     any program
    """
    if ctx.invoked_subcommand is None:
        run_line(ctx, options)


def run_line(ctx: click.Context, options: dict[str, Any]) -> None:
    """Run the task that the options name, or without one start pi."""
    from marathon.cli.options import CommandLine
    from marathon.process.linux import require_proc
    from marathon.store.home import require_homes

    by_project, ignored = (ctx.obj.by_project, ctx.obj.ignored) if ctx.obj else ((), {})
    source = {name: ctx.get_parameter_source(name) for name in options}
    source |= {"agent_args": ParameterSource.COMMANDLINE} if "agent_args" in ctx.meta else {}
    line = CommandLine(
        **options,
        agent_args=ctx.meta.get("agent_args", ()),
        typed=frozenset(name for name, where in source.items() if where is ParameterSource.COMMANDLINE),
        by_environment=frozenset(name for name, where in source.items() if where is ParameterSource.ENVIRONMENT),
        usual={name: usual_value(ctx, name) for name in BUDGETS},
        workflow_by_file=ctx.get_parameter_source("workflow") is ParameterSource.DEFAULT_MAP,
        by_project=frozenset(name for name in by_project if source[name] is ParameterSource.DEFAULT_MAP),
        ignored=tuple(said for name, said in ignored.items() if source[name] not in _CHOSEN),
    )
    require_proc()
    require_homes()
    if line.task is None:
        from marathon.cli.bare_pi import start_pi

        ctx.exit(start_pi(line))
    from marathon.cli.human import refuse_in_a_session
    from marathon.cli.run import run_task

    refuse_in_a_session("--task")
    ctx.exit(run_task(line, line.task))


def main(args: Sequence[str] | None = None) -> None:
    """Run a command line and exit with the code of the contract."""
    os.umask(os.umask(0o077) & 0o077)  # others may be kept out, but never we from what we have written
    code = _guarded(arguments() if args is None else list(args))
    _let_go_of_output()
    sys.exit(code)


def _guarded(args: list[str]) -> int:
    output = sys.stdout
    try:
        if args[:1] == ["hook"] and "--help" not in args:
            # Before any option is read: exit code 2 for a wrong one in the environment would forbid Claude to stop.
            from marathon.cli.commands.hook import answer

            return answer(args[1:])
        if "--help" not in args and not os.path.isabs(os.path.expanduser("~")):
            known = f"HOME is {os.environ['HOME']!r}" if os.environ.get("HOME") else "HOME is not set"
            cure = "Say where settings and records are to be kept: export HOME=FOLDER"
            raise MarathonError(f"No home folder is known, because {known}. Nothing was started. {cure}")
        if args[:1] == ["repeat"] or any(arg == "--task" or arg.startswith("--task=") for arg in args):
            _use_settings(args)
        result = cli.main(args, prog_name="pi-marathon", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        with contextlib.suppress(OSError):
            error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except MarathonError as error:
        _complain(_as_typed(str(error)))
        return error.exit_code
    except SystemExit as end:
        # Our reader has gone (status | head). click has replaced stdout by a stream that ignores everything.
        if sys.stdout is not output:
            return 0
        return end.code if isinstance(end.code, int) else 1
    except OSError as error:
        about = f" ({error.filename})" if error.filename else ""
        _complain(f"The system refused: {error.strerror or error}{about}. The state is saved.")
        return 1
    except Exception:
        _complain(f"something went wrong inside; the state is saved. Details: {_keep_traceback()}")
        return 1


def _as_typed(text: str) -> str:
    """With commands that work in this shell, also from a checkout that is not on the PATH."""
    from marathon.show.program import program

    return text.replace(": pi-marathon ", f": {program()} ")


def _complain(text: str) -> None:
    """One sentence. Where no one is left to read it, the exit code still tells."""
    from marathon.core.text import clean

    with contextlib.suppress(OSError):
        click.echo(f"pi-marathon: {clean(text)}", err=True)


def _keep_traceback() -> str:
    """The path of a private file with the details of an unexpected error."""
    import tempfile
    import traceback

    try:
        with tempfile.NamedTemporaryFile("w", prefix="pi-marathon-", suffix=".log", delete=False) as file:
            traceback.print_exc(file=file)
    except OSError:
        return "they could not be written"
    return file.name


def _let_go_of_output() -> None:
    """Keep Python from complaining, with an exit code of its own, about output that a closed pipe did not take."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _use_settings(args: Sequence[str]) -> None:
    """Flag > environment > project file as far as it tightens > user file > default: click does it by its map."""
    from marathon.cli.find import project_root
    from marathon.cli.settings import load_settings

    here = Path.cwd()
    found = load_settings(str(here if "--here" in args else project_root(here)))
    cli.context_settings["default_map"] = {**found.settings, "repeat": found.settings}
    cli.context_settings["obj"] = found
