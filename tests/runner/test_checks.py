"""A marathon ends when the runner's own checks say so, not when the agent does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.process.driver import Pty, alive, until
from tests.support.world import Entry, World, finish, plan, research

GATE = b"[q]      Quit marathon"
ASKED = b"Agree to exactly these? [y/n]"


def criteria(world: World, *items: str) -> None:
    listed = "\n".join(f"- {item}" for item in items)
    (world.task / "instructions.md").write_text(f"# Do it\n\nAll of it.\n\n## Success Criteria\n\n{listed}\n")


def checks(world: World, text: str) -> None:
    (world.task / "checks.toml").write_text(text)


def judging(met: object = True, evidence: object = "saw it", name: str = "It reads well.", **more: object) -> Entry:
    state = {"state": "completed", "phase": "done", "criteriaStatus": {name: met}, "criteriaEvidence": {name: evidence}}
    return finish(**{**more, "state": state})


def whole(*ends: Entry) -> tuple[Entry, ...]:
    return (research(), plan(), *ends)


def test_completion_is_believed_only_when_the_command_passes(world: World) -> None:
    criteria(world, "`test -e made` passes")
    world.script(*whole(finish(), finish(), finish(touch="made")))
    ran = world.run("--auto-approve", "--trust")
    assert ran.returncode == 0, ran.stdout
    assert world.sessions() == 5
    assert [[one["met"] for one in record["results"]] for record in world.records("checked")] == [
        [False],
        [False],
        [True],
    ]
    assert world.state()["criteriaStatus"] == {"test -e made": True}
    assert "✓ ran: test -e made" in ran.stdout


def test_the_end_of_the_failing_output_goes_to_the_next_session_and_the_whole_is_kept(world: World) -> None:
    criteria(world, "Sums: `seq 1 500; echo oh no >&2; test -e made`")
    world.script(*whole(finish(), finish(touch="made")))
    assert world.run("--auto-approve", "--trust").returncode == 0
    prompt = world.prompt(4)
    assert "Not met: Sums" in prompt
    assert "> oh no" in prompt
    assert "> 500" in prompt
    assert "> 100\n" not in prompt
    logs = list((world.task / ".marathon/runs/001/checks/003").iterdir())
    assert [log.name for log in logs] == ["01-sums.log"]
    assert logs[0].read_text().startswith("1\n2\n")


def test_the_last_phase_is_told_what_it_will_be_held_against(world: World) -> None:
    criteria(world, "Made: `test -e made`", "It reads well.")
    world.script(*whole(judging(touch="made")))
    assert world.run("--auto-approve", "--trust").returncode == 0
    assert "Made: `test -e made`" in world.prompt(3)
    assert "> It reads well." in world.prompt(3)
    assert "criteriaEvidence" in world.prompt(3)
    assert "test -e made" not in world.prompt(1)


@pytest.mark.parametrize(("met", "evidence"), [("true", "saw it"), (True, "")])
def test_a_judgement_needs_a_real_yes_and_evidence(world: World, met: object, evidence: object) -> None:
    criteria(world, "It reads well.")
    world.script(*whole(judging(met, evidence), judging()))
    assert world.run("--auto-approve").returncode == 0
    assert world.sessions() == 4
    assert "Not met: It reads well." in world.prompt(4)


def test_what_ran_and_what_the_agent_says_never_look_the_same(world: World) -> None:
    criteria(world, "Made: `test -e made`", "It reads well.")
    world.script(*whole(judging(touch="made")))
    ran = world.run("--auto-approve", "--trust")
    assert ran.returncode == 0
    summary = world.read(".marathon/runs/001/summary.md")
    for shown in (ran.stdout, world.cli("status", "task").stdout, summary):
        assert "✓ ran: Made" in shown
        assert "○ agent says: It reads well. (evidence: saw it)" in shown
        assert "2 criteria met" not in shown
    assert "1 criterion ran, 1 on the agent's word" in ran.stdout
    told = json.loads(world.cli("status", "task", "--json").stdout)["checks"]
    assert [(each["known_by"], each["evidence"]) for each in told] == [("ran", ""), ("agent", "saw it")]
    once_more = world.cli("check", "task")
    assert "1 criterion ran, 1 on the agent's word." in once_more.stdout


def test_no_criteria_is_said_in_the_end(world: World) -> None:
    world.script(*whole(finish()))
    assert "nothing was checked" in world.run("--auto-approve").stdout


# Agreement


def test_commands_are_not_run_before_the_human_agreed_to_exactly_these(world: World) -> None:
    criteria(world, "`touch ran` passes")
    world.script(*whole(finish()))
    first = world.run("--auto-approve")
    assert first.returncode == 3
    assert "touch ran" in first.stdout
    assert world.sessions() == 0
    assert not (world.project / "ran").exists()
    sent = world.cli("approve", "task")
    assert (sent.returncode, sent.stdout.startswith("Agreed to exactly these.")) == (0, True)
    assert world.run("--auto-approve").returncode == 0
    assert (world.project / "ran").exists()


def test_a_yes_is_for_the_commands_that_were_shown_and_for_none_that_came_since(world: World) -> None:
    criteria(world, "`true` passes")
    world.script(*whole(finish()))
    assert world.run("--auto-approve").returncode == 3
    assert world.cli("approve", "task").returncode == 0
    criteria(world, "`true` passes", "`touch ran` passes")
    again = world.run("--auto-approve")
    assert (again.returncode, "touch ran" in again.stdout, world.sessions()) == (3, True, 0)
    assert not (world.project / "ran").exists()


def test_agreement_is_remembered_outside_of_the_project_and_for_this_project_only(world: World) -> None:
    criteria(world, "`true` passes")
    world.script(*whole(finish()), *whole(finish()))
    assert world.run("--auto-approve", "--trust").returncode == 0
    kept = list((world.home / ".local/state/pi-marathon/agreed").iterdir())
    assert len(kept) == 1
    assert json.loads(kept[0].read_text())["criteria"] == {"true": "true"}
    assert world.run("--auto-approve", "-h", "again").returncode == 0
    for each in kept:
        each.unlink()
    assert world.run("--auto-approve", "-h", "and again").returncode == 3
    assert world.sessions() == 6


def test_an_agent_that_changes_the_commands_has_not_agreed_to_them(world: World) -> None:
    criteria(world, "`true` passes")
    world.script(research(write={"research.md": "x", "checks.toml": '[[check]]\nname = "x"\ncommand = "touch ran"\n'}))
    ran = world.run("--auto-approve", "--trust")
    assert ran.returncode == 3
    assert "touch ran" in ran.stdout
    assert not (world.project / "ran").exists()


def test_an_agent_that_drops_a_criterion_does_not_get_away_with_it(world: World) -> None:
    criteria(world, "It reads well.", "It is fast.")
    easier = "# Do it\n\n## Success Criteria\n\n- It reads well.\n"
    world.script(*whole(judging(write={"result.md": "done", "instructions.md": easier})))
    ran = world.run("--auto-approve")
    assert ran.returncode == 3
    assert "It is fast." in ran.stdout
    assert not world.records("finished")
    world.cli("approve", "task")
    assert world.run("--auto-approve").returncode == 0


def test_at_the_terminal_y_agrees_and_enter_does_not_before_the_first_session(
    world: World, on_terminal: Callable[..., Pty]
) -> None:
    criteria(world, "`true` passes")
    world.script(*whole(finish()))
    terminal = on_terminal()
    shown = terminal.expect(ASKED)
    assert b"- true" in shown
    assert b"MARATHON PAUSED" not in shown, "it is a short question"
    terminal.send(b"\r")
    terminal.expect(b"Enter is not one of the options")
    assert world.sessions() == 0
    terminal.send(b"y")
    assert b"Phase: research | Iteration: 1" in terminal.expect(GATE)
    terminal.send(b"q")
    assert terminal.wait() == 3


def test_a_checks_file_that_cannot_be_read_is_a_gate_that_names_the_mistake(world: World) -> None:
    checks(world, "[[check]]\nname = 'x'\n")
    world.script(*whole(finish()))
    ran = world.run("--auto-approve")
    assert ran.returncode == 3
    assert "checks.toml" in ran.stdout
    assert world.sessions() == 0
    checks(world, "[[check]]\nname = 'x'\ncommand = 'true'\n")
    assert world.run("--auto-approve", "--trust").returncode == 0


def test_an_agent_that_drops_every_criterion_does_not_get_away_with_it_either(world: World) -> None:
    criteria(world, "It reads well.")
    world.script(*whole(finish(write={"result.md": "done", "instructions.md": "# Do it\n"})))
    ran = world.run("--auto-approve")
    assert (ran.returncode, "These criteria were removed or changed" in ran.stdout) == (3, True)
    assert not world.records("finished")


# Commands and their ends


def test_a_check_has_its_folder_its_exit_code_and_its_time(world: World) -> None:
    (world.project / "sub").mkdir()
    (world.project / "sub" / "here").touch()
    checks(
        world,
        '[[check]]\nname = "folder"\ncommand = "test -e here"\ncwd = "sub"\n'
        '[[check]]\nname = "code"\ncommand = "exit 3"\nexit = 3\n'
        '[[check]]\nname = "slow"\ncommand = "test -e made || sleep 600"\ntimeout = 1\n',
    )
    world.script(*whole(finish(), finish(touch="made")))
    ran = world.run("--auto-approve", "--trust")
    assert ran.returncode == 1
    assert "failed twice" in ran.stdout
    first = {one["name"]: one for one in world.records("checked")[0]["results"]}
    assert (first["folder"]["met"], first["code"]["met"], first["slow"]["met"]) == (True, True, False)
    assert "1s" in first["slow"]["reason"]
    world.cli("approve", "task")
    assert world.run("--auto-approve").returncode == 1  # looked at again, with nobody having mended anything
    assert world.sessions() == 3
    world.cli("approve", "task", "-m", "it hangs: make it")
    assert world.run("--auto-approve").returncode == 0
    assert "Not met: slow" in world.prompt(4)


def test_what_a_human_mended_is_checked_again_without_a_session(world: World) -> None:
    criteria(world, "`./tool` passes")
    world.script(*whole(finish()))
    assert world.run("--auto-approve", "--trust").returncode == 1
    (world.project / "tool").write_text("#!/bin/sh\n")
    (world.project / "tool").chmod(0o755)
    world.cli("approve", "task")
    assert world.run("--auto-approve").returncode == 0
    assert world.sessions() == 3


def test_trouble_that_passes_is_tried_once_more_before_anybody_hears_of_it(world: World) -> None:
    criteria(world, "`test -e tried || { touch tried; echo Could not resolve host; exit 6; }` passes")
    world.script(*whole(finish()))
    ran = world.run("--auto-approve", "--trust")
    assert ran.returncode == 0
    assert "Once more" in ran.stdout
    assert world.sessions() == 3


def test_a_check_that_times_out_takes_its_children_with_it(world: World) -> None:
    checks(
        world,
        '[[check]]\nname = "slow"\ntimeout = 1\n'
        "command = \"sh -c 'trap : TERM; echo $$ > pid; while :; do sleep 1; done' & wait\"\n",
    )
    world.script(*whole(finish()))
    world.run("--auto-approve", "--trust", "--breaker", "same-error=1")
    pid = int((world.project / "pid").read_text())
    until(lambda: not alive(pid), "the child of the check is gone")


def test_a_command_that_is_not_there_asks_for_help_at_once(world: World) -> None:
    criteria(world, "`no-such-program --check` passes")
    world.script(*whole(finish()))
    ran = world.run("--auto-approve", "--trust")
    assert ran.returncode == 1
    assert "command not found" in ran.stdout
    assert "Everything it printed" not in ran.stdout, "that would be of the agent, not of the check"
    assert world.sessions() == 3


@pytest.mark.parametrize("said", ["sh: tool: Permission denied", "ModuleNotFoundError: No module named 'yaml'"])
def test_an_agent_that_lacks_something_is_not_started_again_and_again(world: World, said: str) -> None:
    world.script({"say": [said], "exit": 1})
    ran = world.run("--retry-wait", "60s")
    assert ran.returncode == 1
    assert world.sessions() == 1
    assert said in ran.stdout


def test_a_check_cannot_answer_gates(world: World) -> None:
    criteria(world, "`python3 -P -m marathon approve task; test -e made` passes")
    world.script(*whole(finish(), {**plan("plan"), "state": {"state": "paused", "phase": "implement"}}))
    ran = world.run("--auto-approve", "--trust")
    assert ran.returncode == 3
    assert not (world.task / ".marathon" / "inbox").exists() or not list((world.task / ".marathon/inbox").iterdir())


def test_a_runner_killed_while_it_checks_checks_again(world: World) -> None:
    criteria(world, "`echo $$ > pid; test -e go || sleep 600` passes")
    world.script(*whole(finish()))
    runner = world.start("--auto-approve", "--trust")
    try:
        until(lambda: (world.project / "pid").exists(), "the check runs")
        runner.kill()
        runner.communicate(timeout=30)
    finally:
        runner.kill()
    pid = int((world.project / "pid").read_text())
    until(lambda: not alive(pid), "the check died with its runner")
    (world.project / "go").touch()
    assert world.run("--auto-approve").returncode == 0
    assert world.sessions() == 3
    assert len(world.records("checked")) == 1


def test_ctrl_c_while_it_checks_loses_nothing(world: World, on_terminal: Callable[..., Pty]) -> None:
    criteria(world, "`touch began; test -e go || sleep 600` passes")
    world.script(*whole(finish()))
    terminal = on_terminal("--auto-approve", "--trust")
    until(lambda: (world.project / "began").exists(), "the check runs")
    terminal.send(b"\x03")
    assert terminal.wait() == 130
    assert terminal.cooked()
    (world.project / "go").touch()
    assert world.run("--auto-approve").returncode == 0
    assert world.sessions() == 3


# pi-marathon check


def test_check_runs_them_at_any_time_and_changes_nothing(world: World) -> None:
    criteria(world, "`test -e made` passes", "It reads well.")
    before = sorted(path.name for path in world.task.rglob("*"))
    refused = world.cli("check", "task")
    assert (refused.returncode, "--trust" in refused.stderr) == (3, True)
    assert refused.stderr.count("test -e made") == 1, "somebody is to read it before they agree"
    unmet = world.cli("check", "task", "--trust")
    assert unmet.returncode == 1
    assert "✗ test -e made" in unmet.stdout
    (world.project / "made").touch()
    world.leave_state(
        "running",
        "implement",
        1,
        criteriaStatus={"It reads well.": True},
        criteriaEvidence={"It reads well.": "read it"},
    )
    met = world.cli("check", "task", "--json")
    assert met.returncode == 0
    assert [one["met"] for one in json.loads(met.stdout)["results"]] == [True, True]
    assert sorted(path.name for path in world.task.rglob("*")) == sorted([*before, "STATE.json"])


def test_check_asks_at_the_terminal(world: World) -> None:
    criteria(world, "`touch ran` passes")
    terminal = world.typed("check", "task")
    try:
        assert b"touch ran" in terminal.expect(b"[y/N]")
        terminal.send(b"n\r")
        assert terminal.wait() == 3
    finally:
        terminal.close()
    assert not (world.project / "ran").exists()


@pytest.mark.parametrize("parallel", [True, False])
def test_checks_run_beside_each_other_only_where_they_say_they_may(world: World, parallel: bool) -> None:
    """Each leaves a mark, and looks for the other's while it is there itself."""
    wait = "touch {0}; for i in $(seq 30); do test -e {1} && exit 0; sleep 0.1; done; rm {0}; exit 1"
    first, second = wait.format("a", "b"), wait.format("b", "a")
    table = f"parallel = {str(parallel).lower()}\n"
    for name, command in (("first", first), ("second", second)):
        table += f'[[check]]\nname = "{name}"\ncommand = "{command}"\n'
    checks(world, table)
    ran = world.cli("check", "task", "--trust", "--json")
    met = [one["met"] for one in json.loads(ran.stdout)["results"]]
    assert met == ([True, True] if parallel else [False, False])


