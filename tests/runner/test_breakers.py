"""A marathon that goes nowhere stops, says why, and waits: exit 5 where nobody is there."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.world import Entry, World, finish, plan, research

NOTHING: Entry = {"state": {"state": "running", "phase": "implement"}}


def criteria(world: World, *items: str) -> None:
    listed = "\n".join(f"- {item}" for item in items)
    (world.task / "instructions.md").write_text(f"# Do it\n\n## Success Criteria\n\n{listed}\n")


def stuck(world: World) -> str:
    gate = world.records("gate_opened")[-1]
    assert gate["reason"] in ("stuck", "rounds")
    assert isinstance(gate["message"], str)
    return gate["message"]


def test_the_same_error_three_times_pauses(world: World) -> None:
    criteria(world, "Sums: `echo line $RANDOM in /tmp/$$/x; exit 1`")
    world.script(research(), plan(), finish(append={"work.md": "{n}\n"}))
    ran = world.run("--auto-approve", "--trust")
    assert ran.returncode == 5
    assert world.sessions() == 5
    assert "sessions 3, 4, 5" in stuck(world)
    assert "check Sums: exit code 1 line " in stuck(world), "what it is compared by has no numbers; what is shown has"
    assert "Sums" in ran.stdout


def test_a_go_ahead_gives_it_three_more(world: World) -> None:
    criteria(world, "`exit 1` passes")
    world.script(research(), plan(), finish(append={"work.md": "{n}\n"}))
    world.run("--auto-approve", "--trust")
    sent = world.cli("approve", "task", "-m", "look again")
    assert (sent.returncode, sent.stdout.startswith("Noted: implement may continue.")) == (0, True)
    assert world.run("--auto-approve").returncode == 5
    assert world.sessions() == 8
    assert "Not met" in world.prompt(6)
    assert "look again" in world.prompt(6)


def test_the_same_unmet_criteria_five_times_pauses(world: World) -> None:
    criteria(world, "It reads well.")
    world.script(research(), plan(), finish(append={"work.md": "{n}\n"}))
    ran = world.run("--auto-approve")
    assert ran.returncode == 5
    assert world.sessions() == 7
    assert "5 times in a row: It reads well." in stuck(world)


@pytest.mark.parametrize("git", [True, False])
def test_three_sessions_without_a_change_pause(world: World, git: bool) -> None:
    if git:
        subprocess.run(["git", "init", "-q"], cwd=world.project, check=True)
    world.script(research(), plan(), NOTHING)
    ran = world.run("--auto-approve")
    assert ran.returncode == 5
    assert world.sessions() == 5
    assert "3, 4, 5" in stuck(world)


@pytest.mark.parametrize("git", [True, False])
def test_a_file_written_back_and_forth_pauses_and_is_named(world: World, git: bool) -> None:
    if git:
        subprocess.run(["git", "init", "-q"], cwd=world.project, check=True)
    first: Entry = {**NOTHING, "run": "mkdir -p src; echo one > src/a.py"}
    second: Entry = {**NOTHING, "run": "echo two > src/a.py"}
    world.script(research(), plan(), first, second, first, second, first, second)
    ran = world.run("--auto-approve", "--max-iterations", "8")
    assert ran.returncode == 5
    assert world.sessions() == 7
    assert "src/a.py" in stuck(world)


def test_commits_that_undo_each_other_are_seen_too(world: World) -> None:
    for words in (["init", "-q"], ["config", "user.name", "x"], ["config", "user.email", "x@localhost"]):
        subprocess.run(["git", *words], cwd=world.project, check=True)
    entries: list[Entry] = [
        {**NOTHING, "run": f"echo {text} > a.py; git add a.py; git commit -qm {text}"}
        for text in ("one", "two", "one", "two", "one", "two")
    ]
    world.script(research(), plan(), *entries)
    ran = world.run("--auto-approve", "--max-iterations", "8")
    assert ran.returncode == 5, ran.stdout
    assert "a.py" in stuck(world)


def test_work_that_only_grows_goes_somewhere(world: World) -> None:
    world.script(research(), plan(), {**NOTHING, "append": {"work.md": "{n}\n"}})
    assert world.run("--auto-approve", "--max-iterations", "9").returncode == 4


def test_breakers_are_set_on_the_command_line_and_in_the_config(world: World) -> None:
    world.script(research(), plan(), NOTHING)
    config = world.home / ".config" / "pi-marathon" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('breakers = ["no-progress=2"]\n')
    assert world.run("--auto-approve").returncode == 5
    assert world.sessions() == 4
    world.cli("approve", "task")
    assert world.run("--auto-approve", "--breaker", "no-progress=1").returncode == 5
    assert world.sessions() == 5
    wrong = world.run("--breaker", "nonsense=1")
    assert (wrong.returncode, "same-error" in wrong.stderr) == (2, True)


def test_rounds_of_review_are_warned_of_and_end_in_a_breaker(world: World) -> None:
    world.script(research())
    ran = world.run("--breaker", "review-rounds=5")
    for _ in range(4):
        assert ran.returncode == 3
        assert world.cli("redo", "task", "-m", "once more").returncode == 0
        ran = world.run("--breaker", "review-rounds=5")
    assert ran.returncode == 5
    assert "round 5 of research" in stuck(world)
    messages = [record["message"] for record in world.records("gate_opened")]
    assert [bool(message) for message in messages] == [False, False, False, True, True]
    assert world.cli("approve", "task").returncode == 0
    world.script(plan())
    world.run()
    assert world.records("moved")[-1]["phase"] == "plan"


def test_auto_approval_does_not_pass_a_breaker(world: World) -> None:
    world.script(research(), research())
    assert world.run("--auto-approve", "--breaker", "review-rounds=1").returncode == 5
    assert world.sessions() == 1


def test_touching_files_and_looking_at_them_is_no_progress(world: World) -> None:
    subprocess.run(["git", "init", "-q"], cwd=world.project, check=True)
    (world.project / "f.txt").write_text("same\n")
    subprocess.run(["git", "add", "f.txt"], cwd=world.project, check=True)
    world.script(
        research(), plan(), {**NOTHING, "run": 'touch f.txt "$MARATHON_TASK_DIR/plan.md"; git status > /dev/null'}
    )
    assert world.run("--auto-approve", "--max-iterations", "9").returncode == 5
    assert world.sessions() <= 6


def test_programs_a_repository_names_are_not_started_by_the_runner(world: World) -> None:
    """A clean filter, run by `git status`, would live outside of the guarded session and could answer gates."""
    subprocess.run(["git", "init", "-q"], cwd=world.project, check=True)
    evil = (
        'git config filter.e.clean "touch $PWD/ran; cat"; echo "* filter=e" > .gitattributes; echo x > a; git add -N a'
    )
    world.script(research(run=evil + "; rm -f ran; sleep 0.1; echo yy > a"))
    assert world.run().returncode == 3
    assert not (world.project / "ran").exists()
