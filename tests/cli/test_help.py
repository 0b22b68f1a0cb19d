"""Help is --help, everywhere; -h is the human's feedback and never help."""

from __future__ import annotations

import re

import pytest

from marathon import __version__
from marathon.cli.main import COMMANDS, FIRST, REMOVED, SECTIONS, cli
from marathon.errors import WrongUsage
from tests.support.world import World


def test_help_fits_a_screen_and_names_few_commands(world: World) -> None:
    shown = world.cli("--help").stdout.splitlines()
    assert len(shown) <= 40
    assert [line for line in shown if len(line) > 80] == []
    named = [name for name in COMMANDS if any(re.search(rf"(^| )  ?{name}  ", line) for line in shown)]
    assert set(named) == {name for heading in FIRST for name in SECTIONS[heading]}
    assert len(named) <= 22
    offered = [line for line in shown if re.match(r"  -", line)]
    assert len(offered) == 12
    assert not world.states.exists()


def test_all_of_help_names_every_command_option_and_exit_code(world: World) -> None:
    shown = world.cli("--help", "--all").stdout
    for word in (*COMMANDS, "--max-iterations", "--session-timeout", "--version", "Exit codes"):
        assert word in shown
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert "--keep-events" not in shown


@pytest.mark.parametrize("command", [*COMMANDS, "workflow list", "workflow show", "workflow check"])
def test_every_command_has_help(world: World, command: str) -> None:
    shown = world.cli(*command.split(), "--help")
    assert shown.returncode == 0
    assert f"Usage: pi-marathon {command}" in shown.stdout
    assert "--help" in shown.stdout
    assert [line for line in shown.stdout.splitlines() if len(line) > 80] == []


def test_every_word_of_another_time_says_in_one_line_what_to_type(world: World) -> None:
    for word, instead in REMOVED.items():
        with pytest.raises(WrongUsage) as answer:
            cli.main([word, "task"], standalone_mode=False)
        assert str(answer.value) == f"{word!r} is no command here. Type: pi-marathon {instead}"
        assert word not in COMMANDS
    shown = world.cli("kill", "task", "--yes")
    assert (shown.returncode, shown.stderr.count("\n")) == (2, 1)
    assert "Type: pi-marathon stop --now TASK" in shown.stderr


@pytest.mark.parametrize("args", [("-h",), ("status", "-h"), ("--task", "task", "-h"), ("new", "-h")], ids=" ".join)
def test_h_is_never_help(world: World, args: tuple[str, ...]) -> None:
    shown = world.cli(*args)
    assert shown.returncode == 2
    assert "Options:" not in shown.stdout + shown.stderr
    assert "-h" in shown.stderr
    assert "--help" in shown.stderr


def test_version(world: World) -> None:
    shown = world.cli("--version")
    assert (shown.returncode, shown.stdout) == (0, f"pi-marathon, version {__version__}\n")


@pytest.mark.parametrize("args", [(), ("frobnicate",), ("--frobnicate",), ("--task", "task", "status")], ids=" ".join)
def test_wrong_usage_is_a_sentence_and_code_2(world: World, args: tuple[str, ...]) -> None:
    shown = world.cli(*args)
    assert shown.returncode == 2
    assert shown.stderr.strip()
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("statsu", "Did you mean: pi-marathon status"),
        ("zzz", "pi-marathon --help"),
    ],
)
def test_a_word_that_is_no_command_is_answered_with_one(world: World, word: str, hint: str) -> None:
    shown = world.cli(word)
    assert (shown.returncode, hint in shown.stderr) == (2, True)


@pytest.mark.parametrize("word", ["task", "tas"])
def test_a_task_alone_shows_where_it_stands_and_starts_nothing(world: World, word: str) -> None:
    (world.project / "docs/tasks").mkdir(parents=True)
    world.task.rename(world.project / "docs/tasks/20260202-143000-task")
    shown = world.cli(word)
    assert shown.returncode == 0, shown.stderr
    assert "State:     new" in shown.stdout
    assert "Continue:  pi-marathon --task docs/tasks/20260202-143000-task" in shown.stdout
    assert not world.kept_of(world.project / "docs/tasks/20260202-143000-task").exists()


def test_an_option_before_the_command_is_not_lost(world: World) -> None:
    shown = world.cli("--agent", "claude", "run", "task")
    assert (shown.returncode, "--agent stands behind the command: run" in shown.stderr) == (2, True)


def test_an_optional_value_never_takes_the_next_word(world: World) -> None:
    without_git = world.cli("run", "--worktree", "task", "--agent", "command", "--", "true")
    assert "is not in a git repository" in without_git.stderr  # so `task` was the task, and not a branch
    assert "on|offline|off" in world.cli("run", "task", "--sandbox=yes").stderr.replace("', '", "|")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_program(world: World, shell: str) -> None:
    script = world.cli("completion", shell)
    assert script.returncode == 0
    assert "pi-marathon" in script.stdout
    assert f"_PI_MARATHON_COMPLETE={shell}_complete" in script.stdout


def test_completion_offers_the_commands_that_begin_so(world: World) -> None:
    offered = world.cli(_PI_MARATHON_COMPLETE="bash_complete", COMP_WORDS="pi-marathon st", COMP_CWORD="1")
    assert offered.returncode == 0
    assert {line.split(",")[-1] for line in offered.stdout.splitlines()} == {"status", "stop"}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("pi-marathon --task docs/ta", ["dir,docs/ta"]),
        ("pi-marathon status docs/ta", ["dir,docs/ta"]),
        ("pi-marathon --agent r", ["plain,rehearsal"]),
        ("pi-marathon workflow show r", ["plain,rpi"]),
    ],
)
def test_completion_offers_what_may_stand_there(world: World, words: str, offered: list[str]) -> None:
    place = str(len(words.split()) - 1)
    shown = world.cli(_PI_MARATHON_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=place)
    assert shown.stdout.splitlines() == offered


def test_an_unknown_shell_is_refused(world: World) -> None:
    assert world.cli("completion", "csh").returncode == 2
