"""An agent leaves huge files, files that block their reader, and a repository that fetches. No one waits for ever."""

from __future__ import annotations

import resource
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.world import World, as_human, finish, plan, research

HUGE = 40 * 2**30
MEMORY = 2 * 2**30  # a runner that reads such a file fails at once instead of filling the machine


def run_with_little_memory(world: World, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        world.argv(*world.task_args(*args)),
        cwd=world.project,
        env=world.env(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )


def grown(name: str) -> str:
    """The shell command of an agent that makes a file huge."""
    return f"truncate -s {HUGE} task/{name}"


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("research.md", 3, "Phase: research"),
        ("human.md", 3, "Phase: research"),
        ("instructions.md", 3, "Phase: research"),
        ("plan.md", 3, "Phase: research"),
    ],
)
def test_a_huge_file_leads_to_the_gate(world: World, name: str, code: int, said: str) -> None:
    world.script(research(run=grown(name)))
    ran = run_with_little_memory(world)
    assert (ran.returncode, "went wrong inside" in ran.stderr) == (code, False)
    assert said in ran.stdout


def test_a_round_of_a_huge_document_is_kept_as_far_as_it_can_be_read(world: World) -> None:
    world.script(research(run=grown("research.md")))
    run_with_little_memory(world)
    (kept,) = (world.task / ".marathon").rglob("research-1.md")
    data = kept.read_bytes()
    assert data.startswith(b"findings 1\n")
    assert data.endswith(b"[Cut here by pi-marathon. The document has 42.9 GB.]\n")
    assert len(data) < 20 * 2**20


def test_a_huge_state_is_set_aside_and_the_agent_is_told(world: World) -> None:
    world.script({"write": {"research.md": "found\n"}, "run": grown("STATE.json")}, research())
    ran = run_with_little_memory(world)
    assert ran.returncode == 3
    assert "STATE.json was not valid: it is larger than" in ran.stdout
    assert world.sessions() == 2


@pytest.mark.parametrize("name", ["human.md", "instructions.md"])
def test_a_start_with_a_huge_file_is_refused_by_name_with_the_limit(world: World, name: str) -> None:
    world.script(research(), plan())
    world.run()
    with (world.task / name).open("ab") as file:
        file.truncate(HUGE)
    world.cli("approve", "task")
    ran = run_with_little_memory(world)
    assert ran.returncode == 7
    assert f"task/{name} has 42.9 GB" in ran.stderr
    assert "at most" in ran.stderr
    assert world.sessions() == 1


@pytest.mark.parametrize("command", [("approve", "task", "-m", "-"), ("tell", "task", "-")])
def test_a_text_that_is_too_long_is_refused_with_the_limit_and_a_long_one_arrives_whole(
    world: World, command: tuple[str, ...]
) -> None:
    world.script(research(), plan())
    world.run()

    def send(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            world.argv(*as_human(command, world.project, world.home)),
            cwd=world.project,
            env=world.env(),
            input=text,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    refused = send("x" * 5_000_000)
    assert refused.returncode == 2
    assert "more than 1,000,000 characters; nothing was recorded" in refused.stderr
    assert not list((world.task / ".marathon" / "inbox").glob("*"))
    whole = "words \u0416\U0001f600 " * 60_000
    assert send(whole).returncode == 0
    if command[0] == "tell":
        world.cli("approve", "task")
    assert world.run().returncode == 3
    assert whole.strip() in world.prompt(2)


def test_a_feedback_for_a_restart_has_the_same_limit(world: World) -> None:
    world.script(research())
    world.run()
    refused = subprocess.run(
        world.argv(*world.task_args("-h", "-")),
        cwd=world.project,
        env=world.env(),
        input="x" * 5_000_000,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert refused.returncode == 2
    assert "more than 1,000,000 characters" in refused.stderr


def git(folder: Path, *args: str) -> None:
    who = ("-c", "user.name=Someone", "-c", "user.email=someone@example.org")
    subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True)


def test_a_gitignore_that_blocks_its_reader_does_not_block_the_runner(world: World) -> None:
    git(world.project, "init", "-q")
    world.script(research(run="rm -f .gitignore; mkfifo .gitignore; mkdir -p sub; mkfifo sub/.gitignore"))
    began = time.monotonic()
    ran = world.run()
    assert ran.returncode == 3
    assert time.monotonic() - began < 15
    assert world.records("session_ended")[0]["changed"] is True


def test_and_costs_seconds_once_and_not_for_each_session(world: World) -> None:
    git(world.project, "init", "-q")
    world.script(research(run="rm -f .gitignore; mkdir -p sub; mkfifo sub/.gitignore"), plan(), finish())
    began = time.monotonic()
    ran = world.run("--auto-approve")
    assert ran.returncode == 0, ran.stderr
    assert time.monotonic() - began < 12
    assert len(world.records("session_ended")) == 3


def test_our_own_git_never_fetches(world: World, tmp_path: Path) -> None:
    """A partial clone without the blob of its .gitignore, whose settings name a program that would send it."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "-q")
    (origin / ".gitignore").write_text("*.log\n")
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "first")
    git(origin, "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{origin}", "clone")
    git(clone, "read-tree", "HEAD")
    (clone / ".git").rename(world.project / ".git")
    witness = tmp_path / "witness"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\ntouch {witness}\nexec git-upload-pack "$@"\n')
    program.chmod(0o755)
    git(world.project, "update-index", "--skip-worktree", ".gitignore")
    arm = f"git config remote.origin.uploadpack {program}; git config protocol.file.allow always"
    world.script(research(run=arm), plan(), finish())
    assert world.run().returncode == 3
    assert not witness.exists()
    # The trap works: git itself walks into it.
    subprocess.run(["git", "ls-files", "-o", "--exclude-standard"], cwd=world.project, capture_output=True, check=False)
    assert witness.exists()
