"""Puts the pinned agents below tests/real_agents, as the lock file says, when they are not there yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.real.install import ensure_packages

HERE = Path(__file__).resolve().parent


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
