"""Puts the pinned agents below tests/real_agents, as the lock file and PROGRAMS say, when they are not there yet."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real.install import PATIENCE, ensure_packages, one_at_a_time

HERE = Path(__file__).resolve().parent
# litellm, which mini asks models with, imports mcp but does not require it.
PROGRAMS = {"aider": ("aider-chat==0.86.2",), "mini": ("mini-swe-agent==2.4.6", "litellm==1.106.2", "mcp==2.3.0")}


@dataclass(frozen=True)
class Agents:
    claude: Path
    codex: Path
    gemini: Path
    opencode: Path


def ensure_agents() -> Agents:
    modules = ensure_packages(HERE)
    vendor = modules / "@openai" / "codex-linux-x64" / "vendor" / "x86_64-unknown-linux-musl"
    return Agents(
        claude=modules / "@anthropic-ai" / "claude-code-linux-x64" / "claude",
        codex=vendor / "bin" / "codex",
        gemini=modules / "@google" / "gemini-cli" / "bundle" / "gemini.js",
        opencode=modules / "opencode-linux-x64" / "bin" / "opencode",
    )


def ensure_program(name: str) -> Path:
    """A program of Python in an environment of its own."""
    venv, pins = HERE / f".venv-{name}", "\n".join(PROGRAMS[name])
    done = venv / "installed"  # written last
    with one_at_a_time(HERE):
        if not done.exists() or done.read_text() != pins:
            if name == "aider" and sys.version_info >= (3, 13):
                pytest.skip("aider does not run with this Python")
            _run(sys.executable, "-m", "venv", "--clear", str(venv))
            _run(str(venv / "bin" / "python"), "-I", "-m", "pip", "install", "-q", "--no-input", *PROGRAMS[name])
            done.write_text(pins)
    return venv / "bin" / name


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode != 0:
        pytest.fail(f"{argv} failed ({done.returncode}):\n{done.stderr[-2000:]}")
