"""What changes where a phase may not write: in a worktree it is undone, and beside a human it is kept and told."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agents.conformance.adapters import ADAPTERS, ModelWorld
from tests.git.test_snapshot import git
from tests.process.driver import Pty, until
from tests.real.model_server import Request, Turn, Work, write
from tests.support.side import Side
from tests.support.world import World, finish, plan, research

LOOP = """name = "Quiet"
[[phases]]
id = "look"
name = "Look"
brief = "b"
output = "o.md"
writes = "task"
[[phases]]
id = "work"
name = "Work"
brief = "b"
output = "result.md"
"""


@pytest.fixture
def repository(world: World) -> World:
    under_git(world)
    return world


def under_git(world: World) -> None:
    (world.project / "code.py").write_text("before\n")
    git(world.project, "init", "-q")
    git(world.project, "config", "user.name", "n")
    git(world.project, "config", "user.email", "e")
    git(world.project, "add", "-A")
    git(world.project, "commit", "-qm", "all")


@pytest.fixture
def acp(tmp_path: Path) -> Iterator[ModelWorld]:
    """With an agent that tells its tool calls."""
    world = ModelWorld(tmp_path / "world", ADAPTERS["acp"])
    under_git(world)
    yield world
    world.close()


def words(shown: bytes) -> str:
    """What a terminal shows, without its colours and lines."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).split())


def worktree_of(world: World) -> Path:
    return Path(world.records("worktree_set")[-1]["folder"])


def while_it_works(world: World, runner: subprocess.Popen[str] | Pty, act: Callable[[], None]) -> None:
    until(lambda: world.holding(1), "the agent works", 60)
    act()
    world.release(1)


def a_humans_morning(project: Path) -> str:
    """An edit, a new file, a commit, and a merge of another branch. The commit at its end."""
    git(project, "checkout", "-qb", "topic")
    (project / "topic.py").write_text("topic\n")
    git(project, "add", "topic.py")
    git(project, "commit", "-qm", "topic")
    git(project, "checkout", "-q", "-")
    (project / "mine.py").write_text("mine\n")
    git(project, "add", "mine.py")
    git(project, "commit", "-qm", "mine")
    git(project, "merge", "-q", "--no-edit", "topic")
    (project / "code.py").write_text("edited\n")
    (project / "new.py").write_text("new\n")
    (project / "staged.py").write_text("staged\n")
    git(project, "add", "staged.py")
    return git(project, "rev-parse", "HEAD").strip()


def assert_it_stands(project: Path, commit: str) -> None:
    assert git(project, "rev-parse", "HEAD").strip() == commit
    assert git(project, "status", "--porcelain", "--", ":!task", ":!docs") == " M code.py\nA  staged.py\n?? new.py\n"
    assert (project / "code.py").read_text() == "edited\n"
    assert (project / "new.py").read_text() == "new\n"
    assert (project / "topic.py").exists()


# Beside a human


def test_nothing_that_a_human_did_beside_research_is_undone(repository: World, on_terminal: Callable[..., Pty]) -> None:
    world = repository
    world.script(research(hold=True), plan(hold=True))
    terminal = on_terminal()
    commits: list[str] = []
    while_it_works(world, terminal, lambda: commits.append(a_humans_morning(world.project)))
    gate = words(terminal.expect(b"Quit marathon"))
    assert "5 files and 3 commits changed while research ran; they may be yours: code.py, mine.py, new.py" in gate
    assert "Tool calls of the agent wrote none of it; what its shell commands wrote is not known." in gate
    assert_it_stands(world.project, commits[0])
    terminal.send(b"\r")
    until(lambda: world.holding(2), "plan", 60)
    assert_it_stands(world.project, commits[0])
    assert "5 files and 3 commits changed while research ran" in world.prompt(2)
    assert "Plan may not write there." in world.prompt(2)
    assert "may be undone" in world.prompt(2)


