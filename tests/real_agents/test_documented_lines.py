"""The lines for agents in README.md and docs/agents.md, as a reader would type them, with the real programs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from marathon.agents.table import DEFAULT
from tests.agents.conformance.adapters import ADAPTERS, REAL_AGENTS
from tests.real.model_server import ModelServer, Request, Script, Turn, Work, by_phase, refused, write
from tests.real_agents.install import ensure_program
from tests.real_agents.models import Aider, Mini
from tests.support.world import ROOT, World

PAGES = ("README.md", "docs/agents.md")
START = "pi-marathon --task DIR"
SERVERS: dict[str, type[ModelServer]] = {"aider": Aider, "mini": Mini}
needs_programs = pytest.mark.skipif(not os.environ.get(REAL_AGENTS), reason="bin/test-agents installs the programs")


def documented(page: str) -> list[list[str]]:
    """The arguments of each line that starts a task with an agent."""
    text = (ROOT / page).read_text().replace("\\\n", "")
    blocks = "\n".join(re.findall(r"^    (.*)", text, re.M))
    lines = re.findall(rf"{START}(?: .*?)?(?=  |\n|$)", re.sub(r" {3,}(?=--)", " ", blocks))
    return [shlex.split(line)[3:] for line in lines]


def line_of(program: str) -> list[str]:
    (line,) = (line for line in documented("docs/agents.md") if re.search(rf"\b{program} --", " ".join(line)))
    return line


class ProgramWorld(World):
    """Its agent is a program of the table, set up as its own documentation says."""

    def __init__(self, folder: Path, program: str) -> None:
        super().__init__(folder)
        self.line = line_of(program)
        self.bin = ensure_program(program).parent
        self.server = SERVERS[program](whole_marathon())
        prices = self.home / ".aider/caches/model_prices_and_context_window.json"  # else aider looks for them outside
        prices.parent.mkdir(parents=True)
        prices.write_text('{"none": {}}')

    def env(self, **more: str) -> dict[str, str]:
        env = super().env(
            OPENAI_API_BASE=self.server.url,
            OPENAI_API_KEY="no-secret",
            AIDER_MODEL="openai/scripted",
            MSWEA_CONFIGURED="true",
            MSWEA_MODEL_NAME="openai/scripted",
            MSWEA_COST_TRACKING="ignore_errors",
            LITELLM_LOCAL_MODEL_COST_MAP="true",
            **more,
        )
        return {**env, "PATH": f"{self.bin}:{env['PATH']}"}

    def task_args(self, *args: str) -> list[str]:
        return ["--task", "task", *args, *self.line]


def whole_marathon() -> Script:
    work = Work(Path("task"))

    def code(request: Request) -> Sequence[Turn]:
        made = Turn("The code.", tools=[write(Path("hello.py"), "print('hello')\n")])
        return [made, work.end(request, state="running"), Turn("More is left.")]

    finish = work.phase("result.md", "# Result\n\nIt works.\n", state="completed", phase="done")
    return by_phase(
        {
            "research": [work.phase("research.md", "# Research\n\nWhat is there.\n")],
            "plan": [work.phase("plan.md", "# Plan\n\n- [ ] 1. a step\n")],
            "implement": [code, finish],
        }
    )


@pytest.fixture(params=SERVERS)
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ProgramWorld]:
    world = ProgramWorld(tmp_path / "world", request.param)
    with world.server:
        subprocess.run(["git", "init", "-q"], cwd=world.project, check=True)
        yield world


def test_every_documented_line_is_run_by_a_test() -> None:
    """The table of adapters types the others, with programs of its own where the line has a placeholder."""
    lines = [line for page in PAGES for line in documented(page)]
    assert len(lines) > len(ADAPTERS)
    for line in lines:
        adapter = ADAPTERS[line[1] if line else DEFAULT]
        placeholder = line[2:] in (["--", "PROGRAM", "ARGS"], ["--", "my-agent", "--its", "--args"])
        assert line in map(line_of, SERVERS) or (placeholder if adapter.args else not line[2:])
    for program in SERVERS:
        assert lines.count(line_of(program)) == 1


@needs_programs
def test_a_program_s_line_runs_a_whole_marathon(real: ProgramWorld) -> None:
    ended = real.run("--auto-approve", "--max-cost", "5", timeout=180)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    sessions = real.records("session_ended")
    assert [(each["ending"], each["writes"], each["usage"]) for each in sessions] == [("ended", None, None)] * 4
    assert "--max-cost has no effect" in ended.stdout
    assert real.read("research.md").strip() == "# Research\n\nWhat is there."
    assert real.read("result.md").strip() == "# Result\n\nIt works."
    assert (real.project / "hello.py").read_text().strip() == "print('hello')"
    left = {path.name for path in real.project.iterdir()}
    assert left <= {".git", "task", "hello.py", ".aider.tags.cache.v4"}
    assert not (real.project / ".git" / "logs").exists()  # no commit


@needs_programs
def test_a_wrong_key_is_a_gate_at_once(real: ProgramWorld) -> None:
    real.server.script = [refused(401, "Incorrect API key provided", "authentication_error")]
    ended = real.run()
    assert ended.returncode == 1, ended.stdout
    assert len(real.records("session_ended")) == 1
    (gate,) = real.records("gate_opened")
    assert gate["reason"] == "failed"
    assert "authenticat" in gate["message"].lower() or "api key" in gate["message"].lower()


@pytest.mark.parametrize("program", SERVERS)
def test_a_program_that_is_not_installed_is_named_at_once(world: World, program: str) -> None:
    line = [word.replace(program, "no-such-program") for word in line_of(program)]
    ended = world.cli("--task", "task", *line)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 1, said
    assert re.search("no-such-program.* not found", said)
    assert "iteration 2" not in said
