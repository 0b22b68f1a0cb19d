"""What a phase may do, held by the real pi: its tools, its model, and the sandbox."""

from __future__ import annotations

from marathon.core.events import ToolEnded
from marathon.store.events import follow
from tests.real.model_server import Turn, bash, by_phase, write
from tests.real.real_world import RealWorld
from tests.support.debian import need_bubblewrap

GATE = b"[q]      Quit marathon"
DONE = '{"state": "paused", "phase": "research", "iteration": 1, "updatedAt": "2026-02-02T14:30:00Z", "note": "n"}'


def test_a_tool_that_the_phase_may_not_use_is_blocked_with_the_reason(real: RealWorld) -> None:
    turns = [
        Turn(tools=[bash(f"touch {real.project}/touched")]),
        Turn(tools=[write(real.task / "research.md", "found\n"), write(real.task / "STATE.json", DONE)]),
        Turn("done"),
    ]
    real.plays(by_phase({"research": [turns]}))
    terminal = real.terminal("--mode", "stream", "--set", "research.tools=!bash", "--set", "research.thinking=off")
    try:
        terminal.resize(40, 120)
        terminal.expect(GATE)
        terminal.send(b"q")
        terminal.wait()
    finally:
        terminal.close()
    assert not (real.project / "touched").exists()
    assert "In this phase use none of these tools: bash." in real.prompts()[0]
    said = [
        event for event in follow(real.task / ".marathon/runs/001/events/001.jsonl") if isinstance(event, ToolEnded)
    ]
    assert "The phase research may not use bash" in said[0].text
    assert [event.failed for event in said] == [True, False, False]


def test_pi_works_in_the_sandbox_and_its_log_is_written(real: RealWorld) -> None:
    need_bubblewrap()
    inside = real.project / "pi-program"  # this world lies in /tmp, which is another one inside
    inside.write_text(real.program.read_text())
    inside.chmod(0o755)
    real.program = inside
    journal = real.task / ".marathon" / "journal.jsonl"
    turns = [
        Turn(tools=[bash(f"echo x >> {journal} || echo y > {real.task}/research.md")]),
        Turn(tools=[write(real.task / "STATE.json", DONE)]),
        Turn("done"),
    ]
    real.plays(by_phase({"research": [turns]}))
    terminal = real.terminal("--mode", "tui", "--sandbox")
    try:
        terminal.resize(40, 120)
        terminal.expect(b"Phase: research | Iteration: 1")
        terminal.expect(GATE)
        terminal.send(b"q")
        terminal.wait()
    finally:
        terminal.close()
    assert real.read("research.md") == "y\n"
    log = list(follow(real.task / ".marathon/runs/001/events/001.jsonl"))
    assert sum(isinstance(event, ToolEnded) for event in log) == 2
    assert real.records("session_ended")[0]["usage"]["turns"] == 3
