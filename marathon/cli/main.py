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
from marathon.cli.arguments import (
    BUDGETS,
    DURATION,
    EVERYTHING,
    HOURS,
    MONEY,
    SANDBOX,
    SESSIONS,
    TASK,
    TIME,
    TOKENS,
    more_option,
    optional_value,
    usual_value,
    with_values,
)
from marathon.cli.unseen import arguments
from marathon.errors import MarathonError, WrongUsage

# What --help shows, and below it what `--help --all` adds.
# A command's module below marathon.cli.commands is loaded only when the command is typed.
SECTIONS = {
    "Begin": {
        "demo": ("demo", "A whole marathon in a throw-away project; no key."),
        "new": ("task", 'Make a task, by questions or as: new "GOAL" --run'),
        "run": ("pool", "Run a task here, or -d in the background, or several."),
        "loop": ("loop", "Change, measure, keep what improves a number."),
    },
    "Watch": {
        "list": ("status", "The tasks of this project; --all: of this machine."),
        "status": ("status", "Where a task stands and what it waits for."),
        "attach": ("attach", "Watch a running task and answer it; -f: as lines."),
    },
    "Answer": {
        "review": ("web", "Review a task in the browser; without TASK: all."),
        "approve": ("gate", "Continue where a task waits for you."),
        "redo": ("gate", "Have a phase done again, saying why."),
        "answer": ("gate", "Answer the agent's question."),
        "tell": ("tell", "Tell the agent something; it is kept in human.md."),
        "comment": ("comments", "Comment on lines of a document; no text: list them."),
    },
    "End, set up": {
        "stop": ("gate", "Stop after this session; --now: at once."),
        "rm": ("removal", "Remove a task; --logs: only what was logged."),
        "doctor": ("setup", "Check this machine and say what to fix."),
        "install": ("install", "Install what pi, Claude Code or systemd needs of us."),
        "workflow": ("setup", "List, show, make and check workflows."),
    },
    "More": {
        "repeat": ("repeat", "Make a task with a checklist and tick all of it."),
        "check": ("check", "Run the checks of a task; advice on its instructions."),
        "pr": ("pr", "Propose a task's branch as a pull request (asks)."),
        "report": ("web", "One HTML file about a task, or --markdown for a PR."),
        "rounds": ("comments", "Every reviewed version, and what changed between two."),
        "undo": ("gate", "What changed meanwhile, and undo some of it."),
        "cancel": ("gate", "End a run for good (asks first)."),
        "repair": ("repair", "Repair a damaged or changed journal (asks first)."),
        "completion": ("setup", "Print the shell completion script."),
    },
    "For agents": {
        "wait": ("agent", "Ask for a pause before the next session."),
        "ask": ("agent", "Ask the human a question."),
        "mcp": ("mcp", "Our tools over the Model Context Protocol."),
        "hook": ("hook", "For Claude Code's hooks: may it stop, what to know."),
        "claude-loop": ("claude_loop", "A goal that Claude Code's Stop hook holds it to."),
    },
}
FIRST = ("Begin", "Watch", "Answer", "End, set up")
COMMANDS = {name: row for section in SECTIONS.values() for name, row in section.items()}
# What someone may type who knows another version or another program, and what to type for it here.
REMOVED = {
    "start": "run TASK",
    "resume": "run TASK",
    "continue": "run TASK",
    "help": "--help",
    "pool": "run A B C --parallel N",
    "logs": "attach --plain TASK   To follow it: pi-marathon attach -f TASK",
    "web": "review",
    "accept": 'approve TASK --anyway "why"',
    "steer": 'tell TASK "text"',
    "feedback": 'tell TASK --next "text"',
    "comments": "comment TASK",
    "kill": "stop --now TASK",
    "clean": "rm --logs",
    "archive": "rm --archive TASK",
    "uninstall": "install --remove",
    "service": "install --service",
    "score": "check --advice TASK",
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

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        everything = ctx.meta.get(EVERYTHING)
        for line in (f"Usage: {USAGE}", "", f"{self.help}", ""):
            formatter.write(f"{line}\n")
        for heading in SECTIONS if everything else FIRST:
            for at, (name, (_, told)) in enumerate(SECTIONS[heading].items()):
                formatter.write(f"{heading if at == 0 else '':13}{name:{12 if everything else 10}}{told}\n")
        with formatter.section("Options, here and of `run`"):
            params = self.get_params(ctx) if everything else self.params[:-1]  # without --version and --help
            formatter.write_dl([row for each in params if (row := each.get_help_record(ctx))])
        formatter.write(f"\n{EXIT_CODES if everything else MORE}\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--help" in args and "--all" in args:
            ctx.meta[EVERYTHING] = True
            args = [arg for arg in args if arg != "--all"]
        args = with_values(args, self.params)
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
        if early := [each for each in self.params if ctx.get_parameter_source(each.name or "") in _TYPED]:
            raise click.UsageError(f"{early[0].opts[-1]} stands behind the command: {args[0]}", ctx)
        if args[0] in COMMANDS:
            if not ctx.resilient_parsing:
                _refuse_agents(args)
            return super().resolve_command(ctx, args)
        if args[0] in REMOVED:
            raise WrongUsage(f"{args[0]!r} is no command here. Type: pi-marathon {REMOVED[args[0]]}")
        from marathon.cli.find import is_task_here

        if os.path.isdir(args[0]) or is_task_here(
            args[0]
        ):  # to look at it: nothing starts an agent by a task's name alone
            return super().resolve_command(ctx, ["status", *args])
        raise click.UsageError(f"There is no command and no task {args[0]!r}. {_similar(args[0])}", ctx)


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


def _similar(word: str) -> str:
    import difflib  # only for someone who mistyped

    close = difflib.get_close_matches(word, COMMANDS, 1)
    return f"Did you mean: pi-marathon {close[0]}" if close else "All commands: pi-marathon --help"


_TYPED = (ParameterSource.COMMANDLINE,)
_CHOSEN = (*_TYPED, ParameterSource.ENVIRONMENT)  # whatever the files say
USAGE = "pi-marathon [OPTIONS] | COMMAND | TASK"
MORE = (
    "Alone it starts pi, where /marathon-loop TASK runs a task.\n"
    "All of it: pi-marathon --help --all   Of a command: pi-marathon run --help"
)
EXIT_CODES = (
    "Exit codes: 0 completed, 1 failed, 2 wrong usage, 3 waits for you, 4 limit,\n5 stuck, 6 busy, 7 invalid task."
)
COUNT = click.IntRange(min=0)
_FILE = click.Path(dir_okay=False, resolve_path=True, path_type=Path)
_SET = "For one phase: agent, model, thinking, args or tools, such as plan.model=opus; plan= forgets it."


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["--help"], "max_content_width": 110, "auto_envvar_prefix": "PI_MARATHON"},
)
@click.option(
    "--task", metavar="TASK", type=TASK, allow_from_autoenv=False, help="Run this task; a part of its name will do."
)
@click.option(
    "-h", "--human", metavar="TEXT", allow_from_autoenv=False, help="Restart a finished or paused task with this."
)
@click.option(
    "--agent", default="pi", metavar="NAME", shell_complete=_agents, help="pi, claude, codex, …; command: after --."
)
@click.option("--mode", type=click.Choice(["tui", "stream"]), help="The agent's own screen, or its work as lines.")
@click.option("--workflow", default="rpi", metavar="KEY", help="For a new task; see: workflow list.")
@click.option("--auto-approve", is_flag=True, help="Pass reviews by itself (recorded as not reviewed).")
@optional_value(
    "--worktree", "", metavar="[=BRANCH]", allow_from_autoenv=False, help="Work in a git worktree on its own branch."
)
@optional_value(
    "--sandbox",
    "on",
    metavar="[=offline]",
    type=SANDBOX,
    help="Behind a wall: it writes only what its phase may.",
)
@click.option("-d", "--detach", is_flag=True, allow_from_autoenv=False, help="In the background; see it with: attach.")
@click.option("--max-cost", type=MONEY, default="0", help="Stop at so much; +10: 10 more. 0: no limit.")
@click.option("--max-time", type=TIME, default="0", help="Working time such as 90m or 8h. 0: no limit.")
@click.option("--json", "as_json", is_flag=True, help="Ask nothing; print one JSON object at the end.")
@more_option("--set", "settings", multiple=True, metavar="PHASE.NAME=VALUE", allow_from_autoenv=False, help=_SET)
@more_option(
    "--oversight",
    "--shape",
    "oversight",
    envvar=["PI_MARATHON_OVERSIGHT", "PI_MARATHON_SHAPE"],
    type=click.Choice(["tool", "colleague"]),
    help="tool: you are asked at reviews only; colleague: after every session.",
)
@more_option(
    "--sandbox-write",
    multiple=True,
    type=click.Path(exists=True, resolve_path=True),
    metavar="PATH",
    allow_from_autoenv=False,
    help="With --sandbox: the agent may write there too.",
)
@more_option("--answers-here", is_flag=True, help="Take answers only at this terminal.")
@more_option(
    "--trust", is_flag=True, allow_from_autoenv=False, help="Agree to the checks and the workflow as they are, for CI."
)
@more_option("--yes", is_flag=True, allow_from_autoenv=False, help="With -h: restart also where work is not finished.")
@more_option(
    "--adopt",
    is_flag=True,
    allow_from_autoenv=False,
    help="Take over a task that was copied here, or whose reviews are not on record.",
)
@more_option("--max-iterations", type=SESSIONS, default="100", show_default=True, help="Sessions; 0: no limit.")
@more_option("--max-tokens", type=TOKENS, default="0", help="Tokens, all kinds together; 0: no limit.")
@more_option("--reflect-every", type=COUNT, default=0, metavar="N", help="Look back after every N sessions.")
@more_option(
    "--breaker", "breakers", multiple=True, metavar="NAME=N", help="When it is stuck; same-error=3, … 0: never."
)
@more_option("--session-timeout", type=DURATION, default="2h", show_default=True, help="For one session; 0: none.")
@more_option("--retries", type=COUNT, default=3, metavar="N", show_default=True, help="Tries after a failed session.")
@more_option(
    "--outage",
    type=DURATION,
    default="6h",
    show_default=True,
    help="Wait so long for a network or provider that is away; 0: as any failure.",
)
@more_option("--hours", type=HOURS, default="", help="Start sessions only then, such as 20:00-07:00; any: at any hour.")
@more_option("--allow-sleep", is_flag=True, help="Let the machine fall asleep while a session runs.")
@more_option(
    "--setup",
    metavar="CMD",
    allow_from_autoenv=False,
    help="Run this once in a new worktree, such as 'npm ci'; 'setup' in checks.toml does the same.",
)
@more_option("--summary", type=_FILE, help="Write summary.md here too, for CI.")
@more_option("--notify/--no-notify", default=True, help="Bell, notification, title and progress of the window.")
@click.option("--retry-wait", type=DURATION, default="2s", hidden=True, help="Before the first retry; then doubling.")
@click.option("--keep-events", type=COUNT, default=200, metavar="N", hidden=True, help="Logs of a run; 0: keep all.")
@click.option(
    "--here",
    is_flag=True,
    hidden=True,
    allow_from_autoenv=False,
    help="Work in this directory, not in the project's root or where the task last ran.",
)
@click.version_option(__version__, prog_name="pi-marathon")
@click.pass_context
def cli(ctx: click.Context, /, **options: Any) -> None:
    """Lets a coding agent work for hours on one task, with you at the reviews."""
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
        if args[:1] in (["run"], ["new"], ["repeat"]) or any(
            arg == "--task" or arg.startswith("--task=") for arg in args
        ):
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
    cli.context_settings["default_map"] = found.settings
    cli.context_settings["obj"] = found
