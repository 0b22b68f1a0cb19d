"""doctor: looks at the real machine and says what to type."""

from __future__ import annotations

import json
import os

from tests.support.world import World


def test_doctor_tells_each_check_and_json_says_the_same(world: World) -> None:
    told = world.cli("doctor")
    found = json.loads(world.cli("doctor", "--json").stdout)
    assert {finding["level"] for finding in found} <= {"good", "note", "bad"}
    assert told.returncode == (1 if any(finding["level"] == "bad" for finding in found) else 0)
    names = [finding["name"] for finding in found]
    assert len(names) == len(set(names))
    for finding in found:
        assert f"{finding['name']}: {finding['found']}" in told.stdout
        assert finding["level"] == "good" or finding["cure"] or "none" in finding["found"]
    by_name = {finding["name"]: finding for finding in found}
    assert by_name["locks"]["level"] == "good"
    assert by_name["terminal"]["level"] == "note"
    assert "rpi" in by_name["workflows"]["found"]


def test_doctor_says_what_is_wrong_and_ends_with_1(world: World) -> None:
    folder = world.project / ".marathon" / "workflows" / "broken"
    folder.mkdir(parents=True)
    (folder / "workflow.toml").write_text("no TOML")
    blocked = world.home / "file"
    blocked.write_text("")
    told = world.cli("doctor", PI_MARATHON_STATES=str(blocked / "states"))
    assert told.returncode == 1
    assert "workflows: refused: broken" in told.stdout
    assert "pi-marathon workflow check" in told.stdout
    assert "Set PI_MARATHON_STATES" in told.stdout


def test_doctor_knows_the_other_agents(world: World) -> None:
    """Small programs that answer as Claude Code 2.1 and Codex 0.166 do."""
    folder = world.home / "bin"
    folder.mkdir()
    answers = {
        "claude": ("2.1.325 (Claude Code)", "[ $1 = auth ]"),
        "codex": ("codex-cli 0.166.0", "[ $1 != login ]"),
        "gemini": ("0.9.12", "true"),
    }
    for name, (version, logged_in) in answers.items():
        (folder / name).write_text(f"#!/bin/sh\n[ $1 = --version ] && echo '{version}' && exit\n{logged_in}\n")
        (folder / name).chmod(0o755)
    told = world.cli("doctor", MARATHON_PI="/nonexistent/pi", PATH=f"{folder}:{os.environ['PATH']}").stdout
    assert f"✓ claude: 2.1.325 ({folder}/claude)\n✓ claude's login: logged in\n" in told
    assert "claude's permissions: edits" in told
    assert f"✓ codex: 0.166.0 ({folder}/codex)\n• codex's login: not logged in" in told
    assert "→ Type: codex login" in told
    assert "• gemini: gemini 0.9.12 is older than 0.61.0, the oldest that was tried\n   → Renew it: npm install" in told
    assert told.splitlines()[-1].endswith("--agent claude")
    empty = world.cli("doctor", MARATHON_PI="/nonexistent/pi", PATH="/usr/bin:/bin").stdout
    assert "• claude: claude was not found\n   → Install it: npm install -g @anthropic-ai/claude-code" in empty
    assert "✓ agents: acp, claude, codex, command, " in told
    assert "✓ agents: acp, command, rehearsal\n" in empty


def test_doctor_ends_with_the_next_step(world: World) -> None:
    told = world.cli("doctor", MARATHON_PI="/nonexistent/pi").stdout
    assert "• pi: MARATHON_PI names '/nonexistent/pi', which is not a program\n   → Correct or unset it." in told
    assert told.splitlines()[-1] == "pi cannot work yet. A marathon without it: pi-marathon demo"
