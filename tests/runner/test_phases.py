"""What the runner makes of each thing an agent can leave behind: no phase and no review is skipped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.process.driver import Pty
from tests.support.world import Entry, World, chunk, finish, plan, research

KEYS_SHOWN = b"[q]      Quit marathon"


@pytest.mark.parametrize(("state", "phase"), [("paused", "research"), ("paused", "plan"), ("running", "plan")])
def test_a_finished_phase_waits_for_its_review_however_the_agent_says_it(world: World, state: str, phase: str) -> None:
    world.script(research(phase, state), plan(hold=True))
    ran = world.run()
    assert ran.returncode == 3
    assert "Phase: research | Iteration: 1" in ran.stdout
    assert "⚠️" not in ran.stdout.replace("⏸️", "")
    assert (world.state()["state"], world.state()["phase"]) == ("paused", "research")
    assert world.records("gate_opened")[0]["reason"] == "review"
    assert world.sessions() == 1


def test_after_enter_the_next_session_is_plan_and_the_state_says_so(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(research("plan"), plan(run='cp "$MARATHON_TASK_DIR/STATE.json" "$MARATHON_TASK_DIR/seen.json"'))
    terminal = on_terminal()
    assert b"Phase: research" in terminal.expect(KEYS_SHOWN)
    terminal.send(b"\r")
    terminal.expect(KEYS_SHOWN)
    assert "phase plan (run 1, iteration 2)" in world.prompt(2)
    assert '"state": "running",\n  "phase": "plan"' in world.read("seen.json")


def test_running_in_the_same_phase_is_the_next_session_of_it(world: World) -> None:
    world.script({"write": {"notes.md": "half\n"}, "state": {"state": "running", "phase": "research"}}, research())
    ran = world.run()
    assert ran.returncode == 3
    assert "Phase: research | Iteration: 2" in ran.stdout
    assert "Mend first" not in world.prompt(2)


SKIPS = {
    "paused/implement from research": research("implement"),
    "running/implement from research": research("implement", "running"),
    "completed/done from research": research("done", "completed"),
}


@pytest.mark.parametrize("entry", SKIPS.values(), ids=SKIPS.keys())
def test_skipping_ahead_is_a_gate_with_a_warning_and_leads_to_plan(world: World, entry: Entry) -> None:
    world.script(entry, plan())
    ran = world.run()
    assert ran.returncode == 3
    assert "Phase: research | Iteration: 1" in ran.stdout
    assert "That was not accepted" in ran.stdout
    assert world.state()["phase"] == "research"
    world.cli("approve", "task")
    assert world.run().returncode == 3
    assert "phase plan" in world.prompt(2)


def test_completed_from_plan_is_not_accepted(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research(), plan("done", "completed", write={"plan.md": "p\n", "result.md": "r\n"}), chunk(), finish())
    terminal = on_terminal()
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"\r")
    shown = terminal.expect(KEYS_SHOWN)
    assert b"Phase: plan" in shown
    assert "left completed/done. That was not accepted" in shown.decode()
    assert world.state()["state"] == "paused"
    terminal.send(b"\r")
    terminal.expect(b"Completed")
    assert "phase implement" in world.prompt(3)


def test_going_back_is_a_question_though_the_output_is_there(world: World) -> None:
    world.script(research(), plan("research"))
    world.run()
    world.cli("approve", "task")
    ran = world.run()
    assert ran.returncode == 3
    assert "Phase: plan" in ran.stdout
    assert "The agent proposes to go back from plan to research." in ran.stdout


@pytest.mark.parametrize("write", [{}, {"research.md": ""}], ids=["missing", "empty"])
def test_a_phase_without_its_output_runs_again_and_then_is_a_gate(world: World, write: dict[str, str]) -> None:
    world.script(research(write=write), research(write=write), research())
    ran = world.run()
    assert ran.returncode == 3
    assert world.sessions() == 2
    assert "research.md is missing or empty" in world.prompt(2)
    assert "research.md is missing or empty" in ran.stdout
    assert world.records("gate_opened")[-1]["reason"] == "output"
    world.cli("approve", "task")
    ran = world.run()
    assert "phase research" in world.prompt(3)
    assert world.records("gate_opened")[-1]["reason"] == "review"


def test_an_output_from_before_this_run_does_not_count(world: World) -> None:
    (world.task / "research.md").write_text("from last year\n")
    world.script(research(write={}), research())
    ran = world.run()
    assert ran.returncode == 3
    assert "research.md was not touched" in world.prompt(2)
    assert "The agent is told: The research phase was called complete, but research.md was not touched." in ran.stdout
    assert world.records("gate_opened")[-1]["reason"] == "review"


def test_completed_without_a_result_is_told_so_and_trips_the_breaker(world: World) -> None:
    world.script(research(), plan(), finish(write={}))
    ran = world.run("--auto-approve")
    assert ran.returncode == 5
    assert world.sessions() == 5
    assert "result.md is missing or empty" in world.prompt(4)
    assert "result.md is missing or empty" in ran.stdout
    assert world.state()["state"] == "paused"


def test_completed_with_the_result_in_the_next_session_is_done(world: World) -> None:
    world.script(research(), plan(), finish(write={}), finish())
    assert world.run("--auto-approve").returncode == 0
    assert world.sessions() == 4


def test_paused_in_implement_offers_to_redo_plan_or_research(world: World, on_terminal: Callable[..., Pty]) -> None:
    wrong = chunk(state={"state": "paused", "phase": "implement", "note": "step 3 cannot work"})
    world.script(research(), plan(), wrong, plan(), finish())
    terminal = on_terminal()
    for _ in range(2):
        terminal.expect(KEYS_SHOWN)
        terminal.send(b"\r")
    shown = terminal.expect(KEYS_SHOWN).decode()
    assert "Phase: implement" in shown
    assert "Note: step 3 cannot work" in shown
    for option in ("[Enter]  Continue with implement", "[f]", "[1] Go to research  [2] Go to plan"):
        assert option in shown
    terminal.send(b"2")
    terminal.expect(b"Press 2 again")
    terminal.send(b"2")
    terminal.expect(b"Why? (may be empty)")
    terminal.send(b"no such service\r")
    assert b"Phase: plan" in terminal.expect(KEYS_SHOWN)
    assert "phase plan, round 2" in world.prompt(4)
    assert "no such service" in world.prompt(4)
    assert "> step 3 cannot work" in world.prompt(4)
    terminal.send(b"\r")
    terminal.expect(b"Completed")


@pytest.mark.parametrize(
    ("command", "phase"),
    [
        (("approve", "task"), "implement"),
        (("redo", "task", "--phase", "research", "-m", "look again"), "research"),
        (("redo", "task", "--loop", "-m", "look again"), "research"),
    ],
    ids=["continue", "another phase", "loop"],
)
def test_the_agents_reason_goes_with_whatever_the_human_answers(
    world: World, command: tuple[str, ...], phase: str
) -> None:
    wrong = chunk(state={"state": "paused", "phase": "implement", "note": "plan is wrong: no UserService exists"})
    world.script(research(), plan(), wrong, chunk())
    assert world.run("--auto-approve").returncode == 3
    assert world.cli(*command).returncode == 0
    world.run("--auto-approve", "--max-iterations", "4")
    prompt = world.prompt(4)
    assert f"phase {phase}" in prompt
    assert "## Why the last session stopped" in prompt
    assert "> plan is wrong: no UserService exists" in prompt
    assert ("> look again" in prompt) is ("-m" in command)


BACK = plan("research", "running", write={"notes.md": "{n}\n"})
BACK["state"]["note"] = "research is wrong"


def test_a_proposal_to_go_back_is_asked_about_and_enter_goes_back(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(research(), BACK, research(), plan())
    terminal = on_terminal()
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"\r")
    shown = terminal.expect(KEYS_SHOWN).decode()
    assert "The agent proposes to go back from plan to research." in shown
    assert "Note: research is wrong" in shown
    assert "[Enter]  Go back to research" in shown
    assert "[3] Go to implement" in shown
    terminal.send(b"\r")
    assert b"Phase: research" in terminal.expect(KEYS_SHOWN)
    assert "phase research, round 2" in world.prompt(3)
    assert "> research is wrong" in world.prompt(3)
    assert world.cli("status", "task").stdout.count("reviewed") == 0, "the review of research counts no more"
    terminal.send(b"q")


BLANK = {
    "white space": " \n\t\n",
    "a title": "# Research\n",
    "headings": "# Research\n\n## Findings\n\n<!-- todo -->\n",
}


@pytest.mark.parametrize("text", BLANK.values(), ids=BLANK)
def test_a_blank_output_is_no_output(world: World, text: str) -> None:
    world.script(research(write={"research.md": text, "notes.md": "{n}"}), research())
    assert world.run("--auto-approve", "--max-iterations", "2").returncode == 4
    assert "research.md is missing or empty (headings do not count)" in world.prompt(2)
    assert [record["output"] for record in world.records("session_ended")] == ["missing", "fresh"]


def test_the_human_may_choose_a_phase_where_the_agent_skipped_ahead(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    world.script(research("implement"), finish())
    terminal = on_terminal()
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"3")
    terminal.expect(b"Press 3 again")
    terminal.send(b"3")
    terminal.expect(b"Why? (may be empty)")
    terminal.send(b"\r")
    terminal.expect(b"Completed")
    assert "phase implement" in world.prompt(2)
    assert world.records("gate_answered")[0]["phase"] == "implement"


def test_a_state_that_cannot_be_read_is_kept_and_told_and_the_second_time_a_gate(world: World) -> None:
    world.script({"write": {"a.md": "{n}"}, "state": "{broken"})
    ran = world.run()
    assert ran.returncode == 3
    assert world.sessions() == 2
    assert "could not be read" in world.prompt(2)
    assert "twice in a row" in ran.stdout
    kept = sorted(world.task.glob("STATE.json.invalid-*"))
    assert [path.read_text() for path in kept] == ["{broken", "{broken"]
    assert (world.state()["state"], world.state()["phase"]) == ("paused", "research")


def test_three_sessions_that_change_nothing_are_stuck(world: World) -> None:
    world.script({"say": ["thinking"], "state": {"state": "running", "phase": "research"}})
    ran = world.run()
    assert ran.returncode == 5
    assert world.sessions() == 3
    assert "Nothing changed in the last 3 sessions" in ran.stdout


def test_the_gate_of_a_stuck_agent_tells_its_last_words(world: World) -> None:
    world.script({"say": ["Hello", "Error: there is no", "such model"]})
    assert world.run().returncode == 5
    (gate,) = world.records("gate_opened")
    assert gate["message"].endswith("(1, 2, 3). The agent's last words: Hello Error: there is no such model")


def test_work_in_the_project_outside_of_the_task_is_a_change(world: World) -> None:
    idle: Entry = {"state": {"state": "running", "phase": "research"}}
    world.script(idle, idle, {**idle, "touch": "code.py"}, idle, idle, research())
    assert world.run().returncode == 3
    assert world.sessions() == 6


def test_an_agent_closed_by_the_human_leaves_a_gate(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script({"write": {"half.md": "half\n"}, "kill": "SIGINT"}, research())
    terminal = on_terminal("--mode", "tui")
    shown = terminal.expect(KEYS_SHOWN).decode()
    assert "The agent was closed before the research phase was over" in shown
    assert "[Enter]  Continue with research" in shown
    terminal.send(b"\r")
    terminal.expect(b"Review the output: task/research.md")
    assert world.sessions() == 2
    assert world.records("gate_opened")[0]["reason"] == "left"


def test_the_mark_as_an_agents_last_line_proposes_the_end(world: World) -> None:
    more = {"state": {"state": "running", "phase": "implement"}, "write": {"result.md": "done {n}\n"}}
    world.script(
        research(), plan(), {**more, "say": ["<loop-complete>", "not yet"]}, {**more, "say": ["<loop-complete>"]}
    )
    assert world.run("--auto-approve").returncode == 0
    assert world.sessions() == 4


def test_the_mark_before_the_last_phase_means_nothing(world: World) -> None:
    world.script({"state": {"state": "running", "phase": "research"}, "say": ["<loop-complete>"], "touch": "x"})
    assert world.run("--auto-approve", "--max-iterations", "2").returncode == 4


def test_all_boxes_ticked_end_nothing_but_are_asked_about(world: World) -> None:
    ticked = {"state": {"state": "running", "phase": "implement"}, "write": {"plan.md": "- [x] 1. a\n- [x] 2. b\n"}}
    world.script(research(), plan(), {**ticked, "append": {"work.md": "{n}"}}, finish())
    ran = world.run("--auto-approve")
    assert ran.returncode == 0
    assert "2/2 steps" in ran.stdout
    assert "Every step of the plan is ticked (2/2)" in world.prompt(4)


def test_an_agent_that_writes_no_state_is_told_of(world: World) -> None:
    world.script({"append": {"notes.md": "{n}\n"}}, research())
    ran = world.run()
    assert ran.returncode == 3
    assert ran.stdout.count("The agent did not update STATE.json") == 1
    assert world.sessions() == 2


@pytest.mark.parametrize(
    ("work", "gate"), [({}, "failed"), ({"touch": "code.py"}, "review"), ({"append": {"work.md": "x\n"}}, "review")]
)
def test_a_wrong_key_is_a_gate_though_the_agent_ended_well(world: World, work: Entry, gate: str) -> None:
    said = "The API provider is not able to authenticate you. Check your API key."
    world.script({"say": ["Sorry.", said], **work}, research())
    ran = world.run()
    assert ran.returncode == (1 if gate == "failed" else 3), ran.stdout
    (opened,) = world.records("gate_opened")
    assert opened["reason"] == gate
    assert gate != "failed" or opened["message"] == f"The agent cannot continue: Sorry. {said}"
