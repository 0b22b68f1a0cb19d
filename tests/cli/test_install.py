"""install: what pi needs to where pi finds it, and Claude Code's hooks into its settings, as often as one likes."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.checkouts import quick_checkout, start
from tests.real.install import ensure_pi
from tests.real.model_server import ModelServer, Turn
from tests.real.pi_home import PiHome
from tests.support.world import ROOT, World

EXTENSION = "extensions/marathon-loop.ts"
SKILLS = sorted(path.parent.name for path in (ROOT / "skills").glob("*/SKILL.md"))


def installed(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def home_of(world: World) -> Path:
    return world.home / ".pi" / "agent"


def test_it_goes_into_the_folder_of_the_user(world: World) -> None:
    ran = world.cli("install")
    assert ran.returncode == 0, ran.stderr
    assert {EXTENSION, *[f"skills/{skill}/SKILL.md" for skill in SKILLS]} <= installed(home_of(world))
    assert str(home_of(world) / EXTENSION) in ran.stdout
    assert not (world.project / ".pi").exists()


def test_pis_own_variable_moves_it(world: World, tmp_path: Path) -> None:
    assert world.cli("install", PI_CODING_AGENT_DIR=str(tmp_path / "moved")).returncode == 0
    assert EXTENSION in installed(tmp_path / "moved")
    assert not (world.home / ".pi").exists()


def test_with_project_it_goes_into_the_project_and_nowhere_else(world: World) -> None:
    assert world.cli("install", "--project").returncode == 0
    assert EXTENSION in installed(world.project / ".pi")
    assert not (world.home / ".pi").exists()


@pytest.mark.parametrize("where", [[], ["--project"]])
def test_doing_it_again_changes_nothing_and_says_so(world: World, where: list[str]) -> None:
    first = world.cli("install", *where)
    folder = world.project / ".pi" if where else home_of(world)
    files = installed(folder)
    again = world.cli("install", *where)
    assert (first.returncode, again.returncode) == (0, 0)
    assert "Wrote" in first.stdout
    assert "Wrote" not in again.stdout
    assert "already" in again.stdout
    assert installed(folder) == files


def test_a_version_of_ones_own_is_kept_beside_and_named(world: World) -> None:
    own = home_of(world) / "skills" / SKILLS[0] / "SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text("my own\n")
    ran = world.cli("install")
    (kept,) = own.parent.glob("SKILL.md.before-*")
    assert kept.read_text() == "my own\n"
    assert kept.name in ran.stdout
    assert own.read_bytes() == (ROOT / "skills" / SKILLS[0] / "SKILL.md").read_bytes()


def test_a_folder_that_cannot_be_written_is_one_sentence(world: World) -> None:
    world.home.joinpath(".pi").write_text("no folder")
    ran = world.cli("install")
    assert ran.returncode == 1
    assert ".pi" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("where", [[], ["--project"]], ids=["the user's", "the project's"])
def test_the_real_pi_finds_it_and_not_what_was_kept_beside(world: World, tmp_path: Path, where: list[str]) -> None:
    pi = ensure_pi()
    with ModelServer([Turn("Hello.")]) as model:
        home = PiHome(tmp_path / "pi", pi, model.url)
        folder = world.project / ".pi" if where else home.agent_folder
        for name in (EXTENSION, "skills/loop/SKILL.md"):
            (folder / name).parent.mkdir(parents=True)
            (folder / name).write_text("throw new Error('an old version')\n")
        assert world.cli("install", *where, PI_CODING_AGENT_DIR=str(home.agent_folder)).returncode == 0
        assert world.cli("install", *where, PI_CODING_AGENT_DIR=str(home.agent_folder)).returncode == 0
        asked = subprocess.run(
            [*pi.command, "--mode", "rpc", *(["-a"] if where else [])],
            input='{"type":"get_commands"}\n',
            cwd=world.project,
            env=home.env(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (asked.returncode, asked.stderr) == (0, "")
    (answer,) = [record for record in map(json.loads, asked.stdout.splitlines()) if record["type"] == "response"]
    names = [command["name"] for command in answer["data"]["commands"]]
    assert len(names) == len(set(names))
    assert {"marathon-loop", "marathon-status", "marathon-steer", "marathon-pause"} <= set(names)
    assert {f"skill:{skill}" for skill in SKILLS} <= set(names)


# For Claude Code


CLAUDE_SKILLS = {f"skills/{'marathon-loop' if skill == 'loop' else skill}/SKILL.md" for skill in SKILLS}
CLAUDE_SKILLS |= {"skills/claude-loop/SKILL.md"}


def claude_settings(folder: Path) -> Any:
    return json.loads((folder / "settings.json").read_text())


def commands_of(settings: Any) -> dict[str, list[str]]:
    return {
        event: [hook["command"] for group in groups for hook in group["hooks"]]
        for event, groups in settings["hooks"].items()
    }


@pytest.fixture
def on_path(world: World) -> str:
    """A PATH on which `pi-marathon` is this checkout's, as a user would have it."""
    folder = world.home / "bin"
    folder.mkdir()
    (folder / "pi-marathon").write_text(f'#!/bin/sh\nexec {shlex.join(world.argv())} "$@"\n')
    (folder / "pi-marathon").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_the_hooks_and_the_skills_go_into_the_users_folder_of_claude(world: World, on_path: str) -> None:
    ran = world.cli("install", "--claude", PATH=on_path)
    assert ran.returncode == 0, ran.stderr
    folder = world.home / ".claude"
    assert installed(folder) == {"settings.json", *CLAUDE_SKILLS}
    assert commands_of(claude_settings(folder)) == {
        "Stop": ["pi-marathon hook stop"],
        "SessionStart": ["pi-marathon hook session-start"],
    }
    assert not (world.home / ".pi").exists()
    assert not (world.project / ".claude").exists()


