"""A task directory: what is refused, what is kept, and whose words are new."""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from marathon.core.human_note import HumanNote
from marathon.core.records import HumanMark
from marathon.core.state import StateInvalid, TaskState
from marathon.errors import DiskFailed, TaskInvalid
from marathon.store.task import Task, create_task
from tests.store.tools import Other, full_after, mode_of
from tests.support.listing import listing
from tests.support.mortal import Killed, Life, living

NOW = datetime(2026, 2, 2, 14, 30, 0, tzinfo=UTC)
NOTHING = HumanMark()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "instructions.md").write_text("# Do it\n")
    return folder


@pytest.fixture
def task(folder: Path) -> Task:
    return Task.open(folder)


# Opening


def test_opening_changes_nothing(folder: Path) -> None:
    before = listing(folder)
    assert Task.open(folder).folder == folder
    assert listing(folder) == before


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda folder: (folder / "instructions.md").unlink(), "has no instructions.md"),
        (lambda folder: (folder / "instructions.md").write_text(" \n\t"), "instructions.md is empty"),
        (lambda folder: _replace(folder / "instructions.md", Path.mkdir), "instructions.md is not a file"),
        (lambda folder: _link(folder / "STATE.json", "instructions.md"), "STATE.json is a symlink"),
        (lambda folder: _link(folder / "STATE.json", "nowhere"), "STATE.json is a symlink"),
        (lambda folder: _link(folder / "human.md", "instructions.md"), "human.md is a symlink"),
        (lambda folder: _link(folder / "research.md", "/etc/hostname"), "research.md is a symlink out"),
        (lambda folder: _link(folder / "plan.md", "../elsewhere"), "plan.md is a symlink out"),
    ],
)
def test_what_cannot_be_worked_on_is_refused_by_name(folder: Path, spoil: object, named: str) -> None:
    assert callable(spoil)
    spoil(folder)
    before = listing(folder)
    with pytest.raises(TaskInvalid) as refused:
        Task.open(folder)
    assert named in str(refused.value)
    assert str(folder) in str(refused.value)
    assert refused.value.exit_code == 7
    assert listing(folder) == before


def _replace(path: Path, make: object) -> None:
    path.unlink()
    assert callable(make)
    make(path)


def _link(path: Path, target: str) -> None:
    path.symlink_to(target)


@pytest.mark.parametrize("name", ["nowhere", "a file", "x" * 5000, "nul\0", "loop"])
def test_what_is_no_directory_is_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "a file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    before = listing(tmp_path)
    for use in (Task.open, Task.look):
        with pytest.raises(TaskInvalid) as refused:
            use(tmp_path / name)
        assert name[:20].split("\0")[0] in str(refused.value)
    assert listing(tmp_path) == before


def test_a_link_within_the_task_and_a_task_behind_a_link_are_fine(tmp_path: Path, folder: Path) -> None:
    (folder / "notes.md").symlink_to("instructions.md")
    (tmp_path / "short").symlink_to(folder)
    assert Task.open(tmp_path / "short").folder == folder


def test_an_invalid_state_that_was_a_link_does_not_stand_in_the_way_of_the_next_start(folder: Path, task: Task) -> None:
    (folder / "STATE.json").symlink_to("/etc/hostname")
    assert task.set_state_aside(NOW) == "STATE.json.invalid-20260202-143000"
    Task.open(folder)


# STATE.json


def test_the_state_is_read_back_with_what_others_put_there(folder: Path, task: Task) -> None:
    assert task.read_state() is None
    (folder / "STATE.json").write_text(
        json.dumps({"state": "paused", "phase": "plan", "mine": {"a": [1]}, "note": "é"})
    )
    (folder / "STATE.json").chmod(0o664)
    state = task.read_state()
    assert state is not None
    task.write_state(state.written(NOW, state="running"))
    found = json.loads((folder / "STATE.json").read_text())
    assert (found["state"], found["mine"], found["note"]) == ("running", {"a": [1]}, "é")
    assert found["updatedAt"] == "2026-02-02T14:30:00Z"
    assert mode_of(folder / "STATE.json") == 0o664


