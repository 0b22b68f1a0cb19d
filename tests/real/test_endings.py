"""How a marathon with the real pi ends: by its word and the runner's checks, or by what it may cost."""

from __future__ import annotations

import pytest

from tests.real.model_server import Request, Session, Turn, Work, bash, by_phase
from tests.real.real_world import RealWorld

MARK = "<loop-complete>"


def before_implement(work: Work) -> dict[str, list[Session]]:
    return {
        "research": [work.phase("research.md", "# Found\n\nAll of it.\n")],
        "plan": [work.phase("plan.md", "- [x] 1. a step\n")],
    }


def ending_with(work: Work, *turns: Turn) -> Session:
    """A session that writes its result but leaves STATE.json running; the last turn is what it says in the end."""

    def session(request: Request) -> list[Turn]:
        write = Turn(
            "I write.", tools=[bash(f"echo done > '{work.folder}/result.md'; echo x >> '{work.folder}/work.md'")]
        )
        return [write, work.end(request, state="running", note=None), *turns]

    return session


@pytest.mark.parametrize("mode", ["tui", "stream"])
def test_the_mark_in_its_last_message_proposes_the_end(real: RealWorld, mode: str) -> None:
    work = Work(real.task)
    real.plays(
        by_phase({**before_implement(work), "implement": [ending_with(work, Turn(f"All of it is done.\n\n{MARK}"))]})
    )
    terminal = real.terminal("--mode", mode, "--auto-approve")
    try:
        terminal.resize(40, 120)
        terminal.expect(b"Completed")
        assert terminal.wait() == 0
    finally:
        terminal.close()
    assert [record["signal"] for record in real.records("session_ended")] == [False, False, True]


@pytest.mark.parametrize("mode", ["tui", "stream"])
def test_the_mark_in_what_it_reads_and_runs_proposes_nothing(real: RealWorld, mode: str) -> None:
    (real.task / "instructions.md").write_text(f"# Do it\n\nSay this when you are done:\n\n{MARK}\n")
    work = Work(real.task)
    echo = Turn("I look.", tools=[bash(f"echo '{MARK}'; cat '{real.task}/instructions.md'")])
    real.plays(by_phase({**before_implement(work), "implement": [ending_with(work, echo, Turn("More is left."))]}))
    terminal = real.terminal("--mode", mode, "--auto-approve", "--max-iterations", "4")
    try:
        terminal.resize(40, 120)
        terminal.expect(b"(--max-iterations) is reached")
        terminal.expect(b"Quit marathon")
        terminal.send(b"q")
        assert terminal.wait() == 3
    finally:
        terminal.close()
    assert not any(record["signal"] for record in real.records("session_ended"))


def test_the_checks_have_the_last_word(real: RealWorld) -> None:
    (real.task / "instructions.md").write_text("# Do it\n\n## Success Criteria\n\n- `test -e made` passes\n")
    work = Work(real.task)
    said = Turn(f"Done.\n{MARK}")
    first, second = ending_with(work, said), ending_with(work, Turn("Now.", tools=[bash("touch made")]), said)
    real.plays(by_phase({**before_implement(work), "implement": [first, second]}))
    ran = real.run("--auto-approve", "--trust")
    assert ran.returncode == 0, ran.stdout
    assert "✗ test -e made" in ran.stdout
    assert "1/1 step" in ran.stdout
    assert "Not met: test -e made" in real.prompts()[3]


def test_what_it_costs_is_held_against_the_budget(real: RealWorld) -> None:
    ran = real.run("--auto-approve", "--max-cost", "0.02")
    assert ran.returncode == 4, ran.stdout
    assert "of $0.02 (--max-cost) are used." in ran.stdout or "0.02" in ran.stdout
    assert "pi-marathon --max-cost +10 --task task" in ran.stdout
    sessions = len(real.records("session_started"))
    assert 1 <= sessions < 5
    assert real.run("--auto-approve").returncode == 4
    assert len(real.records("session_started")) == sessions
    assert real.run("--auto-approve", "--max-cost", "+10").returncode == 0


def test_tokens_are_a_budget_too(real: RealWorld) -> None:
    ran = real.run("--auto-approve", "--max-tokens", "4000")
    assert ran.returncode == 4, ran.stdout
    assert "tokens (--max-tokens) is reached" in ran.stdout
