"""Workflow definitions: the nearest wins, and one that cannot be used is refused by name while the others load."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from marathon.store.definitions import MAX_BYTES, Library, load_workflows

ONE_PHASE = 'name = "{name}"\n[[phases]]\nid = "{id}"\nname = "Phase"\nbrief = "Do it."\n'


class Shelf:
    """A project and a user with workflows of their own."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.config = folder / "config"
        self.project.mkdir()

    def write(self, source: str, key: str, text: str) -> Path:
        root = self.project / ".marathon" if source == "project" else self.config / "pi-marathon"
        folder = root / "workflows" / key
        folder.mkdir(parents=True)
        (folder / "workflow.toml").write_text(text)
        return folder

    def phases(self, key: str, id: str, name: str = "Name", source: str = "project") -> Path:
        return self.write(source, key, ONE_PHASE.format(name=name, id=id))

    def load(self) -> Library:
        return load_workflows(self.project)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Shelf(tmp_path)


def test_the_built_in_workflow_is_always_there(shelf: Shelf) -> None:
    library = shelf.load()
    assert [getattr(phase, "id", "") for phase in library.workflows["rpi"].phases] == ["research", "plan", "implement"]
    assert library.refused == {}
    assert library.sources == {"fix": "built-in", "loop": "built-in", "rpi": "built-in"}


def test_the_project_wins_over_the_user_and_the_user_over_the_built_in(shelf: Shelf) -> None:
    shelf.phases("rpi", "user-rpi", source="user")
    shelf.phases("mine", "user-mine", source="user")
    shelf.phases("mine", "project-mine")
    library = shelf.load()
    assert getattr(library.workflows["rpi"].phases[0], "id", "") == "user-rpi"
    assert getattr(library.workflows["mine"].phases[0], "id", "") == "project-mine"
    assert library.sources == {"fix": "built-in", "loop": "built-in", "rpi": "user", "mine": "project"}


def test_a_refused_one_hides_the_one_below_it_rather_than_quietly_using_it(shelf: Shelf) -> None:
    shelf.phases("mine", "user-mine", source="user")
    folder = shelf.write("project", "mine", "name =")
    library = shelf.load()
    assert "mine" not in library.workflows
    assert str(folder / "workflow.toml") in library.refused["mine"]


REFERS = 'name = "N"\n[[phases]]\nworkflow = "{other}"\n'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "name"),
        ("name = ", "Invalid value"),
        ('name = "N"\nphases = []', "phases"),
        ('name = "N"\nphases = 3', "phases"),
        (ONE_PHASE.format(name="N", id="x") + 'color = "red"', "color"),
        (ONE_PHASE.format(name="N", id="done"), "reserved"),
        (ONE_PHASE.format(name="N", id="../x"), "phases.0.id"),
        (ONE_PHASE.format(name="N", id="x") * 1 + ONE_PHASE.format(name="N", id="x").split("\n", 1)[1], "twice"),
        (ONE_PHASE.format(name="N", id="x") + 'output = "STATE.json"', "reserved"),
        (ONE_PHASE.format(name="N", id="x") + 'output = "../x"', "output"),
        (ONE_PHASE.format(name="N\\u001b]0;x", id="x"), "control characters"),
        (REFERS.format(other="nobody"), "not there"),
        (REFERS.format(other="bad"), "refers to itself"),
    ],
)
def test_a_bad_one_is_refused_with_its_reason_and_the_others_load(shelf: Shelf, text: str, reason: str) -> None:
    shelf.write("project", "bad", text)
    shelf.write("project", "follower", REFERS.format(other="bad"))
    shelf.phases("good", "x")
    library = shelf.load()
    assert sorted(library.workflows) == ["fix", "good", "loop", "rpi"]
    assert reason in library.refused["bad"]
    assert "'bad', which is refused" in library.refused["follower"]


@pytest.mark.parametrize(
    "data", [b"\xff\xfe", b"\0", b"#" * (MAX_BYTES + 1), b"a = " + b"[" * 5000], ids=["binary", "NUL", "huge", "deep"]
)
def test_what_is_no_toml_is_refused(shelf: Shelf, data: bytes) -> None:
    (shelf.write("project", "bad", "") / "workflow.toml").write_bytes(data)
    library = shelf.load()
    assert sorted(library.workflows) == ["fix", "loop", "rpi"]
    assert list(library.refused) == ["bad"]


def test_a_folder_whose_name_is_no_key_is_refused(shelf: Shelf) -> None:
    for name in ("Bad Name", "-rf", "..x"):
        shelf.phases(name, "x")
    assert sorted(shelf.load().refused) == ["-rf", "..x", "Bad Name"]
    assert sorted(shelf.load().workflows) == ["fix", "loop", "rpi"]


def test_a_link_out_of_the_workflows_folder_is_refused(tmp_path: Path, shelf: Shelf) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "workflow.toml").write_text(ONE_PHASE.format(name="N", id="x"))
    folder = shelf.phases("file", "x")
    (folder / "workflow.toml").unlink()
    (folder / "workflow.toml").symlink_to(outside / "workflow.toml")
    (folder.parent / "folder").symlink_to(outside)
    refused = shelf.load().refused
    assert sorted(refused) == ["file", "folder"]
    assert all("link out of the workflows folder" in reason for reason in refused.values())


def with_brief(name: str) -> str:
    return f'name = "N"\n[[phases]]\nid = "x"\nname = "X"\nbrief_file = "{name}"\n'


def test_a_brief_may_lie_in_a_file_beside_it(shelf: Shelf) -> None:
    folder = shelf.write("project", "mine", with_brief("briefs/x.md"))
    (folder / "briefs").mkdir()
    (folder / "briefs" / "x.md").write_text("Do it, é.\n")
    assert getattr(shelf.load().workflows["mine"].phases[0], "brief", "") == "Do it, é.\n"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../../../secret", "outside"),
        ("/etc/hostname", "outside"),
        ("link.md", "outside"),
        ("a\\u0000b", "outside"),
        ("none.md", "cannot be read"),
        ("folder", "cannot be read"),
        ("binary.md", "cannot be read"),
        ("loop.md", "cannot be read"),
    ],
)
def test_a_brief_outside_of_it_or_unreadable_is_refused(shelf: Shelf, name: str, reason: str) -> None:
    folder = shelf.write("project", "mine", with_brief(name))
    (shelf.project / "secret").write_text("secret")
    (folder / "link.md").symlink_to(shelf.project / "secret")
    (folder / "loop.md").symlink_to("loop.md")
    (folder / "folder").mkdir()
    (folder / "binary.md").write_bytes(b"\xff\xfe")
    library = shelf.load()
    assert sorted(library.workflows) == ["fix", "loop", "rpi"]
    assert reason in library.refused["mine"]
    assert "secret" not in library.refused["mine"].replace(name, "")


def test_looking_for_workflows_changes_nothing_and_needs_no_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    library = load_workflows(tmp_path / "none")
    assert sorted(library.workflows) == ["fix", "loop", "rpi"]
    assert os.listdir(tmp_path) == []
