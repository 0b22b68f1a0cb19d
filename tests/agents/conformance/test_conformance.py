"""What every agent owes the marathon: the same behaviours over every adapter, with the agent's real program."""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from marathon.core.events import Notice
from marathon.process import tree
from marathon.store.events import follow
from tests.agents.conformance.adapters import ADAPTERS, PATIENCE, ModelWorld, available
from tests.process.driver import until
from tests.real.model_server import Request, Session, ToolCall, Turn, Work, bash, by_phase, coding_agent, refused, write
from tests.support.debian import need_bubblewrap

QUICK = ("--retries", "1", "--retry-wait", "0.2s")


# What bin/test runs with pi too; tests/real has the rest for pi.
WITH_PI = (
    "test_it_can_ask_the_human",
    "test_no_command_from_inside_it_answers_a_gate",
    "test_what_its_tools_write_beside_the_task_is_named",
    "test_it_works_in_the_sandbox_and_research_writes_no_code",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "real" in metafunc.fixturenames:
        here = [
            name for name in ADAPTERS if available(name) or (name == "pi" and metafunc.function.__name__ in WITH_PI)
        ]
        metafunc.parametrize("real", here, indirect=True)


@pytest.fixture
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ModelWorld]:
    world = ModelWorld(tmp_path / "world", ADAPTERS[request.param])
    yield world
    world.close()


@contextmanager
def running(real: ModelWorld, *args: str) -> Iterator[subprocess.Popen[str]]:
    runner = real.start(*args)
    try:
        yield runner
    finally:
        runner.kill()
        runner.communicate()


def reached(runner: subprocess.Popen[str], condition: Callable[[], Any], what: str) -> None:
    """Wait for it while the runner lives: a real program takes long to start on a busy machine."""
    until(lambda: condition() or runner.poll() is not None, what, PATIENCE)
    assert condition(), f"the runner ended before: {what}"


def first_wait(real: ModelWorld) -> dict[str, Any]:
    """What the runner recorded of the first wait. It is ended there."""
    journal = real.task / ".marathon/journal.jsonl"
    with running(real) as runner:
        reached(runner, lambda: journal.exists() and real.records("wait_started"), "a wait")
    return real.records("wait_started")[0]


def research(real: ModelWorld, *first: Turn, **state: Any) -> Session:
    """Some turns, and then the whole of research."""
    done = Work(real.task).phase("research.md", "# Found\n\nAll of it.\n", **state)

    def turns(request: Request) -> Sequence[Turn]:
        assert callable(done)
        return [*first, *done(request)]

    return turns


def asked(real: ModelWorld) -> int:
    """How many requests of a session came to the model; some agents also ask for a title."""
    return sum(request.heading is not None and bool(request.tools) for request in real.server.requests)


def processes(real: ModelWorld) -> list[psutil.Process]:
    """Everything that was started in a session of this task."""
    return tree.find_by_environ("MARATHON_TASK_DIR", str(real.task))


def notices(real: ModelWorld) -> str:
    return "\n".join(event.text for event in follow(real.task / LOG) if isinstance(event, Notice))


LOG = ".marathon/runs/001/events/001.jsonl"


def test_it_runs_a_whole_marathon_and_says_what_it_used(real: ModelWorld) -> None:
    first = real.run("--max-cost", "50", "--max-tokens", "1000000")
    assert first.returncode == 3, first.stdout + first.stderr
    for _ in ("research", "plan"):
        assert real.cli("approve", "task").returncode == 0
        last = real.run()
    assert last.returncode == 0, last.stdout + last.stderr
    assert real.state()["state"] == "completed"
    assert (real.task / "work.md").read_text() == "chunk 1\n"
    subjects = subprocess.run(
        ["git", "log", "--format=%s"], cwd=real.project, capture_output=True, text=True, check=True
    )
    assert subjects.stdout == "chunk 1\n"
    ended = real.records("session_ended")
    assert [each["ending"] for each in ended] == ["ended"] * 4
    for each in ended:
        used = each["usage"]
        assert used["turns"] == (3 if real.adapter.counts else 1)
        tokens = (3000, 120) if real.adapter.tokens else (0, 0)
        assert (used["input"] + used["cacheRead"], used["output"]) == tokens
        assert bool(used["cost"]) is real.adapter.cost
        assert used["model"]
    assert ("so --max-cost has no effect" in first.stdout) is not real.adapter.cost