def test_a_state_that_cannot_be_opened_for_a_moment_is_tried_again() -> None:
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        path = Path(top) / "STATE.json"
        path.write_text('{"state": "paused", "phase": "plan"}')
        path.chmod(0)
        heard, tell = os.pipe()

        def read() -> None:
            if os.geteuid() == 0:
                importlib.import_module("tenacity")  # while its file can be read
                os.setuid(65534)  # root may read everything
            tries: list[object] = []

            def count(event: str, args: tuple[object, ...]) -> None:
                if event == "open" and str(args[0]) == str(path):
                    tries.append(args)
                    if len(tries) == 2:
                        os.write(tell, b"again")

            sys.addaudithook(count)
            state = Task(Path(top)).read_state()
            assert state is not None
            assert (state.phase, len(tries) >= 2) == ("plan", True)

        with Other(read) as other:
            os.close(tell)
            os.read(heard, 5)  # it was refused once, and tries again; or it has given up
            path.chmod(0o644)
            assert other.wait() == 0
        os.close(heard)


def test_a_full_disk_leaves_the_old_state(folder: Path, task: Task) -> None:
    task.write_state(TaskState(state="running", phase="plan"))
    before = (folder / "STATE.json").read_bytes()
    with full_after(50), pytest.raises(DiskFailed) as failed:
        task.write_state(TaskState(state="paused", phase="plan", note="x" * 100))
    assert "STATE.json" in str(failed.value)
    assert (folder / "STATE.json").read_bytes() == before


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.symlink_to("instructions.md"), "it is a symlink"),
        (lambda path: path.symlink_to("nowhere"), "it is a symlink"),
        (lambda path: path.mkdir(), "not a regular file"),
        (lambda path: os.mkfifo(path), "not a regular file"),
        (lambda path: path.write_bytes(b" " * (1024 * 1024 + 1)), "larger than"),
    ],
)
def test_what_is_no_state_is_said_and_not_followed(folder: Path, task: Task, make: object, reason: str) -> None:
    assert callable(make)
    make(folder / "STATE.json")
    with pytest.raises(StateInvalid, match=reason):
        task.read_state()


def test_every_invalid_state_is_kept_under_a_name_of_its_own(folder: Path, task: Task) -> None:
    assert task.set_state_aside(NOW) is None
    for number in range(1, 4):
        (folder / "STATE.json").write_text(f"{{ {number}")
        task.set_state_aside(NOW)
    kept = {path.name: path.read_text() for path in folder.glob("STATE.json*")}
    stamp = "STATE.json.invalid-20260202-143000"
    assert kept == {stamp: "{ 1", f"{stamp}-2": "{ 2", f"{stamp}-3": "{ 3"}
    (folder / "STATE.json").mkdir()
    assert task.set_state_aside(NOW) == f"{stamp}-4"


def test_what_a_killed_runner_left_beside_it_is_removed_and_nothing_else(folder: Path, task: Task) -> None:
    with pytest.raises(Killed), living(Life(folder, 2)):
        task.write_state(TaskState(state="running", phase="plan"))
    assert len(list(folder.glob(".STATE.json.*.tmp"))) == 1
    for name in (".STATE.json.mine.tmp", ".other.tmp", "STATE.json.tmp"):
        (folder / name).write_text("")
    task.remove_leftovers()
    assert sorted(path.name for path in folder.glob("*tmp")) == [".STATE.json.mine.tmp", ".other.tmp", "STATE.json.tmp"]


# human.md


def test_what_was_added_since_is_new_exactly_once(folder: Path, task: Task) -> None:
    human = folder / "human.md"
    assert task.new_from_human(NOTHING)[0] == ""
    human.write_text("first\n")
    new, mark = task.new_from_human(NOTHING)
    assert new == "first\n"
    assert task.new_from_human(mark) == ("", mark)
    with human.open("a") as file:
        file.write("by hand, é\n")
    new, later = task.new_from_human(mark)
    assert new == "by hand, é\n"
    assert task.new_from_human(later)[0] == ""
    assert task.new_from_human(mark)[0] == "by hand, é\n"  # not delivered: it is still owed


