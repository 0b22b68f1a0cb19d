"""Dialogs of a user's own extension in stream mode: asked one after the other, or refused where nobody is there."""

from __future__ import annotations

import pytest

from tests.real.model_server import ToolCall, Turn, by_phase
from tests.real.real_world import RealWorld

# Two questions at once and one after them; other records come while they are open.
ASKING = """
import { Type } from "typebox";
export default function (pi: any) {
  pi.registerTool({
    name: "choose", label: "Choose", description: "Asks the human.", parameters: Type.Object({}),
    async execute(_id: string, _args: unknown, _signal: unknown, onUpdate: any, ctx: any) {
      const both = Promise.all([
        ctx.ui.select("Which database?", ["postgres", "sqlite"]),
        ctx.ui.confirm("Sure?", "It cannot be undone."),
      ]);
      for (let n = 0; n < 5; n++) onUpdate?.({ content: [{ type: "text", text: `waiting ${n}` }], details: {} });
      const name = await both.then(() => ctx.ui.input("Its name?"));
      const text = `CHOSEN ${JSON.stringify([...(await both), name ?? null])}`;
      return { content: [{ type: "text", text }], details: {} };
    },
  });
}
"""


@pytest.fixture
def asking(real: RealWorld) -> RealWorld:
    real.extension("asking.ts", ASKING)
    real.plays(by_phase({"research": [[Turn(tools=[ToolCall("choose", {})]), Turn("I see.")]]}))
    return real


def chosen(real: RealWorld) -> str:
    return str(real.server.requests[-1].last_text)


def test_they_are_asked_one_after_the_other_and_each_once(asking: RealWorld) -> None:
    terminal = asking.stream("--max-iterations", "1")
    try:
        seen = terminal.expect(b"Which database?")
        seen += terminal.expect(b"2. sqlite")
        terminal.send(b"2\r")
        seen += terminal.expect(b"Sure?")
        terminal.send(b"y\r")
        seen += terminal.expect(b"Its name?")
        terminal.send(b"main\r")
        seen += terminal.expect(b"CHOSEN")
        seen += terminal.expect(b"[q]      Quit marathon")
        terminal.send(b"q")
        terminal.wait()
    finally:
        terminal.close()
    assert chosen(asking) == 'CHOSEN ["sqlite",true,"main"]'
    assert [seen.count(title) for title in (b"Which database?", b"Sure?", b"Its name?")] == [1, 1, 1]


def test_escape_cancels_one_and_the_next_is_asked(asking: RealWorld) -> None:
    terminal = asking.stream("--max-iterations", "1")
    try:
        terminal.expect(b"2. sqlite")
        terminal.send(b"\x1b")
        terminal.expect(b"Sure?")
        terminal.send(b"\x1b")
        terminal.expect(b"Its name?")
        terminal.send(b"main\r")
        terminal.expect(b"CHOSEN")
        terminal.expect(b"[q]      Quit marathon")
        terminal.send(b"q")
        terminal.wait()
    finally:
        terminal.close()
    assert chosen(asking) == 'CHOSEN [null,false,"main"]'


def test_without_a_terminal_they_are_refused_and_named(asking: RealWorld) -> None:
    ended = asking.run("--max-iterations", "1")
    assert ended.returncode == 4, ended.stdout
    assert chosen(asking) == "CHOSEN [null,false,null]"
    assert ended.stdout.count("An extension asked, but no one is there") == 3
