"""Help is --help, everywhere; -h is the human's feedback and never help."""

from __future__ import annotations

import pytest

from marathon import __version__
from marathon.cli.main import COMMANDS, SECTIONS
from tests.support.world import World


def test_help_names_every_command_option_and_exit_code(world: World) -> None:
    shown = world.cli("--help")
    assert shown.returncode == 0
    for word in (
        *COMMANDS,
        *(f"\n{heading}:\n  {first} " for first, heading in SECTIONS.items()),
        "--task",
        "-h, --human",
        "--auto-approve",
        "--max-iterations",
        "--session-timeout",
        "Exit codes",
    ):
        assert word in shown.stdout
    assert not world.states.exists()


@pytest.mark.parametrize("command", [*COMMANDS, "workflow list", "workflow show", "workflow check"])
def test_every_command_has_help(world: World, command: str) -> None:
    shown = world.cli(*command.split(), "--help")
    assert shown.returncode == 0
    assert f"Usage: pi-marathon {command}" in shown.stdout
    assert "--help" in shown.stdout
    assert [line for line in shown.stdout.splitlines() if len(line) > 80] == []


def test_no_line_of_the_first_help_is_broken_by_a_usual_window(world: World) -> None:
    assert [line for line in world.cli("--help").stdout.splitlines() if len(line) > 80] == []


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
        ("task", "pi-marathon --task task"),
        ("zzz", "pi-marathon --help"),
    ],
)
def test_a_word_that_is_no_command_is_answered_with_one(world: World, word: str, hint: str) -> None:
    shown = world.cli(word)
    assert (shown.returncode, hint in shown.stderr) == (2, True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_program(world: World, shell: str) -> None:
    script = world.cli("completion", shell)
    assert script.returncode == 0
    assert "pi-marathon" in script.stdout
    assert f"_PI_MARATHON_COMPLETE={shell}_complete" in script.stdout


def test_completion_offers_the_commands_that_begin_so(world: World) -> None:
    offered = world.cli(_PI_MARATHON_COMPLETE="bash_complete", COMP_WORDS="pi-marathon st", COMP_CWORD="1")
    assert offered.returncode == 0
    assert {line.split(",")[-1] for line in offered.stdout.splitlines()} == {"status", "steer", "stop"}


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