def test_auto_approve_keeps_it_and_the_record_says_so(repository: World) -> None:
    world = repository
    world.script(research(hold=True), plan(), finish())
    runner = world.start("--auto-approve")
    commits: list[str] = []
    while_it_works(world, runner, lambda: commits.append(a_humans_morning(world.project)))
    shown = runner.communicate(timeout=60)[0]
    assert runner.returncode == 0, shown
    assert_it_stands(world.project, commits[0])
    assert "Not undone: 5 files and 3 commits changed while research ran" in shown
    (remark,) = world.records("remark")
    assert remark["text"].startswith("not undone: 5 files and 3 commits changed while research ran")
    assert [gate["reason"] for gate in world.records("gate_opened")] == ["review", "review"]


def test_a_human_undoes_one_file_of_several(repository: World, on_terminal: Callable[..., Pty]) -> None:
    """The agent of this world tells no tool calls, so nothing is ticked."""
    world = repository
    world.script(research(run="echo theirs > code.py; echo new > new.py; git add new.py"), plan(hold=True))
    terminal = on_terminal(PAGER="cat")
    assert b"[z]" in terminal.expect(b"Quit marathon")
    terminal.send(b"z")
    assert b"+theirs" in terminal.expect(b"Undo which files?")
    terminal.expect(b"new.py")
    terminal.send(b"\r")  # nothing is ticked
    terminal.expect(b"Nothing was undone.")
    assert (world.project / "code.py").read_text() == "theirs\n"
    terminal.expect(b"? shows the options")
    terminal.send(b"z")
    terminal.expect(b"Undo which files?")
    terminal.expect(b"new.py")
    terminal.send(b" \r")
    terminal.expect(b"Undone: code.py.")
    gate = terminal.expect(b"Quit marathon").decode()
    assert "1 file changed while research ran; it may be yours: new.py." in words(gate.encode())
    assert (world.project / "code.py").read_text() == "before\n"
    assert (world.project / "new.py").read_text() == "new\n"
    back = gate.split("put it back:")[1].splitlines()[1].strip()
    subprocess.run(back, shell=True, cwd=world.project, check=True)
    assert (world.project / "code.py").read_text() == "theirs\n"
    terminal.send(b"\r")
    until(lambda: world.holding(2), "plan", 60)
    assert "The human undid: code.py." in world.prompt(2)
    assert world.records("undone")[0]["files"] == ["code.py"]


def test_the_branch_moves_back_only_by_a_yes_of_its_own(repository: World, on_terminal: Callable[..., Pty]) -> None:
    world = repository
    world.script(research(run="echo theirs > code.py; git commit -qam theirs"))
    before = git(world.project, "rev-parse", "HEAD")
    terminal = on_terminal(PAGER="cat")
    assert b"1 file and 1 commit changed" in terminal.expect(b"Quit marathon")
    commit = git(world.project, "rev-parse", "HEAD")
    for answer, at in ((b"n", commit), (b"y", before)):
        terminal.send(b"z")
        if answer == b"n":
            terminal.expect(b"Undo which files?")
            terminal.expect(b"code.py")
            terminal.send(b" \r")
        terminal.expect(b"Move the branch back to")
        terminal.send(answer)
        terminal.expect(b"Undone: ")
        terminal.expect(b"Quit marathon")
        assert git(world.project, "rev-parse", "HEAD") == at
        assert (world.project / "code.py").read_text() == "before\n"
    assert git(world.project, "status", "--porcelain", "--", ":!task") == ""
    assert git(world.project, "for-each-ref", "--contains", commit.strip(), "--format=%(refname)").strip()


