"""run A B C asks once for the same commands. One yes is for exactly these, and never for a review."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from marathon.store.gate_code import GateCodes
from marathon.store.inbox import Inbox
from tests.process.driver import Pty, until
from tests.support.side import Side
from tests.support.world import World

CHECKED = "# Do it\n\nDo it.\n\n## Success Criteria\n\n- `test -e code.txt` passes\n"
FOR_ALL = r"To agree for all {} at once: pi-marathon (approve .* --code (\w+))"


def checked(side: Side, *names: str, text: str = CHECKED) -> None:
    for name in names:
        (side.task(name) / "instructions.md").write_text(text)


def reasons(side: Side, name: str) -> list[str]:
    lines = (side.task(name) / ".marathon" / "journal.jsonl").read_text().splitlines()
    return [record["reason"] for record in map(json.loads, lines) if record["type"] == "gate_opened"]


@pytest.mark.parametrize("more", [(), ("--worktree",)])
def test_at_a_terminal_the_same_commands_are_asked_for_once(
    world: World, typed: Callable[..., Pty], more: tuple[str, ...]
) -> None:
    side = Side(world, "one", "two", "three", "other")
    checked(side, "one", "two", "three")
    checked(side, "other", text=CHECKED.replace("code.txt", "other.txt"))
    pool = typed("run", "one", "two", "three", "other", *more, *side.agent_args())
    asked = pool.expect(b"Run exactly these? [y/N]").decode()
    assert "each of one, two and three is done:\r\n  test -e code.txt\r\n" in asked
    pool.send(b"y\n")
    assert b"whether other is done:" in pool.expect(b"Run exactly these? [y/N]")
    pool.send(b"n\n")
    assert b"Run exactly these?" not in pool.expect(b"After your answers")
    assert pool.wait() == 3
    for name in ("one", "two", "three"):
        assert reasons(side, name) == ["review"], "nothing was asked again"
    assert reasons(side, "other") == ["checks"], "a no leaves it to its gate"


def test_without_a_terminal_one_code_is_for_all_of_them(world: World) -> None:
    side = Side(world, "one", "two", "other", "free")
    checked(side, "one", "two")
    checked(side, "other", text=CHECKED.replace("code.txt", "other.txt"))
    said = side.type("run", "one", "free", "two", "other", *side.agent_args(), expected=3)
    found = re.findall(FOR_ALL.format(2), said)
    assert len(found) == 2, "said when the second one stopped, and at the end"
    ((command, code),) = set(found)
    assert command.startswith("approve one two --code")
    wrong = side.type("approve", "one", "two", "--code", "aaaaaa", expected=2)
    assert "That is not the code" in wrong
    for name in ("other", "free"):
        refused = side.type("approve", "one", name, "--code", code, expected=2)
        assert "do not ask for the same agreement; nothing was changed" in refused
    assert "Agreed for 2 tasks." in side.type(*command.split())
    side.type("run", "one", "two", expected=3)
    assert (reasons(side, "one"), reasons(side, "two")) == (["checks", "review"], ["checks", "review"])
    assert (reasons(side, "other"), reasons(side, "free")) == (["checks"], ["review"])


def test_reviews_are_never_joined(world: World) -> None:
    side = Side(world, "one", "two")
    said = side.type("run", "one", "two", *side.agent_args(), expected=3)
    assert "at once" not in said
    refused = side.type("approve", "one", "two", expected=2)
    assert "do not ask for the same agreement; nothing was changed" in refused
    assert not list(side.project.glob("docs/tasks/*/.marathon/inbox/*.json"))


def test_a_yes_during_a_pool_is_for_those_that_come_to_the_same_gate_later(world: World) -> None:
    side = Side(world, "one", "busy", "two")
    checked(side, "one", "two")
    side.hold("busy")
    (side.task("busy") / "STATE.json").write_text('{"state": "running", "phase": "implement"}')
    pool = side.start("run", "one", "busy", "two", "--adopt")
    try:
        until(lambda: side.works("busy"), "busy works while one waits", 60)
        side.type("approve", "one")
        side.release("busy")
        output = pool.communicate(timeout=120)[0]
    finally:
        if pool.poll() is None:
            pool.terminate()
    assert "at once" not in output
    assert (reasons(side, "one"), reasons(side, "two")) == (["checks", "review"], ["checks", "review"])


def test_a_yes_to_an_agreement_never_counts_at_another_gate(world: World) -> None:
    """Even with the right token and code: an agent may have made the tool believe that a review is an agreement."""
    side = Side(world, "one")
    side.run("one", expected=3)
    facts = side.status("one")["gate"]
    assert facts["reason"] == "review"
    right = GateCodes(side.state / "codes").printed(facts["token"])
    inbox = Inbox(side.task("one") / ".marathon/inbox")
    inbox.put("verdict", to=facts["token"], code=right, choice="continue", by="command", agreement="0" * 64)
    side.run("one", expected=3)
    assert not inbox.messages(), "it was looked at"
    assert reasons(side, "one") == ["review"]
    assert side.status("one")["waits_for"] == "your review of research"


def test_below_a_session_a_pool_starts_nothing(world: World, typed: Callable[..., Pty]) -> None:
    side = Side(world, "one", "two")
    checked(side, "one", "two")
    pool = typed("run", "one", "two", *side.agent_args(), MARATHON_RUNNER_ID="m-1")
    pool.expect(b"'run' is for the human")
    assert pool.wait() == 2
    assert [side.status(name)["condition"] for name in ("one", "two")] == ["new", "new"]
