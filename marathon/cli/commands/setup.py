"""Commands about this machine: doctor, workflow, completion."""

from __future__ import annotations

import fcntl
import json
import locale
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import click
from click.shell_completion import get_completion_class

from marathon import __version__
from marathon._bundled import bundled
from marathon.agents.acp import ROWS
from marathon.agents.claude.stream import CLAUDE, has_sandbox
from marathon.agents.codex import CODEX
from marathon.agents.our_tools import NEEDED, is_installed
from marathon.agents.pi.find import INSTALL, Pi, check_start, find_pi
from marathon.agents.table import AGENTS
from marathon.cli.commands import service
from marathon.cli.commands.install import files_for_claude, files_for_pi
from marathon.cli.find import project_root
from marathon.core.courses.pinning import USUAL
from marathon.core.courses.workflow import Phase, Workflow, parse_workflow
from marathon.errors import MarathonError, WrongUsage
from marathon.process.linux import require_proc
from marathon.process.sandbox import bwrap_version, problem, what_is_left
from marathon.process.terminal import interactive
from marathon.store.definitions import BUILT_IN, Library, load_workflows
from marathon.store.files import make_private_directory
from marathon.store.places import claude_folder, config_folder, pi_folder, states_folder

SIGNS = {"good": "✓", "note": "•", "bad": "✗"}
_BY_LIST = "edits and git commit are allowed; tests and other commands are asked for, or denied without a terminal"
_ALLOW_MORE = "Allow commands: -- --allow 'npm test'"
_BY_ITSELF = "every command that your opencode.json does not deny; outside of the project you are asked"
_ASK_US = 'To be asked, put into opencode.json: "permission": {"bash": "ask"}'
NODE = "pi needs Node 22.19 or newer."


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script; for bash: eval "$(pi-marathon completion bash)"."""
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(ctx.find_root().command, {}, "pi-marathon", "_PI_MARATHON_COMPLETE").source())


@click.group("workflow")
def workflow() -> None:
    """Workflows: the project's .marathon/workflows/KEY/workflow.toml, the user's, and the built-in ones."""


@workflow.command("list")
def list_workflows() -> None:
    """List every workflow with its source, and the refused ones with the reason."""
    library = _library()
    for key, found in sorted(library.workflows.items()):
        if found.show == "everywhere":
            click.echo(f"{key:20} {found.name:30} {library.sources[key]}")
    for key, reason in sorted(library.refused.items()):
        click.echo(f"{key:20} refused: {reason}")


@workflow.command("show")
@click.argument("key", shell_complete=lambda ctx, param, incomplete: _keys(incomplete))
def show_workflow(key: str) -> None:
    """Show the phases of one workflow, with those of the workflows it refers to."""
    library = _library()
    if key in library.refused:
        raise WrongUsage(f"The workflow {key!r} is refused: {library.refused[key]}")
    if key not in library.workflows:
        raise WrongUsage(f"There is no workflow {key!r}. See: pi-marathon workflow list")
    loop = "" if library.workflows[key].loopable else " (not loopable)"
    click.echo(f"{library.workflows[key].name}{loop}")
    _show_phases(library, library.workflows[key], "  ")


@workflow.command("new")
@click.argument("key")
@click.option("--user", is_flag=True, help="For all your projects, not only for this one.")
def new_workflow(key: str, user: bool) -> None:
    """Make a workflow to start from: a copy of the usual one."""
    folder = (config_folder() if user else project_root(Path.cwd()) / ".marathon") / "workflows" / key
    _, _, phases = (BUILT_IN / USUAL / "workflow.toml").read_text(encoding="utf-8").partition("\n[[")
    text = f'# All fields: docs/workflows.md\nname = "{key}"\n\n[[{phases}'
    try:
        parse_workflow(key, tomllib.loads(text))
        folder.mkdir(parents=True)
    except ValueError as error:
        raise WrongUsage(f"A workflow cannot be called {key!r}: {error}") from error
    except FileExistsError as error:
        raise WrongUsage(f"{folder} is there already. Nothing was changed.") from error
    (folder / "workflow.toml").write_text(text, encoding="utf-8")
    click.echo(f"{folder / 'workflow.toml'}\nChange it, then type: pi-marathon workflow check")
    click.echo(f"To use it: pi-marathon new --workflow {key}")


@workflow.command("check")
def check_workflows() -> None:
    """Say which definitions are refused and why; exit 1 if any is."""
    library = _library()
    for key, reason in sorted(library.refused.items()):
        click.echo(f"{key}: refused: {reason}", err=True)
    click.echo(f"{len(library.workflows)} usable, {len(library.refused)} refused.")
    if library.refused:
        raise SystemExit(1)


def _show_phases(library: Library, shown: Workflow, indent: str) -> None:
    for number, entry in enumerate(shown.phases, start=1):
        if isinstance(entry, Phase):
            marks = [mark for mark, on in (("you review it", entry.gate), ("in chunks", entry.repeats)) if on]
            output = f" → {entry.output}" if entry.output else ""
            line = f"{indent}{number}. {entry.emoji} {entry.name} ({entry.id}){output}  {', '.join(marks)}"
            click.echo(line.rstrip())
        else:
            click.echo(f"{indent}{number}. {library.workflows[entry.workflow].name} ({entry.workflow}):")
            _show_phases(library, library.workflows[entry.workflow], indent + "   ")


def _keys(incomplete: str) -> list[str]:
    return [key for key in sorted(_library().workflows) if key.startswith(incomplete)]


def _library() -> Library:
    return load_workflows(project_root(Path.cwd()))


@dataclass(frozen=True)
class Finding:
    """One line of `doctor`."""

    name: str
    level: Literal["good", "note", "bad"]
    found: str
    cure: str = ""


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="A JSON list of checks.")
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Check this machine and say what to type where something is wrong; exit 1 if anything necessary is missing."""
    found = [*_pi_findings(), *_agent_findings(), *_installed()]
    missing = {finding.name for finding in found if finding.level != "good"}
    agents = Finding("agents", "good", ", ".join(name for name in sorted(AGENTS) if name not in missing))
    findings = [*_findings(), *found, agents]
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            click.echo(f"{SIGNS[finding.level]} {finding.name}: {finding.found}")
            if finding.cure:
                click.echo(f"   → {finding.cure}")
        click.echo(_next_step(findings))
    ctx.exit(1 if any(finding.level == "bad" for finding in findings) else 0)