def test_what_the_agents_tools_wrote_is_named_and_ticked(acp: ModelWorld) -> None:
    work = Work(acp.task).phase("research.md", "# Found\n\nAll of it.\n")

    def script(request: Request) -> Turn:
        assert callable(work)
        (acp.project / "mine.py").write_text("the human's\n")
        turns = [Turn(tools=[write(acp.project / "code.py", "theirs\n")]), *work(request)]
        return turns[min(request.number, len(turns)) - 1]

    acp.plays(script)
    terminal = acp.terminal(PAGER="cat")
    try:
        gate = words(terminal.expect(b"Quit marathon"))
        assert "2 files changed while research ran; they may be yours: code.py, mine.py." in gate
        assert "Tool calls of the agent wrote code.py; what its shell commands wrote is not known." in gate
        terminal.send(b"z")
        terminal.expect(b"Undo which files?")
        terminal.expect(b"mine.py")
        terminal.send(b"\r")
        terminal.expect(b"Undone: code.py.")
        terminal.expect(b"Quit marathon")
        assert (acp.project / "code.py").read_text() == "before\n"
        assert (acp.project / "mine.py").read_text() == "the human's\n"
    finally:
        terminal.close()


@pytest.mark.parametrize("who", ["agent", "human"])
def test_only_the_agents_own_tool_calls_open_a_gate_where_no_review_follows(acp: ModelWorld, who: str) -> None:
    folder = acp.project / ".marathon" / "workflows" / "quiet"
    folder.mkdir(parents=True)
    (folder / "workflow.toml").write_text(LOOP)
    work = Work(acp.task)
    look, end = work.phase("o.md", "o\n", phase="look"), work.phase("result.md", "r\n", phase="work", state="completed")

    def script(request: Request) -> Turn:
        assert request.heading
        assert callable(look)
        assert callable(end)
        if request.heading[0] == "work":
            turns = list(end(request))
        else:
            (acp.project / "mine.py").write_text("the human's\n")
            own = [Turn(tools=[write(acp.project / "code.py", "theirs\n")])] if who == "agent" else []
            turns = [*own, *look(request)]
        return turns[min(request.number, len(turns)) - 1]

    acp.plays(script)
    args = ("--workflow", "quiet", "--trust")
    ran = acp.run(*args)
    gates = [gate["reason"] for gate in acp.records("gate_opened")]
    assert gates == (["writes"] if who == "agent" else []), ran.stdout
    if who == "agent":
        assert ran.returncode == 3
        assert acp.run(*args, "--auto-approve").returncode == 0, "it keeps, and says so"
        assert acp.records("remark")[-1]["text"].startswith("not undone: 2 files changed while look ran")
    assert (acp.project / "mine.py").read_text() == "the human's\n"


def test_a_shell_shows_it_and_undoes_files_by_name(repository: World) -> None:
    world = repository
    world.script(research(run="echo theirs > code.py; echo new > new.py"), plan())
    ran = world.run()
    assert "2 files changed while research ran; they may be yours: code.py, new.py." in ran.stdout
    assert "pi-marathon undo task" in ran.stdout
    shown = world.cli("undo", "task").stdout
    assert "+theirs" in shown
    assert "pi-marathon undo task FILE…" in shown
    assert world.cli("undo", "task", "code.py").returncode == 2, "without the code"
    assert world.cli("undo", "task", "other.py", "--code", world.code()).returncode == 2
    asked = world.cli("undo", "task", "new.py", "--code", world.code())
    assert asked.returncode == 0, asked.stderr
    assert world.cli("approve", "task").returncode == 0
    assert world.run().returncode == 3
    assert (world.project / "code.py").read_text() == "theirs\n"
    assert not (world.project / "new.py").exists()
    types = [record["type"] for record in world.journal()]
    assert types[types.index("undone") :][:2] == ["undone", "gate_answered"]


def test_a_file_that_the_human_changed_again_is_compared_anew(repository: World) -> None:
    world = repository
    world.script(research(run="echo theirs > code.py"), plan())
    world.run()
    (world.project / "code.py").write_text("theirs\nand mine\n")
    world.cli("undo", "task", "code.py", "--code", world.code())
    world.run()
    assert (world.project / "code.py").read_text() == "before\n"
    (back,) = world.records("undone")[0]["put_back"]
    subprocess.run(back, shell=True, cwd=world.project, check=True)
    assert (world.project / "code.py").read_text() == "theirs\nand mine\n", "the patch has all that was undone"


