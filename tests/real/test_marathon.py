"""A whole marathon with the real pi, in both modes."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict

import pytest

from marathon.agents.pi.find import check_start, find_pi
from marathon.cli.bare_pi import what_it_lacks
from marathon.core.events import usage_of
from marathon.store.events import follow
from tests.process.driver import Pty, until
from tests.real.desk import Terminal
from tests.real.model_server import Turn, Work, ask, bash, by_phase, coding_agent, wait
from tests.real.real_world import RealWorld, quiet
from tests.support.world import ROOT

GATE = b"[q]      Quit marathon"


@pytest.mark.parametrize("mode", ["tui", "stream"])
def test_research_gate_plan_gate_with_feedback_implement_in_chunks_done(real: RealWorld, mode: str) -> None:
    terminal = real.terminal("--mode", mode)
    try:
        terminal.resize(40, 120)
        terminal.expect(b"Phase: research | Iteration: 1")
        terminal.expect(GATE)
        assert terminal.cooked() is False  # the gate reads single keys
        terminal.send(b"\r")
        terminal.expect(b"Phase: plan | Iteration: 2")
        terminal.expect(GATE)
        terminal.send(b"f")
        terminal.expect(b"Feedback:")
        terminal.send(b"mind the tests\r")
        terminal.expect(b"Completed")
        assert terminal.wait() == 0
        assert terminal.cooked()
    finally:
        terminal.close()
    prompts = real.prompts()
    assert [prompt.count("mind the tests") for prompt in prompts] == [0, 0, 1, 0, 0]
    assert all("marathon_wait" in prompt and "human_feedback" in prompt for prompt in prompts)
    assert not any("pi-marathon wait" in prompt or "pi-marathon ask" in prompt for prompt in prompts)
    assert real.read("work.md") == "chunk 1\nchunk 2\n"
    assert real.state() == {**real.state(), "state": "completed", "phase": "done"}
    iterations = [
        json.loads(path.read_text()) for path in sorted((real.task / ".marathon/runs/001/iterations").iterdir())
    ]
    names = [real.pi.session_name(one["sessionId"]) for one in iterations]
    assert names == [f"task · {one['phase']} · {one['iteration']}" for one in iterations]
    usage = [one["usage"] for one in iterations]
    assert len(usage) == 5
    assert all(one["turns"] == 3 and one["toolCalls"] == 2 and one["cost"] > 0 and one["model"] for one in usage)
    status = json.loads(real.cli("status", "task", "--json").stdout)
    assert status["usage"]["cost"] == pytest.approx(sum(one["cost"] for one in usage))
    logged = [usage_of(follow(path)) for path in sorted((real.task / ".marathon/runs/001/events").iterdir())]
    assert [asdict(one) for one in logged] == usage


def test_without_a_terminal_the_gate_is_answered_from_a_shell(real: RealWorld) -> None:
    first = real.run()
    assert first.returncode == 3, first.stdout + first.stderr
    assert "─── 🔍 research · session 1 · pi ───" in first.stdout
    assert "I write research.md." in first.stdout
    assert "⚙ write" in first.stdout
    assert real.cli("approve", "task").returncode == 0
    assert real.run("--auto-approve").returncode == 0
    assert len(real.prompts()) == 5


def test_a_wait_asked_for_by_tool_is_counted_down_and_skipped_by_a_key(real: RealWorld) -> None:
    work = Work(real.task)
    real.plays(
        by_phase(
            {
                "research": [[Turn(tools=[wait(5, "CI")])], work.phase("research.md", "# Found\n\nAll of it.\n")],
                "plan": [[Turn("?")]],
            }
        )
    )
    terminal = real.stream()
    try:
        terminal.expect(b"CI")
        terminal.expect(b"Enter go on now")
        terminal.send(b"\r")
        terminal.expect(GATE)
        terminal.send(b"q")
        assert terminal.wait() == 3
    finally:
        terminal.close()
    assert real.records("wait_started")[0]["seconds"] == 300
    assert "CI" in real.prompts()[1]


@pytest.mark.parametrize("mode", ["tui", "stream"])
def test_a_question_asked_by_tool_is_answered_in_the_next_session(real: RealWorld, mode: str) -> None:
    work = Work(real.task)
    real.plays(
        by_phase({"research": [[Turn(tools=[ask("Which DB?")])], work.phase("research.md", "# Found\n\nAll of it.\n")]})
    )
    terminal = real.terminal("--mode", mode)
    try:
        terminal.resize(40, 120)
        terminal.expect(b"Which DB?")
        terminal.expect(b"Answer the question")
        terminal.expect(GATE)
        terminal.send(b"\r")
        terminal.expect(b"Your answer:")
        terminal.send(b"postgres\r")
        terminal.expect(b"Phase: research | Iteration: 2")
        terminal.expect(GATE)
        terminal.send(b"q")
        assert terminal.wait() == 3
    finally:
        terminal.close()
    assert "Which DB?" in real.prompts()[1]
    assert "postgres" in real.prompts()[1]


def steps(real: RealWorld, hold: Turn) -> None:
    """Research whose first turn keeps its second half back."""
    work = Work(real.task)
    done = work.phase("research.md", "# Found\n\nAll of it.\n")
    assert callable(done)
    real.plays(by_phase({"research": [lambda request: [hold, *done(request)]]}))


def test_a_typed_line_steers_at_once_and_alt_enter_waits_for_the_next_session(real: RealWorld) -> None:
    hold = threading.Event()
    steps(real, Turn("Working on it", tools=[bash("true")], hold=hold))
    terminal = real.stream()
    try:
        terminal.expect(b"Working")
        terminal.send(b"look at auth\r")
        terminal.expect("→ told: look at auth".encode())
        terminal.send(b"\x1b[200~and the cache\rand its keys\r\x1b[201~")
        terminal.expect("› and the cache ⏎ and its keys ⏎".encode())
        terminal.send(b"please\r")
        terminal.expect("→ told: and the cache and its keys please".encode())
        terminal.send(b"and later the docs\x1b\r")
        terminal.expect("→ for the next session: and later the docs".encode())
        hold.set()
        terminal.expect(GATE)
        terminal.send(b"r")
        terminal.expect(b"Why should research")
        terminal.send(b"once more\r")
        terminal.expect(b"Phase: research | Iteration: 2")
        terminal.expect(GATE)
        terminal.send(b"q")
        assert terminal.wait() == 3
    finally:
        hold.set()
        terminal.close()
    said = str([request.messages for request in real.server.requests])
    assert "'look at auth'" in said
    assert "'and the cache\\nand its keys\\nplease'" in said
    first, second = real.prompts()
    assert "look at auth" not in first + second
    assert "and later the docs" in second
    assert real.records("session_ended")[0]["steered"]


def test_steering_from_another_shell_reaches_the_running_session(real: RealWorld) -> None:
    hold = threading.Event()
    steps(real, Turn("Working on it", tools=[bash("true")], hold=hold))
    runner = real.start()
    try:
        until(lambda: real.server.requests, "pi asks the model")
        assert real.cli("tell", "task", "mind the cache").returncode == 0
        inbox = real.task / ".marathon" / "inbox"
        until(lambda: not list(inbox.glob("*.json")), "the message is taken")
        hold.set()
        assert runner.wait(60) == 3
    finally:
        hold.set()
        runner.kill()
        runner.communicate()
    assert "mind the cache" in str(real.server.requests[-1].messages)
    assert real.records("session_ended")[0]["steered"]


def test_escape_stops_the_run_into_a_gate(real: RealWorld) -> None:
    hold = threading.Event()
    steps(real, Turn("Working on it", tools=[bash("true")], hold=hold))
    terminal = real.stream()
    try:
        terminal.expect(b"Working")
        terminal.send(b"\x1b")
        terminal.expect(b"was closed before the research phase was over")
        terminal.expect(GATE)
        terminal.send(b"q")
        assert terminal.wait() == 3
    finally:
        hold.set()
        terminal.close()
    assert real.records("session_ended")[0]["ending"] == "left"


def close_pi(terminal: Pty) -> None:
    terminal.send(b"\x03")
    terminal.send(b"\x03")


def test_pi_closed_by_the_human_is_a_gate(real: RealWorld) -> None:
    hold = threading.Event()
    steps(real, Turn("Working on it", tools=[bash("true")], hold=hold))
    terminal = real.tui()
    try:
        terminal.expect(b"Working")
        close_pi(terminal)
        terminal.expect(b"was closed before the research phase was over")
        terminal.expect(GATE)
        terminal.send(b"q")
        assert terminal.wait() == 3
        assert terminal.cooked()
    finally:
        hold.set()
        terminal.close()


def test_restart_with_feedback_begins_a_second_run(real: RealWorld) -> None:
    real.plays(coding_agent(real.task, chunks=1))
    assert real.run("--auto-approve").returncode == 0
    assert real.run("--auto-approve", "-h", "also X").returncode == 0
    assert "also X" in real.read("human.md")
    assert len(list(real.task.glob("research.2*.md"))) == 1
    assert sum("also X" in prompt for prompt in real.prompts()) == 1


def outside_of_it_too(real: RealWorld) -> None:
    """The model also answers what is no marathon's prompt."""
    work = coding_agent(real.task)
    real.plays(lambda request: work(request) if request.heading else Turn("What is the goal?"))


