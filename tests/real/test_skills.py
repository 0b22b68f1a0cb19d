"""The skills and the package they come in: read by the real pi, and true to the product."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from marathon import __version__
from marathon.cli.main import COMMANDS
from marathon.core.state import parse_state
from tests.real.install import PiInstall
from tests.real.model_server import ModelServer, Turn
from tests.real.pi_home import PiHome

ROOT = Path(__file__).resolve().parents[2]
SKILLS = sorted(path.parent.name for path in (ROOT / "skills").glob("*/SKILL.md"))


def text_of(skill: str) -> str:
    return (ROOT / "skills" / skill / "SKILL.md").read_text()


def test_installing_this_repository_brings_the_extension_and_the_skills(tmp_path: Path, pi_install: PiInstall) -> None:
    with ModelServer([Turn("Done.")]) as model:
        home = PiHome(tmp_path, pi_install, model.url)

        def pi(*args: str, said: str = "") -> str:
            done = subprocess.run(
                [*pi_install.command, *args],
                input=said,
                cwd=tmp_path,
                env=home.env(),
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, "")
            return done.stdout

        pi("install", str(ROOT))
        [answer] = map(json.loads, pi("--mode", "rpc", said='{"type":"get_commands"}\n').splitlines())
        names = {command["name"] for command in answer["data"]["commands"]}
        assert {f"skill:{skill}" for skill in SKILLS} <= names
        assert {"scribe", "loop"} <= names
        assert {"marathon-loop", "marathon-status", "marathon-steer", "marathon-pause"} <= names
        pi("-p", "/skill:loop and the rest")
        asked = model.requests[0].last_text
        assert '<skill name="loop"' in asked
        assert asked.rstrip().endswith("and the rest")


def test_the_package_has_the_version_of_the_program() -> None:
    package = json.loads((ROOT / "package.json").read_text())
    assert package["version"] == __version__
    assert "dependencies" not in package
    assert all((ROOT / path).exists() for paths in package["pi"].values() for path in paths)


@pytest.mark.parametrize("skill", SKILLS)
def test_front_matter_names_and_describes_the_skill(skill: str) -> None:
    found = re.match(r"---\nname: (\S+)\ndescription: (.+)\n---\n\n# ", text_of(skill))
    assert found
    assert found[1] == skill
    assert len(found[2]) <= 1024


def test_each_state_in_the_loop_skill_is_one_the_runner_accepts() -> None:
    shown = re.findall(r"^    (\{.*\})$", text_of("loop"), flags=re.M)
    states = [parse_state(line.encode()) for line in shown]
    assert [(state.state, state.phase) for state in states] == [
        ("paused", "research"),
        ("running", "implement"),
        ("paused", "implement"),
        ("completed", "done"),
    ]


def test_the_scribe_writes_the_headings_of_the_template() -> None:
    template = (ROOT / "task-template" / "instructions.md").read_text()
    headings = re.findall(r"^#+ .+$", template, flags=re.M)
    assert re.findall(r"^    (#+ .+)$", text_of("scribe"), flags=re.M) == headings


def test_the_reference_names_only_commands_that_exist() -> None:
    named = re.findall(r"^    pi-marathon ([a-z]+)", text_of("marathon"), flags=re.M)
    assert len(named) > 5
    assert set(named) <= set(COMMANDS)