def test_a_session_whose_runner_was_killed_is_compared_and_nothing_is_undone(repository: World) -> None:
    world = repository
    world.script(research(run="echo changed > code.py; git commit -qam theirs", hold=True))
    runner = world.start()
    until(lambda: world.holding(1), "the agent works", 60)
    os.kill(runner.pid, signal.SIGKILL)
    runner.communicate(timeout=60)
    (world.project / "mine.py").write_text("since then\n")
    commit = git(world.project, "rev-parse", "HEAD")
    ran = world.run()
    assert ran.returncode == 3
    assert "2 files and 1 commit changed while research ran" in ran.stdout
    assert world.records("gate_opened")[-1]["reason"] == "review"
    assert (world.project / "code.py").read_text() == "changed\n"
    assert git(world.project, "rev-parse", "HEAD") == commit


def test_without_a_repository_the_gate_says_that_nothing_was_checked(world: World) -> None:
    world.script({"write": {"half.md": "h\n"}, "state": {"state": "running", "phase": "research"}}, research())
    ran = world.run()
    start, gate = ran.stdout.split("MARATHON PAUSED", 1)
    said = "Not checked: whether research wrote where it may not. This project is not a git repository."
    assert start.count(said) == 1
    assert gate.count(said) == 1


def test_none_is_only_the_output(repository: World) -> None:
    world = repository
    folder = world.project / ".marathon" / "workflows" / "look"
    folder.mkdir(parents=True)
    phase = '[[phases]]\nid = "look"\nname = "Look"\nbrief = "b"\noutput = "o.md"\ngate = true\nwrites = "none"\n'
    (folder / "workflow.toml").write_text(f'name = "Look"\n{phase}')
    world.script({"write": {"o.md": "o\n", "more.md": "m\n"}, "state": {"state": "paused", "phase": "look"}})
    ran = world.run("--workflow", "look", "--trust")
    assert ran.returncode == 3
    assert "1 file changed while look ran; it may be yours: task/more.md." in ran.stdout
    assert (world.task / "o.md").exists()
    assert (world.task / "more.md").exists()
    assert "write only `task/o.md` and `task/STATE.json`" in world.prompt(1)


# Other tasks


