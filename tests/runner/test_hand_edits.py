"""What the human edits at a gate is the human's: kept, shown, and told to the next session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.driver import Pty
from tests.support.world import World, chunk, plan, research

KEYS_SHOWN = b"[q]      Quit marathon"
HINT = b"? shows the options"


def rounds(world: World) -> dict[str, str]:
    return {path.name: path.read_text() for path in (world.task / ".marathon/runs/001/rounds").iterdir()}


def append(world: World, name: str, text: str) -> None:
    with (world.task / name).open("a") as file:
        file.write(text)


def test_an_edit_with_e_is_shown_by_d_and_survives_a_redo(
    world: World, on_terminal: Callable[..., Pty], tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "use postgres" >>"$1"\n')
    editor.chmod(0o755)
    world.script(research(), research(), plan())
    terminal = on_terminal(EDITOR=str(editor), PAGER="cat")
    terminal.expect(KEYS_SHOWN)
    terminal.send(b"e")
    terminal.expect(HINT)
    terminal.send(b"d")
    shown = terminal.expect(HINT).decode()
    assert "Your edits of research.md" in shown
    assert "\x1b[32m+use postgres\x1b[0m" in shown
    terminal.send(b"r")
    terminal.expect(b"Alt+Enter")
    terminal.send(b"deeper\r")
    terminal.expect(b"Iteration: 2")
    terminal.expect(KEYS_SHOWN)
    assert rounds(world) == {
        "research-1.md": "findings 1\n",
        "research-1.human.md": "findings 1\nuse postgres\n",
        "research-2.md": "findings 2\n",
    }
    assert "## The human edited research.md" in world.prompt(2)
    assert "> +use postgres" in world.prompt(2)
    assert "task/.marathon/runs/001/rounds/research-1.human.md" in world.prompt(2)
    terminal.send(b"d")
    assert "\x1b[31m-use postgres" in terminal.expect(HINT).decode(), "compared with what the human saw last"
    terminal.send(b"\r")
    terminal.expect(b"Iteration: 3")
    assert "The human edited" not in world.prompt(3), "told once"


def test_an_edit_in_any_editor_counts_with_an_approval_from_a_shell(world: World) -> None:
    world.script(research(), plan(), chunk(exit=1), chunk())
    world.run()
    append(world, "research.md", "use postgres\n")
    world.cli("approve", "task")
    world.run()
    assert "> +use postgres" in world.prompt(2)
    assert rounds(world)["research-1.human.md"].endswith("use postgres\n")
    edited = world.records("hand_edited")
    assert [edit["name"] for record in edited for edit in record["edits"]] == ["research.md"]
    append(world, "plan.md", "- [ ] 2. and test\n")
    append(world, "research.md", "really\n")
    world.cli("approve", "task")
    world.run("--retry-wait", "0s", "--max-iterations", "4")
    for number in (3, 4):  # a session that fails was not told
        assert "> +- [ ] 2. and test" in world.prompt(number)
        assert "> +really" in world.prompt(number)
        assert "use postgres" not in world.prompt(number).replace(">  use postgres", "")


def test_an_edit_at_a_gate_that_closes_by_itself_counts_too(world: World) -> None:
    world.script(research(), plan(), chunk(), chunk())
    world.run("--auto-approve", "--max-iterations", "3")
    append(world, "plan.md", "- [ ] 2. by hand\n")
    world.run("--max-iterations", "4")
    assert "> +- [ ] 2. by hand" in world.prompt(4)


def test_a_very_long_edit_is_cut_with_a_pointer_to_the_file(world: World) -> None:
    world.script(research(), plan())
    world.run()
    append(world, "research.md", "".join(f"line {number}\n" for number in range(3000)))
    world.cli("approve", "task")
    world.run()
    prompt = world.prompt(2)
    assert "more lines)" in prompt
    assert len(prompt) < 12_000
    assert rounds(world)["research-1.human.md"].endswith("line 2999\n")


@pytest.mark.parametrize("undone", [True, False])
def test_no_edit_is_claimed_where_nothing_changed(world: World, undone: bool) -> None:
    world.script(research(), plan())
    world.run()
    if undone:
        append(world, "research.md", "x")
        world.run()
        (world.task / "research.md").write_text("findings 1\n")
    world.cli("approve", "task")
    world.run()
    assert not world.records("hand_edited")
    assert "The human edited" not in world.prompt(2)
