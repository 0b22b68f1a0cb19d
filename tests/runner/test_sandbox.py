"""--sandbox: an agent that tries to write outside of its project, its journal, inbox and the trusted list fails."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest

from marathon.errors import TaskInvalid
from marathon.process.sandbox import Place, arguments
from marathon.runner.sandbox import of_agent
from tests.agents.conformance.adapters import ADAPTERS, ModelWorld
from tests.git.test_snapshot import git
from tests.real.model_server import ToolCall, Turn, Work, by_phase
from tests.support.debian import need_bubblewrap
from tests.support.world import World

# Tries to write each place, and says in a file of the project which of them it could.
AGENT = """
import json, os, pathlib, socket, subprocess, sys
task, home = pathlib.Path(os.environ["MARATHON_TASK_DIR"]), pathlib.Path(os.environ["HOME"])
places = json.loads(sys.argv[1])
done = {}
for name, place in places.items():
    try:
        with open(place, "a") as file:
            file.write("x")
        done[name] = True
    except OSError as error:
        done[name] = False
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[2])), 5).close()
    done["network"] = True
except OSError:
    done["network"] = False
done["processes"] = len([name for name in os.listdir("/proc") if name.isdigit()])
done["wrapped"] = "MARATHON_WRAP" in os.environ
ours = [sys.executable, "-P", "-m", "marathon"]
status = subprocess.run([*ours, "status", "--json", str(task)], capture_output=True, check=True)
done["status"] = json.loads(status.stdout)["condition"]
with open(os.environ["MARATHON_USAGE_FILE"], "a") as file:
    file.write('{"marathon_usage": {"cost": 0.5}}\\n')
subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "c", "--allow-empty"], check=True)
subprocess.run([*ours, "ask", "Which one?"], check=True)
(task / "done.json").write_text(json.dumps(done))
"""
NOT_ALLOWED = ("outside", "journal", "inbox", "trusted", "code", "hooks", "config", "others")


@pytest.fixture(autouse=True)
def _bubblewrap() -> None:
    need_bubblewrap()


@pytest.mark.parametrize(("sandbox", "more"), [("--sandbox", False), ("--sandbox=offline", False), ("--sandbox", True)])
def test_what_is_outside_cannot_be_written(world: World, sandbox: str, more: bool) -> None:
    """But for where the human allows it, and there what is held stays held."""
    project, state = world.project, world.home / ".local/state/pi-marathon"
    git(project, "init", "-q")
    git(project, "commit", "-q", "--allow-empty", "-m", "first")
    own = world.kept
    other = state / "tasks" / ("0" * 32)
    other.mkdir(parents=True)
    for folder in (own / "inbox", state / "agreed", state / "codes"):
        folder.mkdir(parents=True)
    places: dict[str, Path] = {
        "home": world.home / "x",
        "outside": Path(__file__).parent / "written-from-inside",
        "journal": own / "journal.jsonl",
        "inbox": own / "inbox" / "x.json",
        "trusted": state / "agreed" / "x",
        "code": state / "codes" / "x",
        "hooks": project / ".git/hooks/pre-commit",
        "config": project / ".git/config",
        "others": other / "journal.jsonl",
        "project": project / "code.py",
        "task": world.task / "notes.md",
    }
    (world.project / "agent.py").write_text(AGENT)
    with socket.create_server(("127.0.0.1", 0)) as server:
        argv = [sys.executable, "agent.py", json.dumps({name: str(path) for name, path in places.items()})]
        argv.append(str(server.getsockname()[1]))
        given = ("--sandbox-write", str(world.home)) if more else ()
        ran = world.cli("--task", "task", "--agent", "command", "--workflow", "loop", sandbox, *given, "--", *argv)
    assert ran.returncode == 3, ran.stdout + ran.stderr
    done = json.loads(world.read("done.json"))
    assert [name for name in NOT_ALLOWED if done[name]] == []
    assert not list(other.iterdir())
    assert not places["outside"].exists()
    assert places["home"].exists() is more, "this home lies in /tmp, which is another one inside"
    assert ("--sandbox-write PATH" in ran.stderr) is not more, "the program is not known"
    assert "Which one?" in ran.stdout, "the agent can still ask"
    assert world.records("session_ended")[0]["usage"]["cost"] == 0.5
    assert done["project"]
    assert done["task"]
    assert done["network"] is (sandbox == "--sandbox")
    assert done["processes"] < 10, "no process of the user can be seen"
    assert not done["wrapped"]
    assert done["status"] == "running"
    assert f"--sandbox={'offline' if 'offline' in sandbox else 'on'}" in world.cli("status", "task").stdout
    assert (f"--sandbox-write={world.home}" in world.cli("status", "task").stdout) is more, "the task remembers it"


def test_our_tools_over_mcp_work_inside(tmp_path: Path) -> None:
    real = ModelWorld(tmp_path / "world", ADAPTERS["acp"])
    asks = Turn(tools=[ToolCall("human_feedback", {"question": "Which one?"})])
    real.plays(
        by_phase({"research": [lambda request: [asks, Work(real.task).end(request, state="running"), Turn("x")]]})
    )
    ran = real.run("--sandbox")
    real.close()
    assert ran.returncode == 3, ran.stdout + ran.stderr
    assert real.records("gate_opened")[-1]["reason"] == "question"


@pytest.mark.parametrize(
    ("agent", "variable", "below"),
    [
        ("opencode", "XDG_DATA_HOME", "opencode"),
        ("opencode", "XDG_CACHE_HOME", "opencode"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini"),
        ("codex", "CODEX_HOME", ""),
        ("claude", "CLAUDE_CONFIG_DIR", ""),
    ],
)
def test_the_agent_may_write_where_its_environment_says(agent: str, variable: str, below: str) -> None:
    assert Path("/elsewhere", below) in of_agent(agent, {"HOME": "/home/me", variable: "/elsewhere"})


@pytest.mark.parametrize("project", ["/", "/tmp", "/run"])
def test_a_project_that_holds_the_machine_is_refused(project: str) -> None:
    with pytest.raises(TaskInvalid, match="holds the whole machine"):
        arguments([Place(Path(project), "write")], offline=False)