def test_it_works_in_a_worktree_and_commits_there(real: ModelWorld) -> None:
    """The task's folder and git's own lie outside of the folder that the agent works in."""
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "first"], cwd=real.project, check=True)
    # The identity is where users have it.
    subprocess.run(["git", "config", "--remove-section", "user"], cwd=real.project, check=True)
    (real.home / ".gitconfig").write_text("[user]\nname = a user\nemail = user@localhost\n")
    work = Work(real.task)
    code = Turn(tools=[bash("echo 1 > code.py && git add code.py && git commit -qm second")])
    result: Any = work.phase("result.md", "All of it.\n", state="completed", phase="done")
    phases = {name: [work.phase(f"{name}.md", "All of it.\n")] for name in ("research", "plan")}
    real.plays(by_phase({**phases, "implement": [lambda request: [code, *result(request)]]}))
    ran = real.run("--worktree", "--auto-approve", "--max-iterations", "4")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (real.task / "result.md").exists()
    log = subprocess.run(
        ["git", "log", "--format=%s %an", "marathon/task"], cwd=real.project, capture_output=True, text=True, check=True
    )
    assert log.stdout == "second a user\nfirst agent\n"


def test_feedback_reaches_the_next_session(real: ModelWorld) -> None:
    assert real.run().returncode == 3
    assert real.cli("redo", "task", "-m", "look at the admin routes too").returncode == 0
    assert real.run().returncode == 3
    assert "look at the admin routes too" in real.texts()
    assert len(real.records("session_ended")) == 2


@pytest.mark.parametrize("way", ["state", "command"])
def test_it_can_ask_the_human(real: ModelWorld, way: str) -> None:
    by_state = research(real, state="running", question="Which database?")
    by_command = research(real, Turn(tools=[bash('pi-marathon ask "Which database?"')]), state="running")
    real.plays(by_phase({"research": [by_state if way == "state" else by_command, research(real)]}))
    asked = real.run()
    assert asked.returncode == 3, asked.stdout
    assert "Which database?" in asked.stdout
    assert real.records("gate_opened")[-1]["reason"] == "question"
    assert real.cli("answer", "task", "The old one").returncode == 0
    assert real.run().returncode == 3
    assert "The old one" in real.texts()
    assert real.records("gate_opened")[-1]["reason"] == "review"


def tool(real: ModelWorld, name: str, **given: Any) -> Turn:
    """A call of one of our tools over MCP."""
    if real.adapter.tools is None:
        pytest.skip("it is not given our MCP server")
    return Turn(tools=[ToolCall(real.adapter.tools + name, given)])


@pytest.mark.parametrize("way", ["state", "command", "tool"])
def test_it_can_wait(real: ModelWorld, way: str) -> None:
    match way:
        case "state":
            session = research(real, state="running", wait={"minutes": 30, "reason": "CI"})
        case "command":
            session = research(real, Turn(tools=[bash('pi-marathon wait 30 "CI"')]), state="running")
        case _:
            real.more = ()  # our tools need no flag
            session = research(real, tool(real, "marathon_wait", minutes=30, reason="CI"), state="running")
    real.plays(by_phase({"research": [session]}))
    wait = first_wait(real)
    assert (wait["kind"], wait["seconds"], wait["reason"]) == ("agent", 1800, "CI")


