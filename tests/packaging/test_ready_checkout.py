"""bin/pi-marathon where .venv is there already: started from anywhere, moved, with new pins, or not ours."""

from pathlib import Path

import pytest

from tests.packaging.checkouts import copy_checkout, quick_checkout, start


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for these tests, each of which leaves it ready."""
    return quick_checkout(tmp_path_factory.mktemp("ready") / "checkout")


def test_a_ready_checkout_starts_without_a_word(checkout: Path, tmp_path: Path) -> None:
    done = start(checkout / "bin" / "pi-marathon", "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "pi-marathon" in done.stdout


def test_help_of_a_command_that_needs_more_packages_installs_none(checkout: Path, tmp_path: Path) -> None:
    for command in ("mcp", "web", "review"):
        done = start(checkout / "bin" / "pi-marathon", command, "--help", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"pi-marathon {command}" in done.stdout
    assert "up to date" in start(checkout / "bin" / "pi-marathon", "mcp", cwd=tmp_path).stderr


def test_symlinks_from_elsewhere_and_a_moved_checkout(checkout: Path, tmp_path: Path) -> None:
    moved = checkout.rename(tmp_path / "moved away")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "first").symlink_to("../moved away/bin/pi-marathon")
    (bin_folder / "second").symlink_to(bin_folder / "first")
    for command in (bin_folder / "first", bin_folder / "second", moved / ".venv" / "bin" / "pi-marathon"):
        done = start(command, "--help", cwd=bin_folder)
        assert (done.returncode, done.stderr) == (0, ""), command
    moved.rename(checkout)


def test_files_of_the_users_project_are_not_imported(checkout: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name in ("marathon", "click", "json"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text("raise SystemExit('imported from the project')\n")
    done = start(checkout / "bin" / "pi-marathon", "--help", cwd=project)
    assert (done.returncode, done.stderr) == (0, "")


def test_changed_pins_are_installed_once(checkout: Path, tmp_path: Path) -> None:
    with (checkout / "requirements.txt").open("a") as pins:
        pins.write("# another line\n")
    first = start(checkout / "bin" / "pi-marathon", "--help", cwd=tmp_path)
    assert (first.returncode, first.stderr.count("\n")) == (0, 1)
    assert "up to date" in first.stderr
    assert start(checkout / "bin" / "pi-marathon", "--help", cwd=tmp_path).stderr == ""


def test_pip_failing_is_one_sentence_with_the_log_and_the_next_step(checkout: Path, tmp_path: Path) -> None:
    pins = checkout / "requirements.txt"
    working_pins = pins.read_text()
    pins.write_text("click==0.0.0\n")
    script = checkout / "bin" / "pi-marathon"
    done = start(script, "--help", cwd=tmp_path, PIP_NO_INDEX="1")
    assert (done.returncode, done.stdout) == (1, "")
    sentence = done.stderr.splitlines()[-1]
    assert "pip failed" in sentence
    assert str(script) in sentence
    log = checkout / ".venv.log"
    assert str(log) in sentence
    assert "click==0.0.0" in log.read_text()

    pins.write_text(working_pins)
    again = start(script, "--help", cwd=tmp_path, PIP_NO_INDEX="1")
    assert (again.returncode, again.stderr) == (0, "")


def test_a_venv_that_is_not_ours_is_never_deleted(tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path / "checkout")
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "notes").write_text("mine")
    done = start(checkout / "bin" / "pi-marathon", "--help", cwd=tmp_path)
    assert done.returncode == 1
    assert "move it away" in done.stderr
    assert (checkout / ".venv" / "notes").read_text() == "mine"
