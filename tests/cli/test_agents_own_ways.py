"""What a human and an agent are told because of the agent: who pays, which rules it does not read, renamed skills."""

from __future__ import annotations

import json

import pytest

from tests.support.world import World, research

BILLED = "ANTHROPIC_API_KEY is set beside your Claude subscription: this bills the API."


@pytest.mark.parametrize(
    ("account", "key", "times"), [("oauthAccount", "k", 1), ("oauthAccount", "", 0), ("other", "k", 0)]
)
def test_who_pays_is_told_once(world: World, account: str, key: str, times: int) -> None:
    (world.home / ".claude.json").write_text(json.dumps({account: {"organizationName": "mine"}}))
    claude = world.home / "claude"
    claude.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "2.1.0 (Claude Code)"\n[ "$1" != -p ]\n')
    claude.chmod(0o755)
    path = f"{world.home}:{world.env()['PATH']}"
    args = ("--agent", "claude", "--mode", "stream", "--retries", "1", "--retry-wait", "1s")
    ran = world.cli("--task", "task", *args, PATH=path, ANTHROPIC_API_KEY=key)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert ran.stdout.count("session 2") == 1, "there were two sessions"
    assert ran.stdout.count(BILLED) == times
    assert ran.stderr.count("claude 2.1.0 is older than 2.1.325, the oldest that was tried. Renew it: npm") == 1


def test_an_agent_that_does_not_read_agents_md_is_told_of_it(world: World) -> None:
    world.script(research(), research())
    world.run()
    assert "AGENTS.md" not in world.prompt(1), "there is none"
    (world.project / "AGENTS.md").write_text("Use tabs.\n")
    world.cli("redo", "task", "-m", "again")
    world.run()
    assert "Read: AGENTS.md (what this project asks of every agent)" in world.prompt(2)


def test_skills_under_their_old_names_are_replaced_and_kept_and_others_stay(world: World) -> None:
    skills = world.home / ".pi" / "agent" / "skills"
    for name, text in (
        ("repeat", "---\nname: repeat\ndescription: Start a loop (pi-marathon repeat).\n---\nas it was\n"),
        ("workflow", "---\nname: workflow\ndescription: of someone else\n---\ntheirs\n"),
    ):
        (skills / name).mkdir(parents=True)
        (skills / name / "SKILL.md").write_text(text)
    ran = world.cli("install")
    assert "The skill repeat is called marathon-repeat now" in ran.stdout
    assert (skills / "marathon-repeat" / "SKILL.md").read_text().startswith("---\nname: marathon-repeat\n")
    (kept,) = (skills / "repeat").iterdir()
    assert kept.name.startswith("SKILL.md.before-")
    assert kept.read_text().endswith("as it was\n")
    assert (skills / "workflow" / "SKILL.md").read_text().endswith("theirs\n")
    assert "is called" not in world.cli("install").stdout