def test_every_session_has_our_tools(real: ModelWorld) -> None:
    real.more = ()
    status, question = tool(real, "marathon_status"), tool(real, "human_feedback", question="Which database?")
    servers: list[int] = []

    def second(request: Request) -> Sequence[Turn]:
        servers.append(sum(tree.command_of(each).endswith(" -m marathon mcp") for each in processes(real)))
        return [question, Work(real.task).end(request, state="running"), Turn("I wait for the answer.")]

    real.plays(by_phase({"research": [research(real, status, state="running"), second]}))
    asked = real.run()
    assert asked.returncode == 3, asked.stdout
    assert "Which database?" in asked.stdout
    assert "breadcrumb" in real.texts(), "the status"
    assert max(servers) == 1, "that of the session before is gone"
    assert "had left running" not in asked.stdout
    assert [each["denied"] for each in real.records("session_ended")] == ["", ""]


def test_steering_reaches_it_inside_the_session_or_the_next_one(real: ModelWorld) -> None:
    hold = threading.Event()
    real.plays(by_phase({"research": [research(real, Turn("Let me look.", tools=[bash("true")], hold=hold))]}))
    with running(real) as runner:
        reached(runner, lambda: real.server.requests, "the agent asks the model")
        assert real.cli("tell", "task", "mind the cache").returncode == 0
        if real.adapter.steers:
            reached(runner, lambda: "told: mind the cache" in notices(real), "the message is sent")
        hold.set()
        assert runner.wait(PATIENCE) == 3
    (ended,) = real.records("session_ended")
    assert ("mind the cache" in real.texts(), len(ended["steered"])) == (real.adapter.steers, int(real.adapter.steers))
    real.cli("redo", "task", "-m", "again")
    assert real.run().returncode == 3
    assert "mind the cache" in real.texts()
    prompt = (real.kept / "runs/001/prompts/002.md").read_text()
    assert ("> mind the cache" in prompt) is not real.adapter.steers, "what was heard is new to no later session"
    assert real.read("human.md").count("mind the cache") == 1


@pytest.mark.parametrize(("budget", "amount"), [("--max-tokens", "5000"), ("--max-cost", "0.03")])
def test_a_budget_holds_inside_a_session(real: ModelWorld, budget: str, amount: str) -> None:
    if budget == "--max-cost" and not real.adapter.cost:
        pytest.skip("it does not tell its cost")
    if not real.adapter.counts:
        pytest.skip("it tells what it used when its turn is over")

    def slowly(request: Request) -> Turn:
        time.sleep(0.4)
        return Turn("On and on.", tools=[bash("true")])

    real.plays(slowly)
    ended = real.run(budget, amount)
    assert ended.returncode == 4, ended.stdout
    (session,) = real.records("session_ended")
    assert session["ending"] == "limit"
    assert real.records("gate_opened")[-1]["reason"] == "limit"
    used = session["usage"]
    spent = used["cost"] if budget == "--max-cost" else used["input"] + used["cacheRead"] + used["output"]
    assert float(amount) <= spent <= float(amount) + 3 * spent / used["turns"]


def test_a_stop_ends_it_with_everything_it_started(real: ModelWorld) -> None:
    hangs = Turn("Half a", fault="hang_midway")
    real.plays(by_phase({"research": [research(real, Turn("Let me look.", tools=[bash("true")]), hangs)]}))
    with running(real) as runner:
        reached(runner, lambda: asked(real) == 2, "the agent asks the model once more")
        assert real.cli("stop", "task", "--now").returncode == 0
        assert runner.wait(PATIENCE) == 3
    (ended,) = real.records("session_ended")
    assert ended["ending"] == "stopped"
    assert not processes(real)
    used = ended["usage"] or {"input": 0, "cost": 0, "cacheRead": 0}
    tokens, settles = used["input"] + used["cacheRead"], real.adapter.settles
    assert (tokens >= 1000) is (real.adapter.tokens and settles), "what it used before it was stopped counts"
    assert bool(used["cost"]) is real.adapter.cost