def _findings() -> Iterator[Finding]:
    yield Finding("pi-marathon", "good", f"{__version__} on Python {platform.python_version()} ({sys.executable})")
    mac = "pi-marathon is built for macOS, but not yet tried on it."
    if sys.platform == "darwin":
        yield Finding("system", "note", platform.platform(), mac)
    else:
        yield _judged("system", sys.platform == "linux", platform.platform(), "Run it on Linux or macOS.", needed=True)
    if interactive():
        found = f"TERM={os.environ.get('TERM', '')}, {os.get_terminal_size().columns} columns"
        yield Finding("terminal", "good", found)
    else:
        yield Finding(
            "terminal", "note", "none: what waits for you is printed, and answered with approve, redo, answer"
        )
    encoding = locale.getpreferredencoding(False)
    utf8 = encoding.lower().replace("-", "") == "utf8"
    yield _judged("encoding", utf8, encoding, "Set a UTF-8 locale, for example: export LANG=C.UTF-8")
    git = shutil.which("git")
    yield _judged("git", bool(git), git or "not found", "Install git: agents commit their work with it.")
    why = problem()
    cure = why.partition(". ")[2] or "Without it, --sandbox cannot be used."
    found = f"bwrap {bwrap_version()} works (--sandbox)"
    yield _judged("sandbox", not why, why.partition(". ")[0] or found, cure)
    if left := what_is_left(terminal=True):
        yield Finding("sandbox's terminal", "note", left, "Use --mode stream with --sandbox.")
    yield _proc()
    yield _locks()
    yield _states()
    library = _library()
    names = ", ".join(sorted(library.refused or library.workflows))
    found = f"refused: {names}" if library.refused else names
    yield _judged("workflows", not library.refused, found, "See: pi-marathon workflow check", needed=True)
    missing = [name for name in ("skills", "task-template") if not bundled(name).is_dir()]
    found = f"missing: {', '.join(missing)}" if missing else "skills, task-template"
    yield _judged("shipped files", not missing, found, "Install pi-marathon again.", needed=True)


def _refused(name: str, error: MarathonError) -> Finding:
    """The sentence that says what is wrong, and the rest, which says what to do."""
    found, _, cure = str(error).partition(". ")
    return Finding(name, "note", found, cure)


def _judged(name: str, good: bool, found: str, cure: str, *, needed: bool = False) -> Finding:
    """A finding whose cure is told only where something is wrong."""
    return Finding(name, "good", found) if good else Finding(name, "bad" if needed else "note", found, cure)


def _proc() -> Finding:
    try:
        require_proc()
    except MarathonError as error:
        return replace(_refused("processes", error), level="bad")
    return Finding("processes", "good", "they can be seen")


def _locks() -> Finding:
    with tempfile.TemporaryFile(dir=".") if os.access(".", os.W_OK) else tempfile.TemporaryFile() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            found = f"flock does not work here: {error.strerror}"
            return Finding("locks", "bad", found, "Use a local disk for your project.")
    return Finding("locks", "good", "flock works")


def _states() -> Finding:
    folder = states_folder()
    try:
        make_private_directory(folder)
    except MarathonError as error:
        return Finding("runner states", "bad", str(error), "Set PI_MARATHON_STATES to a folder you can write.")
    if not os.access(folder, os.W_OK):
        cure = "Set PI_MARATHON_STATES to another folder."
        return Finding("runner states", "bad", f"{folder} cannot be written", cure)
    return Finding("runner states", "good", str(folder))