@pytest.mark.parametrize(
    "edited", ["First, changed\nsecond\n", "second\n", "firs", "fi", "zero\nfirst\nsecond\n", "first\nSecond\n"]
)
def test_an_edit_of_what_was_known_brings_everything_again(folder: Path, task: Task, edited: str) -> None:
    (folder / "human.md").write_text("first\nsecond\n")
    _, mark = task.new_from_human(NOTHING)
    (folder / "human.md").write_text(edited)
    new, mark = task.new_from_human(mark)
    assert new == edited
    assert task.new_from_human(mark)[0] == ""


def test_an_emptied_or_removed_file_brings_nothing_and_later_words_are_new(folder: Path, task: Task) -> None:
    (folder / "human.md").write_text("first\n")
    _, mark = task.new_from_human(NOTHING)
    (folder / "human.md").unlink()
    new, emptied = task.new_from_human(mark)
    assert new == ""
    (folder / "human.md").write_text("first\n")
    assert task.new_from_human(emptied)[0] == "first\n"


def test_bytes_that_are_no_text_do_not_stand_in_the_way(folder: Path, task: Task) -> None:
    (folder / "human.md").write_bytes(b"caf\xe9\n")
    new, mark = task.new_from_human(NOTHING)
    assert new == "caf\ufffd\n"
    task.append_human(HumanNote("Heading", "more"))
    assert "more" in task.new_from_human(mark)[0]


def test_feedback_is_added_under_its_heading(folder: Path, task: Task) -> None:
    task.append_human(HumanNote("research phase", "  check auth\nand limits\n\n"))
    assert (folder / "human.md").read_text() == "# Human Feedback\n\n## research phase\n\ncheck auth\nand limits\n"
    task.append_human(HumanNote("plan phase", "simpler"))
    assert (folder / "human.md").read_text().endswith("and limits\n\n## plan phase\n\nsimpler\n")


@pytest.mark.parametrize("before", ["mine", "mine\n", "\n", "mine\r\n"])
def test_what_a_human_wrote_by_hand_stays_before_it(folder: Path, task: Task, before: str) -> None:
    (folder / "human.md").write_bytes(before.encode())
    task.append_human(HumanNote("research phase", "check auth"))
    text = (folder / "human.md").read_bytes().decode()
    assert text.startswith(before)
    assert text.endswith("\n\n## research phase\n\ncheck auth\n")


def test_the_same_words_are_added_once_however_often_it_is_tried(folder: Path, task: Task) -> None:
    (folder / "human.md").write_text("an old remark that is longer than what comes\n")
    task.append_human(HumanNote("research phase · 14:30:00", "check auth"))
    task.append_human(HumanNote("research phase · 14:30:00", "check auth"))
    assert (folder / "human.md").read_text().count("check auth") == 1
    # Also when the human shortened the text before it in between.
    (folder / "human.md").write_text((folder / "human.md").read_text().replace("an old remark that is ", ""))
    task.append_human(HumanNote("research phase · 14:30:00", "check auth"))
    assert (folder / "human.md").read_text().count("check auth") == 1
    task.append_human(HumanNote("research phase · 14:30:07", "check auth"))
    assert (folder / "human.md").read_text().count("check auth") == 2


def test_half_a_block_is_followed_by_the_whole_one(folder: Path, task: Task) -> None:
    (folder / "human.md").write_text("# Human Feedback\n\n## research phase\n\ncheck au")
    task.append_human(HumanNote("research phase", "check auth"))
    assert (folder / "human.md").read_text().endswith("check au\n\n## research phase\n\ncheck auth\n")


def test_a_full_disk_adds_nothing(folder: Path, task: Task) -> None:
    (folder / "human.md").write_text("mine\n")
    with full_after(20), pytest.raises(DiskFailed) as failed:
        task.append_human(HumanNote("research phase", "check auth"))
    assert "human.md" in str(failed.value)
    assert (folder / "human.md").read_text() == "mine\n"


# The agent's artifacts and the runner's records


def test_an_output_counts_only_if_it_lies_in_the_task(folder: Path, task: Task) -> None:
    assert task.output_mark(None) is None
    assert task.output_mark("research.md") is None
    (folder / "research.md").symlink_to("/etc/hostname")
    assert task.output_mark("research.md") is None
    (folder / "plan.md").write_text("plan\n")
    assert task.output_mark("plan.md") is not None