def test_uninstall_takes_back_what_install_added_and_keeps_what_was_changed(world: World) -> None:
    folder = world.home / ".claude"
    folder.mkdir()
    (folder / "settings.json").write_text('{"model": "opus"}\n')
    for where in ([], ["--claude"]):
        assert world.cli("install", *where).returncode == 0
    own = folder / "skills" / "scribe" / "SKILL.md"
    own.write_text("mine")
    for where in ([], ["--claude"]):
        done = world.cli("install", "--remove", *where)
        assert done.returncode == 0, done.stderr
    assert f"Kept {own}, because you changed it" in done.stdout
    assert claude_settings(folder) == {"model": "opus"}
    assert {path for path in installed(folder) if "before-" not in path} == {"settings.json", "skills/scribe/SKILL.md"}
    assert not installed(world.home / ".pi")
    assert "There is nothing of pi-marathon in" in world.cli("install", "--remove").stdout


def test_claudes_own_variable_moves_them(world: World, tmp_path: Path) -> None:
    assert world.cli("install", "--claude", CLAUDE_CONFIG_DIR=str(tmp_path / "moved")).returncode == 0
    assert "Stop" in claude_settings(tmp_path / "moved")["hooks"]
    assert not (world.home / ".claude").exists()


def test_with_project_they_go_into_the_projects_folder(world: World) -> None:
    ran = world.cli("install", "--claude", "--project")
    assert ran.returncode == 0, ran.stderr
    assert installed(world.project / ".claude") == {"settings.json", *CLAUDE_SKILLS}
    assert not (world.home / ".claude").exists()


def asked_by_claude(world: World, event: str, path: str) -> Any:
    """What the command in the settings answers in the project, started as Claude Code does."""
    (command,) = commands_of(claude_settings(world.home / ".claude"))[event]
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=world.project,
        env={"PATH": path, "HOME": str(world.home)},
        input="{}",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("where", ["on the PATH", "in a checkout only"])