def test_a_sibling_that_starts_while_the_tree_is_taken_is_no_ones_foreign_write(repository: World) -> None:
    """A slow `git`: the other runner writes its STATE.json just before the tree is taken."""
    world = repository
    tasks = world.project / "docs/tasks"
    (tasks / "one").mkdir(parents=True)
    (tasks / "one" / "instructions.md").write_text("# One\n")
    bin = world.project.parent / "bin"
    bin.mkdir()
    other = tasks / "two"
    makes = f"mkdir -p {other}; echo '# Two' > {other}/instructions.md; echo '{{}}' > {other}/STATE.json"
    (bin / "git").write_text(
        f'#!/bin/sh\ncase "$*" in *"add --all"*) [ -e {world.agent}/prompt-1 ] && {{ {makes}; }};; esac\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    (bin / "git").chmod(0o755)
    world.script(research(), plan(), finish())
    ran = world.run("--task", "docs/tasks/one", "--auto-approve", PATH=f"{bin}:{world.env()['PATH']}")
    assert ran.returncode == 0, ran.stdout
    assert (other / "STATE.json").exists()
    assert "changed while" not in ran.stdout
    assert "although it may not" not in ran.stdout


def test_a_pool_in_one_folder_takes_no_sibling_for_a_foreign_write(tmp_path: Path) -> None:
    names = [f"task-{number}" for number in range(8)]
    side = Side(World(tmp_path / "world"), *names)
    side.sh("echo .env > .gitignore; git -c user.name=a -c user.email=b commit -qam 'tasks are seen'")
    side.type("run", *names, "--parallel", "4", "--auto-approve", *side.agent_args())
    for name in names:
        journal = (side.task(name) / ".marathon/journal.jsonl").read_text()
        records = [json.loads(line) for line in journal.splitlines()]
        writes = [each["writes"] for each in records if each["type"] == "session_ended" and each["writes"]]
        assert not [file for each in writes for file in each["files"] if file.startswith("docs/")]
        assert records[-1]["type"] == "finished"


def test_a_task_that_is_made_or_started_meanwhile_is_not_undone(repository: World) -> None:
    """Several runners start at once, and a human makes a task while research runs."""
    world = repository
    folder = world.project / "docs/tasks/one"
    folder.mkdir(parents=True)
    (folder / "instructions.md").write_text("# One\n")
    world.script(research(hold=True))
    runner = world.start("--task", "docs/tasks/one")
    until(lambda: world.holding(1), "the agent works", 60)
    made = world.cli("new", "Two", "--goal", "Do it.")
    assert made.returncode == 0, made.stderr
    world.release(1)
    shown = runner.communicate(timeout=60)[0]
    assert "although it may not" not in shown
    assert len(list(world.project.glob("docs/tasks/*-two/instructions.md"))) == 1


# In a worktree


def test_research_may_not_change_code_in_a_worktree_and_implement_may(repository: World) -> None:
    world, change = repository, "echo changed > code.py; echo new > new.py"
    world.script(research(run=change), plan(), finish(run=change))
    ran = world.run("--worktree")
    there = worktree_of(world)
    assert ran.returncode == 3
    kept = "task/.marathon/runs/001/writes/001.patch"
    said = f"research changed 2 files (code.py, new.py) although it may not. It was undone. A copy is kept as {kept}"
    assert said in ran.stdout.split("MARATHON PAUSED")[1]
    assert (there / "code.py").read_text() == "before\n"
    assert not (there / "new.py").exists()
    assert "+changed" in (world.project / kept).read_text()
    assert "In this phase write only in" in world.prompt(1)
    world.cli("approve", "task")
    assert "although it may not" not in world.run().stdout, "it was told at the gate before"
    world.cli("approve", "task")
    assert world.run().returncode == 0
    assert (there / "new.py").read_text() == "new\n"
    assert "In this phase write only" not in world.prompt(3)


def test_what_cannot_be_undone_is_a_gate_of_its_own(repository: World) -> None:
    world = repository
    world.script(research(run="git checkout -qb other; echo changed > code.py"), plan())
    ran = world.run("--auto-approve", "--worktree")
    assert ran.returncode == 3
    assert "Another branch is checked out." in ran.stdout
    assert world.records("gate_opened")[-1]["reason"] == "writes"
    world.cli("approve", "task")
    assert world.run().returncode == 3
    assert world.records("gate_opened")[-1]["reason"] == "review"


def test_a_human_puts_back_what_was_undone(repository: World, on_terminal: Callable[..., Pty]) -> None:
    world = repository
    world.script(research(run="echo mine > code.py; echo new > new.py"), plan(hold=True))
    terminal = on_terminal("--worktree")
    shown = terminal.expect(b"Quit marathon").decode()
    command = shown.split("put it back:")[1].splitlines()[1].strip()
    assert f"  {command}\n" in world.cli("status", "task").stdout
    for said in (b"Put back: code.py, new.py.", b"There already: code.py, new.py."):
        terminal.send(b"u")
        terminal.expect(said)
        terminal.expect(b"? shows the options")
    assert (worktree_of(world) / "code.py").read_text() == "mine\n"
    git(worktree_of(world), "checkout", "-q", "code.py")
    (worktree_of(world) / "new.py").unlink()
    subprocess.run(command, shell=True, cwd=world.project, check=True)
    assert (worktree_of(world) / "new.py").read_text() == "new\n"
    terminal.send(b"q")
    assert terminal.wait() == 3
    world.cli("approve", "task")
    assert command in world.cli("status", "task").stdout, "also after the gate was answered"