def _pi_findings() -> list[Finding]:
    """pi is one agent of several, so nothing about it is worse than a note."""
    try:
        pi = find_pi(os.environ)
    except MarathonError as error:
        return [_node(), _refused("pi", error)]
    version = ".".join(map(str, pi.version))
    settles = "" if pi.settles else " (before 0.80.4: sessions end a little earlier than they should)"
    found = Finding("pi", "good", f"{version} ({pi.program}){settles}", "" if pi.settles else INSTALL)
    return [found, _start(pi)]


def _agent_findings() -> Iterator[Finding]:
    """The agents beside pi: version, login, and what they are allowed to do."""
    limited = "edits and git commit are allowed; tests and other commands need the sandbox or a flag of yours"
    cure = "Install bubblewrap and socat, or allow commands: -- --allowedTools 'Bash(npm test:*)'"
    found = "edits are allowed, and every command inside its sandbox" if has_sandbox() else limited
    offline = "every command inside its sandbox, without network (-- -c sandbox_workspace_write.network_access=true)"
    for program, permissions in (
        (CLAUDE, _judged("claude's permissions", has_sandbox(), found, cure)),
        (CODEX, Finding("codex's permissions", "good", offline)),
        (ROWS["gemini"].program, Finding("gemini's permissions", "note", _BY_LIST, _ALLOW_MORE)),
        (ROWS["opencode"].program, Finding("opencode's permissions", "note", _BY_ITSELF, _ASK_US)),
    ):
        try:
            version = program.version()
            doubt, _, cure = program.doubt(version).partition(". ")
            yield _judged(program.name, not doubt, doubt or f"{version} ({program.find()})", cure)
        except MarathonError as error:
            yield _refused(program.name, error)
            continue
        logged_in = program.is_logged_in()
        found = "logged in" if logged_in else "not logged in (a key or a provider of your own may still do)"
        yield _judged(f"{program.name}'s login", logged_in, found, program.log_in[0].upper() + program.log_in[1:])
        yield permissions
    found = "gemini, opencode and every agent over ACP get them" if is_installed() else "not installed"
    yield _judged("our tools over MCP", is_installed(), found, f"{NEEDED} (from a checkout this is done when needed)")


def _next_step(findings: Sequence[Finding]) -> str:
    levels = {finding.name: finding.level for finding in findings}
    if "bad" in levels.values():
        return f"Fix what is marked {SIGNS['bad']}, then type again: pi-marathon doctor"
    if levels.get("pi") == levels.get("pi's start") == "good":
        return "Ready. Make a task: pi-marathon new"
    for name in ("claude", "codex", *ROWS):
        if levels.get(name) == levels.get(f"{name}'s login") == "good":
            return f"Ready. Make a task: pi-marathon new   Start it: pi-marathon --task NAME --agent {name}"
    return "pi cannot work yet. A marathon without it: pi-marathon demo"


def _node() -> Finding:
    node = shutil.which("node")
    if node is None:
        return Finding("node", "note", "not found", NODE)
    try:
        version = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
        numbers = tuple(int(part) for part in version.strip().lstrip("v").split(".")[:2])
    except (OSError, ValueError, subprocess.SubprocessError):
        return Finding("node", "note", f"{node} does not run", NODE)
    recent = numbers >= (22, 19)
    return _judged("node", recent, f"{version.strip()} ({node})", NODE)


def _start(pi: Pi) -> Finding:
    try:
        check_start(pi, (), os.environ)
    except MarathonError as error:
        return _refused("pi's start", error)
    return Finding("pi's start", "good", "it loads your extensions, and a model can be used")


def _installed() -> Iterator[Finding]:
    """What `pi-marathon install` left, beside what it would leave now. Another version may know other commands."""
    for name, folder, files, command in (
        ("pi's commands and skills", pi_folder(), files_for_pi, "pi-marathon install"),
        ("claude's skills", claude_folder(), files_for_claude, "pi-marathon install --claude"),
    ):
        pairs = files(folder)
        there = [(ours, theirs) for ours, theirs in pairs if theirs.is_file()]
        if there and (len(there) < len(pairs) or any(a.read_bytes() != b.read_bytes() for a, b in there)):
            yield Finding(name, "note", f"{folder} has another version", f"To renew it: {command}")
        elif there:
            yield Finding(name, "good", f"installed in {folder}")
        elif files is files_for_pi:
            cure = f"For /marathon-… and /scribe in every pi: {command}"
            yield Finding(name, "note", "not installed (a marathon brings what it needs)", cure)
    unit = service.UNIT_FILE
    if unit.is_file() and service.RESUME not in unit.read_text(errors="replace"):
        yield Finding("service", "note", f"{unit} has another version", "To renew it: pi-marathon install --service")
