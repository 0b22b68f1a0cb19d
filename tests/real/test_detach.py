"""The real pi works on when its runner leaves the terminal, hears what an attached terminal types, and is kept."""

from __future__ import annotations

from collections.abc import Sequence

from marathon.process import tree
from tests.process.driver import Pty, until
from tests.real.model_server import Request, Turn, Work, bash, by_phase
from tests.real.real_world import RealWorld, pis

GATE = b"[q]      Quit marathon"


def test_pi_goes_on_without_its_terminal_and_is_steered_from_another(real: RealWorld) -> None:
    work, go = Work(real.task), real.project.parent / "go"
    until_go = bash(f"until [ -e {go} ]; do sleep 0.1; done; echo was let go")
    found = work.phase("research.md", "# Found\n\nAll of it.\n")

    def research(request: Request) -> Sequence[Turn]:
        assert callable(found)
        return [Turn(tools=[until_go]), *found(request)]

    real.plays(by_phase({"research": [research], "plan": [work.phase("plan.md", "- [ ] 1. all of it\n")]}))
    window = real.stream()
    attached: Pty | None = None
    try:
        window.expect(b"until [ -e")
        (pi,) = pis(real)[:1]
        window.send(b"b\r")
        window.expect(b"task goes on in the background (pid ")
        assert window.wait() == 0
        assert window.cooked()
        window.hang_up()
        attached = real.typed("attach", "task")
        attached.resize(40, 120)
        attached.expect(b"until [ -e")
        attached.send(b"mind the gap\r")
        attached.expect("→ told: mind the gap".encode())
        go.touch()
        attached.expect(b"was let go")
        attached.expect(GATE)
        until(lambda: not tree.look(pi), "pi has ended; it is not kept while a human is waited for")
        assert any("mind the gap" in str(request.messages) for request in real.server.requests)
        attached.send(b"\r")
        attached.expect(b"plan")
        attached.expect(GATE)
        attached.send(b"q")
        attached.expect(b"q ends the marathon that you only watch")
        attached.send(b"q")
        assert attached.wait() == 3
    finally:
        window.close()
        if attached:
            attached.close()
        tree.end(tree.find_by_environ("HOME", str(real.home)), 0.2)


def test_pi_that_had_the_terminal_is_streamed_once_its_gate_was_left(real: RealWorld) -> None:
    work = Work(real.task)
    found, planned = work.phase("research.md", "# Found\n\nAll of it.\n"), work.phase("plan.md", "- [ ] 1. all of it\n")
    real.plays(by_phase({"research": [found], "plan": [planned]}))
    window = real.tui()
    try:
        window.expect(GATE)
        window.send(b"b")
        window.expect(b"task goes on in the background (pid ")
        assert window.wait() == 0
        assert real.cli("approve", "task").returncode == 0
        until(lambda: len(real.records("gate_opened")) == 2, "the next gate")
        assert [each["ending"] for each in real.records("session_ended")] == ["ended", "ended"]
    finally:
        window.close()
        tree.end(tree.find_by_environ("HOME", str(real.home)), 0.2)