def test_the_same_program_may_be_stopped_from_outside_while_it_checks(world: World) -> None:
    criteria(world, "`touch began; sleep 600` passes")
    world.script(*whole(finish()))
    runner = world.start("--auto-approve", "--trust")
    try:
        until(lambda: (world.project / "began").exists(), "the check runs")
        assert world.cli("stop", "task", "--now").returncode == 0
        out, _ = runner.communicate(timeout=60)
        assert runner.returncode == 3, out
    finally:
        runner.kill()
    assert not world.records("checked")


def test_a_folder_that_leads_out_of_the_project_is_refused(world: World) -> None:
    (world.project / "sub").symlink_to(world.home)
    checks(world, '[[check]]\nname = "x"\ncommand = "touch ran"\ncwd = "sub"\n')
    ran = world.cli("check", "task", "--trust")
    assert (ran.returncode, "leads out" in ran.stderr) == (7, True)
    assert world.run("--trust").returncode == 3
    assert not (world.home / "ran").exists()


# What an agent might try


def agreed_once(world: World, *items: str) -> None:
    """A human has agreed to these, in the marathon of this very task."""
    criteria(world, *items)
    assert world.cli("check", "task", "--trust").returncode in (0, 1)


def test_going_back_to_what_was_once_agreed_to_is_a_loss_all_the_same(world: World) -> None:
    easy = "# Do it\n\n## Success Criteria\n\n- `true` passes\n"
    agreed_once(world, "`true` passes")
    criteria(world, "`true` passes", "`test -e never` passes")
    world.script(*whole(finish(write={"result.md": "x", "instructions.md": easy})))
    ran = world.run("--auto-approve", "--trust")
    assert ran.returncode == 3
    assert "- test -e never" in ran.stdout
    assert world.run("--auto-approve", "--trust").returncode == 3  # a flag is not a look
    assert not world.records("finished")


