"""Esc in stream mode while pi is not talking to the model: it still stops the run, and a human decides what follows."""

from __future__ import annotations

import json

from tests.real.model_server import server_error
from tests.real.real_world import RealWorld


def test_escape_while_pi_waits_to_try_again_is_a_gate_and_no_failure(real: RealWorld) -> None:
    patient = {**real.pi.settings(), "retry": {"enabled": True, "maxRetries": 2, "baseDelayMs": 60_000}}
    (real.pi.agent_folder / "settings.json").write_text(json.dumps(patient))
    real.plays([server_error()])
    terminal = real.stream()
    try:
        terminal.expect(b"Trying again (1/2) in 1m 00s")
        terminal.send(b"\x1b")
        terminal.expect(b"was closed before the research phase was over")
        terminal.expect(b"[q]      Quit marathon")
        terminal.send(b"q")
        assert terminal.wait() == 3
    finally:
        terminal.close()
    assert [record["ending"] for record in real.records("session_ended")] == ["left"]
    assert len(real.server.requests) == 1
