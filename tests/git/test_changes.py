"""What a session changed, seen in real folders and real repositories."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from marathon.git.changes import Changes, changes_since
from marathon.store.task import Task

LONG_AGO = 1_000_000_000


@pytest.fixture(params=["plain", "git", "below git"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with two files and a task, all of long ago."""
    folder = tmp_path / "project" / ("part" if request.param == "below git" else ".")
    (folder / "src").mkdir(parents=True)
    (folder / "task" / ".marathon").mkdir(parents=True)
    for name in ("README.md", "src/code.py", "task/plan.md", "task/STATE.json"):
        (folder / name).write_text(f"{name}\n")
    if request.param != "plain":
        git(tmp_path / "project", "init", "-q")
        git(tmp_path / "project", "add", "-A")
        git(tmp_path / "project", "commit", "-qm", "all")
    age(tmp_path)
    return folder


def git(folder: Path, *args: str) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=e")
    subprocess.run(["git", "-C", folder, *who, *args], check=True, capture_output=True)


def age(top: Path) -> None:
    for folder, folders, names in os.walk(top):
        for name in (*folders, *names, "."):
            os.utime(os.path.join(folder, name), (LONG_AGO, LONG_AGO), follow_symlinks=False)
    time.sleep(0.03)  # that was a change too, and it has to be older than any that is looked for


def changes(project: Path, act: Callable[[], object]) -> Changes:
    began = time.time()
    act()
    task = project.resolve() / "task"
    return changes_since(project.resolve(), began, task, Task(task).artifacts() if task.exists() else ())


def names(found: Changes) -> list[str]:
    return [name for name, _ in found.files]


def test_nothing_changed(project: Path) -> None:
    assert changes(project, lambda: None) == Changes(moved=False)


def test_a_file_that_was_written_is_named_by_its_contents(project: Path) -> None:
    first = changes(project, lambda: (project / "src" / "code.py").write_text("new\n"))
    again = changes(project, lambda: (project / "src" / "code.py").write_text("new\n"))
    other = changes(project, lambda: (project / "src" / "code.py").write_text("newer\n"))
    assert names(first) == ["src/code.py"]
    assert first.files == again.files != other.files


def test_a_new_file_a_name_with_a_line_break_and_one_that_is_no_text(project: Path) -> None:
    odd = os.fsdecode(b"a\nb \xff")
    found = changes(project, lambda: [(project / name).write_bytes(b"\0\xff") for name in ("new", odd)])
    assert names(found) == ["a\nb �", "new"]


def test_of_the_task_all_but_the_mailbox_and_the_runner_s_own(project: Path) -> None:
    ours = ("STATE.json", "STATE.json.invalid-1", ".STATE.json.0123456789ab.tmp", ".nfs0001", ".marathon/journal.jsonl")

    def work() -> None:
        for name in ("work.md", ".notes.md", "STATE.jsonl", *ours):
            (project / "task" / name).write_text("new\n")

    assert names(changes(project, work)) == ["task/.notes.md", "task/STATE.jsonl", "task/work.md"]


def test_a_removed_file_moves_the_project(project: Path) -> None:
    found = changes(project, (project / "README.md").unlink)
    assert found.moved
    assert not found.files


def test_a_huge_file_a_link_and_a_pipe_are_not_read(project: Path) -> None:
    def work() -> None:
        with (project / "huge").open("wb") as file:
            file.truncate(2 << 20)
        (project / "link").symlink_to("README.md")
        os.mkfifo(project / "pipe")

    found = changes(project, work)
    assert found.moved
    assert not found.files


def test_what_we_and_pi_note_in_a_home_folder_is_no_change(project: Path) -> None:
    made = (".pi/marathon-states/a.json", ".pi/agent/sessions/b.jsonl", ".aider.tags.cache.v4/cache.db")
    notes = [project / name for name in made]
    skill = project / ".pi" / "agent" / "skills" / "mine.md"
    for path in (*notes, skill):
        path.parent.mkdir(parents=True)
    age(project)
    assert changes(project, lambda: [path.write_text("new\n") for path in notes]) == Changes(moved=False)
    assert names(changes(project, lambda: skill.write_text("new\n"))) == [".pi/agent/skills/mine.md"]


