"""Our MCP server for agents over ACP where the package it needs is missing."""

from __future__ import annotations

import os
from pathlib import Path

from tests.agents.conformance.adapters import ADAPTERS, ModelWorld
from tests.support.world import World

MISSING = "import sys\nsys.modules['mcp'] = None\n"  # as if it were not installed


def without_mcp(world: World) -> str:
    """A PYTHONPATH with which the package is not found."""
    (world.home / "sitecustomize.py").write_text(MISSING)
    return os.pathsep.join((str(world.home), world.env()["PYTHONPATH"]))


def test_an_agent_works_without_our_tools_and_the_human_hears_why_once(tmp_path: Path) -> None:
    real = ModelWorld(tmp_path / "world", ADAPTERS["acp"])
    done = real.run("--auto-approve", PYTHONPATH=without_mcp(real))
    real.close()
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(real.records("session_ended")) == 4
    assert done.stdout.count("works without our tools over MCP") == 1
    assert "pip install 'pi-marathon[mcp]'" in done.stdout


def test_doctor_says_how_to_get_our_tools(world: World) -> None:
    assert "✓ our tools over MCP: " in world.cli("doctor").stdout
    told = world.cli("doctor", PYTHONPATH=without_mcp(world)).stdout
    assert "• our tools over MCP: not installed\n   → The server needs one more package: pip install" in told