def test_what_was_agreed_to_for_one_task_is_not_agreed_to_for_another(world: World) -> None:
    agreed_once(world, "`true` passes")
    other = world.project / "other"
    other.mkdir()
    (other / "instructions.md").write_text(world.read("instructions.md"))
    assert world.cli("check", "other").returncode == 3


def test_a_check_by_hand_agrees_to_no_loss(world: World) -> None:
    criteria(world, "It reads well.", "It is fast.")
    world.script(
        research(write={"research.md": "x", "instructions.md": "# Do it\n\n## Success Criteria\n\n- `true`\n"})
    )
    assert world.run("--auto-approve").returncode == 3
    by_hand = world.cli("check", "task", "--trust")
    assert "It is fast." in by_hand.stderr
    assert world.run("--auto-approve").returncode == 3
    assert world.sessions() == 1


def test_an_agent_without_its_environment_is_still_inside_its_session(world: World) -> None:
    agree = "env -u MARATHON_RUNNER_ID python3 -P -m marathon check task --trust > out 2>&1; echo $? >> out"
    detached = f"setsid sh -c '{agree}; touch tried'; while ! test -e tried; do sleep 0.05; done"
    criteria(world, "`test -e never` passes")
    easier = {"research.md": "x", "instructions.md": "# Do it\n\n## Success Criteria\n\n- `true` passes\n"}
    world.script(research(write=easier, run=detached.replace("python3", sys.executable)))
    assert world.run("--auto-approve", "--trust").returncode == 3
    assert (world.project / "out").read_text().endswith("\n2\n")