def type_loop_command(terminal: Pty) -> None:
    """As slowly as a human, who sees the completion; then one Enter."""
    terminal.send(b"/marathon-loop tas")
    terminal.expect(b"task")
    terminal.send(b"k")
    quiet(terminal)
    terminal.send(b"\r")


def leave_gate(terminal: Pty) -> None:
    terminal.expect(b"Decide later")
    terminal.send(b"\r")
    quiet(terminal)
    terminal.send(b"/quit\r")


def test_plain_pi_marathon_has_the_skills_and_the_loop_command_starts_the_marathon(real: RealWorld) -> None:
    outside_of_it_too(real)
    terminal = real.typed()
    try:
        terminal.resize(40, 120)
        terminal.expect(b"/marathon-loop PATH runs it")
        terminal.send(b"/scribe a faster search\r")
        terminal.expect(b"What is the goal?")
        assert "your skill `scribe`" in real.server.requests[0].last_text
        assert "The task is about: a faster search" in real.server.requests[0].last_text
        assert all(f"<name>{skill}</name>" in str(real.server.requests[0].messages) for skill in ("scribe", "loop"))
        type_loop_command(terminal)
        terminal.expect(b"your review of research")
        leave_gate(terminal)
        assert terminal.wait() == 0
    finally:
        terminal.close()


def test_the_commands_work_in_any_pi_after_install(real: RealWorld) -> None:
    pi, env = find_pi(real.env()), real.env()
    assert list(what_it_lacks(check_start(pi, (), env))).count("--skill") == len(list((ROOT / "skills").iterdir()))
    assert real.cli("install").returncode == 0
    assert not list(what_it_lacks(check_start(pi, (), env)))  # pi would warn about a second one of a name
    terminal = Terminal(["sh", "-c", 'cd "$1" && exec "$2"', "sh", str(real.project), str(real.program)], real.env())
    try:
        terminal.resize(40, 120)
        terminal.command("/marathon-status task", lambda: b"State:     new" in terminal.seen)
        terminal.send(b"/marathon-steer task mind the cache\r")
        terminal.expect(b"Kept for the next session.")
        type_loop_command(terminal)
        terminal.expect(b"your review of research")
        leave_gate(terminal)
        assert terminal.wait() == 0
        assert terminal.cooked()
    finally:
        terminal.close()
    assert "mind the cache" in real.prompts()[0]