def test_the_command_that_was_written_works_from_any_shell(
    world: World, tmp_path: Path, on_path: str, where: str
) -> None:
    path = on_path if where == "on the PATH" else "/usr/bin:/bin"
    if where == "on the PATH":
        assert world.cli("install", "--claude", PATH=path).returncode == 0
    else:
        program = quick_checkout(tmp_path / "check out") / "bin" / "pi-marathon"
        assert start(program, "install", "--claude", cwd=tmp_path, PATH=path, HOME=str(world.home)).returncode == 0
    (world.project / ".loop").mkdir()
    (world.project / ".loop" / "state.json").write_text('{"criteria": ["all of it"]}')
    assert asked_by_claude(world, "Stop", path)["decision"] == "block"
    context = asked_by_claude(world, "SessionStart", path)["hookSpecificOutput"]["additionalContext"]
    assert "all of it" in context


def test_settings_that_are_there_are_kept_and_a_copy_of_them_too(world: World) -> None:
    folder = world.home / ".claude"
    folder.mkdir()
    own = {"model": "größer", "hooks": {"PreToolUse": [], "Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}
    text = json.dumps(own, indent=2, ensure_ascii=False) + "\n"
    (folder / "settings.json").write_text(text)
    (folder / "settings.json").chmod(0o600)
    ran = world.cli("install", "--claude")
    after = claude_settings(folder)
    assert (after["model"], after["hooks"]["PreToolUse"]) == ("größer", [])
    assert commands_of(after)["Stop"][0] == "x"
    assert len(commands_of(after)["Stop"]) == 2
    (copy,) = folder.glob("settings.json.before-*")
    assert copy.read_text() == text
    assert copy.name in ran.stdout
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder / "settings.json", copy)] == [0o600, 0o600]


@pytest.mark.parametrize("where", [[], ["--project"]])
def test_installing_for_claude_again_changes_nothing_and_says_so(world: World, where: list[str]) -> None:
    first = world.cli("install", "--claude", *where)
    folder = (world.project if where else world.home) / ".claude"
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.rglob("*")}
    again = world.cli("install", "--claude", *where)
    assert (first.returncode, again.returncode) == (0, 0)
    assert "already" in again.stdout
    assert {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.rglob("*")} == before


def test_settings_behind_a_link_are_written_where_they_are(world: World) -> None:
    dotfiles = world.home / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "claude.json").write_text('{"a": 1}')
    (world.home / ".claude").mkdir()
    link = world.home / ".claude" / "settings.json"
    link.symlink_to("../dotfiles/claude.json")
    assert world.cli("install", "--claude").returncode == 0
    assert os.readlink(link) == "../dotfiles/claude.json"
    assert list(json.loads((dotfiles / "claude.json").read_text())) == ["a", "hooks"]


@pytest.mark.parametrize(
    "data",
    [b"[]", b"{", b'{"a": 1, // mine\n}', b"\xff", b'{"hooks": []}', b'{"hooks": {"Stop": {}}}'],
)
def test_settings_of_an_unexpected_form_are_refused_and_nothing_is_changed(world: World, data: bytes) -> None:
    settings = world.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_bytes(data)
    ran = world.cli("install", "--claude")
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert str(settings) in ran.stderr
    assert settings.read_bytes() == data
    assert installed(settings.parent) == {"settings.json"}


@pytest.mark.parametrize("kind", ["folder", "fifo", "loop", "parent is a file"])
def test_settings_that_cannot_be_read_or_written_are_one_sentence(world: World, kind: str) -> None:
    settings = world.home / ".claude" / "settings.json"
    if kind == "parent is a file":
        settings.parent.write_text("no folder")
    else:
        settings.parent.mkdir()
    match kind:
        case "folder":
            settings.mkdir()
        case "fifo":
            os.mkfifo(settings)
        case "loop":
            settings.symlink_to(settings)
    ran = world.cli("install", "--claude")
    assert ran.returncode == 1
    assert ".claude" in ran.stderr
    assert ran.stderr.count("\n") == 1