def test_words_are_no_agreement_and_a_refusal_reaches_the_agent(world: World, on_terminal: Callable[..., Pty]) -> None:
    criteria(world, "It reads well.", "It is fast.")
    easier = "# Do it\n\n## Success Criteria\n\n- It reads well.\n"
    as_it_was = world.read("instructions.md")
    world.script(
        research(write={"research.md": "x", "instructions.md": easier}),
        {"write": {"instructions.md": as_it_was}, "state": {"state": "running", "phase": "plan"}},
        plan(),
    )
    terminal = on_terminal("--auto-approve")
    shown = terminal.expect(ASKED)
    assert b"It is fast." in shown
    assert b"[f]" not in shown
    terminal.send(b"n")
    terminal.expect(b"No, because:")
    terminal.send(b"put the second one back\r")
    until(lambda: world.sessions() >= 3, "the refusal was heeded, and it goes on")
    assert "put the second one back" in world.prompt(2)
    assert "Put them back as they were" in world.prompt(2)
    terminal.send(b"\x03")


def test_verdicts_of_an_earlier_run_do_not_count(world: World) -> None:
    criteria(world, "It reads well.")
    lazy: Entry = {
        "write": {"result.md": "again {n}"},
        "run": "python3 -c \"import json,os; p=os.environ['MARATHON_TASK_DIR']+'/STATE.json'; s=json.load(open(p));"
        " s.update(state='completed', phase='done'); json.dump(s, open(p, 'w'))\"",
    }
    world.script(*whole(judging()), *whole(lazy, judging()))
    assert world.run("--auto-approve").returncode == 0
    assert world.run("--auto-approve", "-h", "again").returncode == 0
    assert world.sessions() == 7
    assert "gave no verdict" in world.prompt(7)


