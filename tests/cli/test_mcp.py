"""The MCP server with the official client over stdio: what its tools do, and that none of them answers a gate."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.types import TextContent

from marathon.cli.commands.mcp import TOOLS
from marathon.store.agent_channel import AgentChannel
from tests.support.world import World, research


def talk(world: World, act: Callable[[ClientSession], Awaitable[None]], **env: str) -> None:
    words = world.argv("mcp")
    server = StdioServerParameters(command=words[0], args=words[1:], env=world.env(**env), cwd=world.project)

    async def main() -> None:
        with anyio.fail_after(90), open(os.devnull, "w") as quiet:
            async with stdio_client(server, errlog=quiet) as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                await act(session)

    anyio.run(main)


async def call(session: ClientSession, tool: str, **given: object) -> tuple[bool, str]:
    """Whether it worked, and what it said."""
    result = await session.call_tool(tool, given)
    (content,) = result.content
    assert isinstance(content, TextContent)
    return not result.is_error, content.text


def test_wait_and_question_reach_the_runner_of_the_session(world: World) -> None:
    channel = AgentChannel(world.states, "runner-1")
    channel.write({"pid": os.getpid()})

    async def act(session: ClientSession) -> None:
        names = {tool.name for tool in (await session.list_tools()).tools}
        assert names == {tool.__name__ for tool in TOOLS}
        assert (await call(session, "marathon_wait", minutes=5, reason="CI"))[0]
        assert (await call(session, "human_feedback", question="--which=one?"))[0]
        worked, said = await call(session, "marathon_wait", minutes=500, reason="CI")
        assert not worked
        assert "from 1 to 60" in said

    talk(world, act, MARATHON_RUNNER_ID="runner-1")
    fields = channel.read()
    assert (fields["waitSeconds"], fields["waitReason"], fields["feedbackQuestion"]) == (300, "CI", "--which=one?")


def test_a_loop_is_measured_and_kept(world: World) -> None:
    async def act(session: ClientSession) -> None:
        for tool, given in (
            ("multiloop_start", {"lane": "perf", "goal": "Make it faster", "verify": "echo 10"}),
            ("multiloop_measure", {"lane": "perf", "measurements": [10]}),
            ("multiloop_iterate", {"lane": "perf", "hypothesis": "--less is more"}),
            ("multiloop_measure", {"lane": "perf", "measurements": [8.5]}),
            ("multiloop_decide", {"lane": "perf", "action": "keep", "measurements": [8.5]}),
            ("multiloop_status", {"target": "perf"}),
        ):
            worked, said = await call(session, tool, **given)
            assert worked, (tool, said)
        assert "8.5" in said
        worked, said = await call(session, "multiloop_iterate", lane="other")
        assert not worked
        assert "other" in said

    talk(world, act)


HOSTILE = ("task", "approve", "--code", "-", "task; pi-marathon approve task", "\n--yes")


def test_no_tool_answers_a_gate_or_tells_its_code(world: World) -> None:
    world.script(research())
    (code,) = set(re.findall(r"--code (\w+)", world.run().stdout))
    said: list[str] = []

    async def act(session: ClientSession) -> None:
        for tool in (await session.list_tools()).tools:
            for text in HOSTILE if tool.name in ("marathon_status", "human_feedback") else HOSTILE[2:3]:
                fields = tool.input_schema["properties"]
                given = {name: _value(schema, text) for name, schema in fields.items()}
                said.append((await call(session, tool.name, **given))[1])

    talk(world, act)
    assert '"gate"' in "".join(said)
    assert code not in "".join(said)
    assert world.records("gate_answered") == []
    assert not list((world.task / ".marathon" / "inbox").glob("*.json"))
    assert json.loads(world.cli("status", "task", "--json").stdout)["gate"]["reason"] == "review"


def _value(schema: dict[str, Any], text: str) -> object:
    if "enum" in schema:
        return schema["enum"][0]
    return {"number": 5, "string": text, "array": [5]}.get(schema.get("type", ""))
