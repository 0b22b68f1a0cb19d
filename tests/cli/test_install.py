"""install: the extension, the skills and the prompts to where pi finds them, as often as one likes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

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
