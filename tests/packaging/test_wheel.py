"""The wheel, built and installed into a clean environment, holds everything a checkout offers.

The dependencies are borrowed from the environment the tests run in; pi-marathon itself really is installed.
"""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import marathon
from tests.packaging.checkouts import ROOT, make_borrowing_venv, start


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a clean environment with the wheel in it."""
    python = make_borrowing_venv(tmp_path_factory.mktemp("clean") / "venv")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", wheel], check=True)
    return python.parent


def test_name_and_version(wheel: Path) -> None:
    assert wheel.name == f"pi_marathon-{marathon.__version__}-py3-none-any.whl"


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    for file in (ROOT / "marathon").rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            assert file.relative_to(ROOT).as_posix() in inside


def test_the_package_comes_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    where = start(installed / "python", "-I", "-c", "import marathon; print(marathon.__file__)", cwd=tmp_path)
    assert Path(where.stdout.strip()).is_relative_to(installed.parent)


@pytest.mark.parametrize("name", ["skills/loop/SKILL.md", "task-template/instructions.md"])
def test_shipped_data_is_found_from_the_wheel(name: str, installed: Path, tmp_path: Path) -> None:
    code = "import sys; from marathon._bundled import bundled; print(bundled(sys.argv[1]))"
    found = start(installed / "python", "-I", "-c", code, name, cwd=tmp_path)
    path = Path(found.stdout.strip())
    assert path.is_relative_to(installed.parent)
    assert path.read_bytes() == (ROOT / name).read_bytes()


def test_missing_data_is_named(installed: Path, tmp_path: Path) -> None:
    code = "from marathon._bundled import bundled; bundled('skills/none')"
    found = start(installed / "python", "-I", "-c", code, cwd=tmp_path)
    assert "skills/none is missing" in found.stderr


def test_help_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    done = start(installed / "pi-marathon", "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "pi-marathon" in done.stdout


def test_demo_runs_from_the_wheel_without_a_terminal(installed: Path, tmp_path: Path) -> None:
    done = start(installed / "pi-marathon", "demo", cwd=tmp_path, HOME=str(tmp_path), TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("line", ["pipx install", "uv tool install"])
def test_the_lines_of_the_readme_install_a_command(line: str, wheel: Path, tmp_path: Path) -> None:
    assert f"`{line} .`" in (ROOT / "README.md").read_text()
    tools = tmp_path / "tools"
    subprocess.run([sys.executable, "-m", "venv", tools], check=True)
    subprocess.run([tools / "bin" / "pip", "-q", "--disable-pip-version-check", "install", line.split()[0]], check=True)
    folders = {
        "HOME": str(tmp_path),
        "PATH": f"{tools}/bin:{os.environ['PATH']}",
        "PIPX_HOME": f"{tmp_path}/pipx",
        "PIPX_BIN_DIR": f"{tmp_path}/bin",
        "UV_TOOL_BIN_DIR": f"{tmp_path}/bin",
        "UV_SYSTEM_CERTS": "1",  # as pip does
    }
    done = start(*line.split(), wheel, cwd=tmp_path, **folders)
    assert done.returncode == 0, done.stdout + done.stderr
    version = start(tmp_path / "bin" / "pi-marathon", "--version", cwd=tmp_path, HOME=str(tmp_path))
    assert marathon.__version__ in version.stdout
