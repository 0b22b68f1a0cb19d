"""bin/pi-marathon where no Python fits: one clear sentence each, exit 1, and nothing made."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.checkouts import copy_checkout, start


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return copy_checkout(tmp_path / "checkout")


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """For PATH: what the script itself uses, and the shim of a version manager that has no such Python."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for tool in ("sh", "cmp", "readlink", "dirname"):
        found = shutil.which(tool)
        assert found, tool
        (folder / tool).symlink_to(found)
    shim = folder / "python3.14"
    shim.write_text("#!/bin/sh\necho 'shim: no such version' >&2\nexit 127\n")
    shim.chmod(0o755)
    return folder


def refusal(checkout: Path, **changes: str) -> str:
    done = start(checkout / "bin" / "pi-marathon", "--help", cwd=checkout, **changes)
    assert (done.returncode, done.stdout) == (1, "")
    assert not (checkout / ".venv").exists()
    (sentence,) = done.stderr.splitlines()
    return sentence


def test_no_python_at_all(checkout: Path, bare_path: Path) -> None:
    assert "no Python 3.11 or newer was found" in refusal(checkout, PATH=str(bare_path))


def test_a_python_that_is_named_but_does_not_run(checkout: Path, bare_path: Path) -> None:
    sentence = refusal(checkout, MARATHON_PYTHON=str(bare_path / "python3.14"))
    assert "MARATHON_PYTHON" in sentence
    assert str(bare_path) in sentence


def test_a_python_without_its_venv_package(checkout: Path, tmp_path: Path) -> None:
    python = tmp_path / "debian" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "debian"], check=True)
    for site_packages in (tmp_path / "debian").glob("lib/python3.*/site-packages"):
        (site_packages / "no_ensurepip.pth").write_text("import sys; sys.modules['ensurepip'] = None\n")
    sentence = refusal(checkout, MARATHON_PYTHON=str(python))
    assert str(python) in sentence
    assert "python3-venv" in sentence