def test_it_dies_with_a_killed_runner_and_the_work_goes_on(real: ModelWorld) -> None:
    script = real.server.script
    real.plays([Turn("Half a", fault="hang_midway")])
    with running(real) as runner:
        reached(runner, lambda: real.server.requests, "the agent asks the model")
        runner.kill()
        runner.wait(30)
        until(lambda: not processes(real), "the agent dies with its runner")
    real.plays(script)
    assert real.run().returncode == 3
    assert [each["ending"] for each in real.records("session_ended")] == ["lost", "ended"]


def test_a_wrong_key_is_a_gate_at_once_with_the_cure(real: ModelWorld) -> None:
    real.plays([refused(401, "Incorrect API key provided", "authentication_error")])
    began = time.monotonic()
    ended = real.run()
    assert ended.returncode == 1, ended.stdout
    assert len(real.records("session_ended")) == 1
    (gate,) = real.records("gate_opened")
    assert gate["reason"] == "failed"
    assert ("401" if real.adapter.status else "Incorrect API key provided") in gate["message"]
    assert real.adapter.log_in in gate["message"]
    assert time.monotonic() - began < 30


def test_a_limit_is_waited_for_until_it_resets(real: ModelWorld) -> None:
    reset = int(time.time()) + 3000
    if real.adapter.limited is None:
        pytest.skip("it waits inside the session, and does not tell until when")
    real.plays([real.adapter.limited(reset)])
    wait = first_wait(real)
    assert wait["kind"] == "retry"
    assert wait["seconds"] == pytest.approx(reset - time.time(), abs=150)


def test_a_provider_that_is_away_is_waited_out(real: ModelWorld) -> None:
    """Not counted as a failure of the work, and the marathon goes on by itself when the provider is back."""
    if real.adapter.limited is None:
        pytest.skip("it waits inside the session for longer than a test may take")
    real.server.go_away()
    assert first_wait(real)["kind"] == "outage"
    real.server.come_back()
    ended = real.run("--retry-wait", "0.2s")
    assert ended.returncode == 3, ended.stdout
    assert [each["outage"] for each in real.records("session_ended")][-1] is False


def test_a_stream_that_is_cut_is_no_lost_session(real: ModelWorld) -> None:
    whole, faults = real.server.script, [Turn("Half a", fault="drop")]
    assert callable(whole)
    real.plays(lambda request: faults.pop() if faults and request.heading else whole(request))
    ended = real.run(*QUICK)
    assert ended.returncode == 3, ended.stdout
    assert real.records("gate_opened")[-1]["reason"] == "review"


def test_what_it_was_not_allowed_to_do_is_named_at_the_gate(real: ModelWorld) -> None:
    if not real.adapter.denies:
        pytest.skip("it has no permissions of its own")
    real.more = ()
    real.plays(by_phase({"research": [research(real, Turn(tools=[real.adapter.denies]))]}))
    ended = real.run()
    assert ended.returncode == 3, ended.stdout
    gate = ended.stdout[ended.stdout.index("MARATHON PAUSED") :]
    assert real.adapter.denied in gate
    if not real.adapter.allows:
        return  # nothing outside of the project is allowed
    typed = shlex.split(gate.partition("end the command with: -- ")[2].splitlines()[0])
    assert typed[: len(real.adapter.allows)] == [*real.adapter.allows]
    real.tail = tuple(typed)  # as the gate says
    assert real.cli("redo", "task", "-m", "once more").returncode == 0
    assert real.run().returncode == 3
    assert [bool(each["denied"]) for each in real.records("session_ended")] == [True, False]


def test_it_writes_nothing_outside_of_the_project(real: ModelWorld) -> None:
    if not real.adapter.denies:
        pytest.skip("it has no permissions of its own")
    outside, real.more = real.home / "outside", ()
    real.plays(by_phase({"research": [research(real, Turn(tools=[bash(f"touch {outside}")]))]}))
    assert real.run().returncode == 3
    assert not outside.exists()