def test_no_document_of_the_task_is_read_from_elsewhere(folder: Path, task: Task) -> None:
    """Each of them reaches a prompt, the page or the record."""
    ours = folder / "work.md"
    ours.write_text("- [x] ours\n")
    other = folder.parent / "secret.md"
    other.write_text("- [x] of others\n")
    for name in ("plan.md", "reflect.md", "checks.toml"):
        (folder / name).symlink_to(other)
        assert (task.document(name), task.digest(name)) == (None, "")
        assert (task.working_memory(name), task.steps(name)) == ("", None)
    assert (task.reflection(), task.criteria_texts()[0]) == ("", None)
    (folder / "task.md").symlink_to(ours)
    assert (task.document("task.md"), task.working_memory("task.md")) == (b"- [x] ours\n", "- [x] ours\n")
    assert task.digest("task.md") == task.digest("work.md")


def test_the_artifacts_are_everything_but_the_runner_s_own(folder: Path, task: Task) -> None:
    before = task.artifacts()
    task.write_state(TaskState(state="running", phase="plan"))
    (folder / "STATE.json").rename(folder / "STATE.json.invalid-1")
    (folder / ".marathon").symlink_to("x")
    (folder / ".gitignore").write_text("x")
    assert task.artifacts() == before
    (folder / "work.md").write_text("x")
    assert task.artifacts() == before | {"work.md"}


def test_rounds_are_kept_for_comparison(folder: Path, task: Task) -> None:
    task.save_round(1, "plan", 1, "plan.md")
    assert not task.runs.round_path(1, "plan", 1).exists()
    for number in (1, 2):
        (folder / "plan.md").write_text(f"round {number}\n")
        task.save_round(1, "plan", number, "plan.md")
    assert [task.runs.round_path(1, "plan", number).read_text() for number in (1, 2)] == ["round 1\n", "round 2\n"]


def test_the_sessions_that_have_no_file_are_known(task: Task) -> None:
    sessions = [{"run": run, "iteration": number} for run, number in ((1, 1), (1, 999), (1, 1000), (2, 1), (2, 2))]
    assert task.runs.unfiled([]) == []
    assert task.runs.unfiled(sessions) == sessions
    task.runs.make_room(1, 1, 0)
    task.runs.write_iteration(sessions[2])
    assert task.runs.unfiled(sessions) == [*sessions[:2], *sessions[3:]]
    assert task.runs.unfiled(sessions[2:3]) == []
    assert json.loads((task.runs.folder(1) / "iterations" / "1000.json").read_text()) == sessions[2]
    Path(task.runs.session_path(1, "iterations", 1000, "json")).write_bytes(b'{"run": 1, "it')
    assert task.runs.unfiled(sessions[2:3]) == sessions[2:3], "a file that a power cut left torn is written again"


def test_only_so_many_event_logs_stay(task: Task) -> None:
    for number in range(1, 6):
        task.runs.make_room(1, number, 0)
        Path(task.runs.session_path(1, "events", number, "jsonl")).write_text("")
    for number in range(1, 6):
        task.runs.make_room(1, number, 2)
    assert sorted(os.listdir(task.runs.folder(1) / "events")) == ["004.jsonl", "005.jsonl"]


# Making one


def test_a_new_task_never_replaces_one(tmp_path: Path) -> None:
    folder = tmp_path / "docs" / "tasks" / "new"
    create_task(folder, [("instructions.md", b"do it\n")])
    assert (folder / "instructions.md").read_bytes() == b"do it\n"
    with pytest.raises(DiskFailed, match="new"):
        create_task(folder, [("instructions.md", b"other\n")])
    assert (folder / "instructions.md").read_bytes() == b"do it\n"


def test_killed_while_words_are_added_they_are_there_once_after_the_next_try(folder: Path, task: Task) -> None:
    for changes in range(1, 10):
        try:
            with living(Life(folder, changes)):
                task.append_human(HumanNote("research phase", "check auth"))
        except Killed:
            task.append_human(HumanNote("research phase", "check auth"))
        assert (folder / "human.md").read_text() == "# Human Feedback\n\n## research phase\n\ncheck auth\n"