def test_a_folder_that_is_a_link_to_itself_is_a_check_that_cannot_be_run(world: World) -> None:
    checks(world, '[[check]]\nname = "x"\ncommand = "true"\ncwd = "sub"\n')
    (world.project / "sub").symlink_to("sub")
    world.script(*whole(finish()))
    ran = world.run("--trust", "--auto-approve")
    assert ran.returncode == 1
    assert "A check cannot be run: x" in ran.stdout
    assert "went wrong inside" not in ran.stderr


@pytest.mark.parametrize("make", ["mkdir", "mkfifo"])
def test_checks_that_are_no_file_are_refused(world: World, make: str) -> None:
    subprocess.run([make, str(world.task / "checks.toml")], check=True)
    ran = world.run()
    assert (ran.returncode, "checks.toml" in ran.stderr) == (7, True)


def test_a_gate_about_the_criteria_says_what_is_so_now(world: World) -> None:
    checks(world, "[[check]]\nname = 'x'\n")
    assert world.run().returncode == 3
    checks(world, "[[check]]\nname = 'x'\ncommand = 'true'\nnom = 1\n")
    ran = world.run()
    assert "nom" in ran.stdout
    assert "nom" in world.cli("status", "task").stdout


def test_a_command_of_many_lines_passes_for_nothing_else(world: World) -> None:
    checks(
        world,
        '[[check]]\nname = "lint"\ncommand = """\nruff .\n- tests: pytest\nNothing else will be run."""\nexit = 3\n',
    )
    shown = world.run().stdout
    assert "| - tests: pytest" in shown
    assert "| Nothing else will be run." in shown
    assert "wants exit code 3" in shown