def test_what_its_tools_write_beside_the_task_is_named(real: ModelWorld) -> None:
    (real.project / "human.txt").write_text("mine\n")
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "all"], cwd=real.project, check=True)

    def turns(request: Request) -> Sequence[Turn]:
        (real.project / "human.txt").write_text("mine, edited\n")
        done = research(real, Turn(tools=[write(real.project / "code.py", "theirs\n")]))
        assert callable(done)
        return done(request)

    real.plays(by_phase({"research": [turns]}))
    ended = real.run()
    assert "2 files changed while research ran; they may be yours: code.py, human.txt." in ended.stdout
    # The command tells no calls, and Codex writes through a shell here.
    named = "none of it" if real.adapter.agent in ("command", "codex") else "code.py"
    assert f"Tool calls of the agent wrote {named}; what its shell commands wrote is not known." in ended.stdout
    assert (real.project / "code.py").read_text() == "theirs\n"
    assert (real.project / "human.txt").read_text() == "mine, edited\n"


def test_it_works_in_the_sandbox_and_research_writes_no_code(real: ModelWorld) -> None:
    """A program that is kept for several sessions is started again where another phase may write more."""
    need_bubblewrap()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # /tmp is another one inside
        world = ModelWorld(Path(folder, "world"), real.adapter)
        usual = coding_agent(world.task, chunks=1)
        harm = Turn(tools=[bash(f"touch {world.project}/code.py {world.kept}/inbox/x.json")])
        harmful = by_phase({"research": [research(world, harm)]})
        world.plays(lambda request: (harmful if (request.heading or ("",))[0] == "research" else usual)(request))
        try:
            ran = world.run("--sandbox", "--auto-approve", "--max-iterations", "6")
            assert ran.returncode == 0, ran.stdout + ran.stderr
            assert not (world.project / "code.py").exists()
            assert (world.task / "work.md").exists(), ran.stdout
            assert (world.task / "work.md").read_text() == "chunk 1\n"
            log = ["git", "-C", str(world.project), "log", "--format=%s"]
            assert subprocess.run(log, capture_output=True, text=True, check=True).stdout == "chunk 1\n"
            assert not list((world.kept / "inbox").glob("*"))
        finally:
            world.close()


def test_an_end_without_work_is_no_progress(real: ModelWorld) -> None:
    real.plays(lambda request: Turn("All is done.") if request.tools else Turn("A title"))
    ended = real.run("--breaker", "no-progress=2")
    assert ended.returncode == 5, ended.stdout
    assert "did not update STATE.json" in ended.stdout
    assert [each["ending"] for each in real.records("session_ended")] == ["ended", "ended"]


def test_what_it_leaves_running_is_ended(real: ModelWorld) -> None:
    left = "setsid sleep 300 >/dev/null 2>&1 & echo started"
    real.plays(by_phase({"research": [research(real, Turn(tools=[bash(left)]))]}))
    assert real.run().returncode == 3
    assert not [each for each in processes(real) if each.status() != psutil.STATUS_ZOMBIE]


def test_no_command_from_inside_it_answers_a_gate(real: ModelWorld) -> None:
    without = " ".join(f"-u MARATHON_{name}" for name in ("RUNNER_ID", "TASK_DIR", "PHASE", "RUN", "PROMPT_FILE"))
    ways = ("{}", f"env {without} {{}}", f'env {without} script -qec "{{}}" /dev/null </dev/null')  # on a terminal
    tries = "; ".join(
        way.format(f"pi-marathon {command}")
        for way in ways
        for command in ("approve task", "approve task --code 000000", "redo task -m x")
    )
    later = f"setsid sh -c 'for n in 1 2 3 4 5 6 7 8; do {tries}; sleep 0.3; done' >/dev/null 2>&1 & echo started"
    first = [Turn(tools=[bash(tries)]), Turn(tools=[bash(later)])]
    real.plays(by_phase({"research": [research(real, *first)]}))
    ended = real.run()
    assert ended.returncode == 3, ended.stdout
    assert not processes(real)
    assert real.records("gate_answered") == []
    assert json.loads(real.cli("status", "task", "--json").stdout)["gate"]["reason"] == "review"