@pytest.mark.parametrize("repository", [True, False])
def test_but_a_project_among_such_notes_has_changes_too(tmp_path: Path, repository: bool) -> None:
    project = tmp_path / ".pi" / "agent" / "sessions" / "odd"
    (project / "src").mkdir(parents=True)
    if repository:
        git(project, "init", "-q")
    age(tmp_path)
    assert names(changes(project, lambda: (project / "src" / "a.ts").write_text("new\n"))) == ["src/a.ts"]


@pytest.mark.parametrize("act", ["mv ../old task/work.md", "cp -p ../old task/work.md", ": >task/work.md"])
def test_an_artifact_is_changed_however_that_was_done(project: Path, act: str) -> None:
    (project / "task" / "work.md").write_text("one\n")
    (project.parent / "old").write_text("two\n")
    age(project.parent)
    found = changes(project, lambda: subprocess.run(["sh", "-c", act], cwd=project, check=True))
    assert names(found) == ["task/work.md"]


def test_an_artifact_too_large_to_compare_counts_as_changed(project: Path) -> None:
    work = project / "task" / "work.md"
    work.write_bytes(b"x" * (1024 * 1024 + 1))
    age(project)
    assert changes(project, lambda: None) == Changes(moved=False)
    assert changes(project, lambda: work.touch()) == Changes(moved=True)


def test_someone_else_may_make_and_remove_files_meanwhile(project: Path) -> None:
    """As a build in another shell does; every try is a race, and one in a hundred hit the moment."""
    busy = "while :; do for n in 1 2 3 4; do mkdir d$n; : >d$n/f; : >g$n; : >task/h$n; done; rm -rf d* g* task/h*; done"
    other = subprocess.Popen(["sh", "-c", busy], cwd=project)
    try:
        for _ in range(300):
            assert changes(project, lambda: None).moved in (True, False)
            assert "STATE.json" not in Task(project / "task").artifacts()
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize("project", ["git", "below git"], indirect=True)
def test_a_commit_moves_the_project_though_no_file_is_newer(project: Path) -> None:
    assert changes(project, lambda: git(project, "commit", "-q", "--allow-empty", "-m", "more")).moved


@pytest.mark.parametrize("project", ["below git"], indirect=True)
def test_a_repository_made_inside_another_is_the_one_that_counts_from_then_on(project: Path) -> None:
    assert changes(project, lambda: None) == Changes(moved=False)
    git(project, "init", "-q")
    age(project)
    assert names(changes(project, lambda: (project / "src" / "code.py").write_text("new\n"))) == ["src/code.py"]
    assert changes(project, lambda: git(project, "commit", "-q", "--allow-empty", "-m", "first")).moved


@pytest.mark.parametrize("project", ["git", "below git"], indirect=True)
def test_what_git_ignores_is_no_change(project: Path) -> None:
    (project / ".gitignore").write_text("*.log\n")
    age(project)
    assert names(changes(project, lambda: (project / "out.log").write_text("noise\n"))) == []


@pytest.mark.parametrize("project", ["plain"], indirect=True)
def test_where_there_is_no_git_the_usual_litter_is_no_change(project: Path) -> None:
    (project / "node_modules").mkdir()
    age(project)
    assert not changes(project, lambda: (project / "node_modules" / "x.js").write_text("")).files


@pytest.mark.parametrize("project", ["plain"], indirect=True)
def test_a_task_beside_the_project_is_named_from_there(project: Path, tmp_path: Path) -> None:
    task = tmp_path / "elsewhere"
    task.mkdir()
    began = time.time()
    (task / "research.md").write_text("found\n")
    found = changes_since(project.resolve(), began, task, Task(task).artifacts())
    assert names(found) == ["../elsewhere/research.md"]
