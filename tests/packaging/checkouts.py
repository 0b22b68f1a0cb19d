"""Copies of the checkout to start, and quick virtual environments that borrow the packages installed here."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("bin", "marathon", "skills", "task-template")
PATIENCE = 240.0


def copy_checkout(target: Path) -> Path:
    """What a fresh clone holds, as far as starting it goes."""
    for folder in SHIPPED:
        shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (
        "pyproject.toml",
        "requirements.txt",
        "requirements-web.txt",
        "requirements-mcp.txt",
        "requirements-dev.txt",
    ):
        shutil.copy(ROOT / file, target)
    return target


def make_borrowing_venv(folder: Path) -> Path:
    """A virtual environment that sees the packages this test runs with; gives its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    # Only the packages: .pth files below a borrowed path are not read, so marathon itself is not among them.
    for site_packages in folder.glob("lib/python3.*/site-packages"):
        (site_packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (folder / "bin" / "ruff").symlink_to(Path(sysconfig.get_path("scripts")) / "ruff")
    return folder / "bin" / "python"


def quick_checkout(target: Path) -> Path:
    """A copied checkout that is set up and ready, by way of a .venv that borrows instead of installing."""
    copy_checkout(target)
    make_borrowing_venv(target / ".venv")
    done = start(target / "bin" / "pi-marathon", "--help", cwd=target)
    assert done.returncode == 0, done.stderr
    return target


def environment(**changes: str | None) -> dict[str, str]:
    """As in an empty environment without a terminal, but with pip's settings kept; None takes a name out."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    plain = {"HOME": os.environ.get("HOME", "/"), "PATH": os.environ["PATH"], "TERM": "dumb"}
    merged: dict[str, str | None] = {**kept, **plain, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def start(*argv: str | Path, cwd: Path, **changes: str | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        cwd=cwd,
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
