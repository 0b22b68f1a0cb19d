"""What the screen shows of a session of the real pi: parallel calls, an edit, a write, long output and thoughts."""

from __future__ import annotations

from pathlib import Path

from marathon.core.events import ToolUpdated
from marathon.store.events import follow
from tests.real.model_server import ToolCall, Turn, Work, bash, by_phase
from tests.real.real_world import RealWorld
from tests.show.glass import Glass

GATE = b"Quit marathon"
SAID = "# Findings\n\nThe **key** is known in `handle`.\n\n- one\n- two\n"


def play(real: RealWorld) -> Path:
    """A session that works until the file it returns is there."""
    (real.project / "app.py").write_text("def handle(request):\n    return route(request)\n")
    edit = {"oldText": "    return route(request)", "newText": "    limit(request.key)\n    return route(request)"}
    go, work = real.project / "go", Work(real.task)
    waiting = "echo step one; until [ -e go ]; do sleep 0.05; done; echo step two"
    new = {"path": "new.py", "content": "a\n" * 20}
    turns = [
        Turn(SAID, "\n".join(f"thought {n}" for n in range(9)), [bash(waiting), bash("echo quick; seq 100")]),
        Turn(
            "",
            tools=[
                ToolCall("edit", {"path": "app.py", "edits": [edit]}),
                ToolCall("write", new),
            ],
        ),
        Turn("", tools=[ToolCall("read", {"path": "missing.py"})]),
    ]
    done = work.phase("research.md", "# Found\n\nAll of it.\n")
    assert callable(done)
    real.plays(by_phase({"research": [lambda request: [*turns, *done(request)]]}))
    return go


def below(lines: list[str], title: str) -> list[str]:
    """What stands below a call."""
    (at,) = [number for number, line in enumerate(lines) if line.startswith(title)]
    end = next(number for number in range(at + 1, len(lines)) if not lines[number].startswith("  │ "))
    return [line.removeprefix("  │ ") for line in lines[at + 1 : end]]


def test_a_session_on_a_terminal(real: RealWorld) -> None:
    go, terminal = play(real), real.stream("--max-cost", "10")
    try:
        terminal.expect("Starting pi…".encode())
        written = terminal.expect("│ step one".encode())
        written += terminal.expect("task │ 🔍 research │ 1/100 │ ".encode())
        written += terminal.expect(" of $10 │ context 1% │ scripted │ Esc stop".encode())
        go.touch()
        written += terminal.expect(GATE)
        terminal.send(b"q")
        assert terminal.wait() == 3
    finally:
        go.touch()
        terminal.close()
    lines = Glass(120, 40).feed(written.decode()).lines
    at = lines.index("Findings")
    assert lines[at - 5 : at] == ["thought 0", "thought 1", "thought 2", "… 6 more lines", ""]
    assert lines[at + 1 : at + 6] == ["", "The key is known in handle.", "", " • one", " • two"]
    assert below(lines, "⚙ bash echo quick") == ["… 96 earlier lines", "96", "97", "98", "99", "100"]
    assert below(lines, "⚙ bash echo step one") == ["step one", "step two"]
    assert below(lines, "⚙ edit app.py") == [
        " 1 def handle(request):",
        "+2     limit(request.key)",
        " 2     return route(request)",
    ]
    assert below(lines, "⚙ write new.py") == ["a"] * 5 + ["… 15 more lines"]
    assert any("missing.py" in line for line in below(lines, "✗ read missing.py"))
    assert not [line for line in lines if "type to tell it" in line]
    events = list(follow(real.task / ".marathon/runs/001/events/001.jsonl"))
    told = [event.text for event in events if isinstance(event, ToolUpdated)]
    assert "step one" in told
    assert len(told) < 10
