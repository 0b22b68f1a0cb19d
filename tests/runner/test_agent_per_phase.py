"""Which agent works in a phase: as the workflow says, as --set says, and who takes over when one cannot continue."""

from __future__ import annotations

import sys

import pytest

from marathon.agents.claude.stream import ClaudeStream
from marathon.agents.table import Team
from marathon.core.budgets import Limits
from marathon.core.courses.phases import Phases
from marathon.core.courses.workflow import Phase
from marathon.core.decide import next_step
from marathon.core.life import fold
from marathon.core.records import AgentTakesOver, Begun, SessionEnded, SessionStarted
from marathon.core.steps import Note, RunSession, Wait
from marathon.errors import WrongUsage
from marathon.store.definitions import BUILT_IN, load_workflows
from tests.support.world import AGENT, World, finish, plan, research


def phase(**more: object) -> Phase:
    return Phase(id="plan", name="Plan", brief="b", **more)  # type: ignore[arg-type]


def test_model_thinking_and_arguments_become_the_agents_own() -> None:
    team = Team("pi,rehearsal", ("--x",), "stream", {"plan": {"model": "opus"}})
    chosen = team.as_chosen(phase(thinking="high", args=("--y",)))
    agent = team.of(chosen)
    assert agent.args == ("--x", "--model", "opus", "--thinking", "high", "--y")  # type: ignore[attr-defined]
    assert team.of(chosen) is agent, "one agent for each distinct setting"
    assert team.of(phase()) is not agent
    assert team.of(phase(), "rehearsal").name == "rehearsal"
    assert team.of(phase(agent="pi"), "rehearsal").name == "pi", "a phase's own choice stands"
    with pytest.raises(WrongUsage, match="rehearsal takes no model"):
        team.of(phase(agent="rehearsal", model="m"))


@pytest.mark.parametrize(
    ("tools", "flags"),
    [
        (("!bash", "!WebFetch"), ("--disallowedTools", "Bash,WebFetch")),
        (("read", "edit", "mcp__db__query"), ("--tools", "Read,Edit,mcp__db__query")),
    ],
)
def test_tools_have_the_names_of_the_agent(tools: tuple[str, ...], flags: tuple[str, ...]) -> None:
    claude = Team("claude", (), None, {}).of(phase(tools=tools))
    assert isinstance(claude, ClaudeStream)
    assert claude.args == flags
    with pytest.raises(WrongUsage, match=r"has no tool 'Basch'.*It has: bash, .*WebFetch"):
        Team("claude", (), None, {}).of(phase(tools=("!Basch",)))


def test_a_phase_has_its_own_agent_by_set(world: World) -> None:
    world.script(research(), plan(), finish())
    args = f"plan.args={sys.executable} -IS {AGENT} {world.agent}"
    named = ("--agent", "rehearsal", "--set", "plan.agent=command", "--set", args)
    ran = world.cli("--task", "task", *named, "--auto-approve", "--max-iterations", "2")
    assert ran.returncode == 4, ran.stderr
    assert [record["agent"] for record in world.records("session_started")] == ["rehearsal", "command"]
    assert "To continue: pi-marathon --task task\n" in ran.stdout or "then: pi-marathon --task task\n" in ran.stdout
    settings = world.records("started_with")[-1]["settings"]
    assert "plan.agent=command" in settings, "the task remembers it"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("plan.colour=red", "write PHASE.NAME=VALUE"),
        ("nowhere.agent=pi", "there is no phase 'nowhere'"),
        ("plan.agent=nobody", "There is no agent 'nobody'"),
        ("plan.model=opus", "The agent command takes no model"),
        ("plan.tools=!bash", "The agent command takes no tools"),
        ("plan.tools=read,!bash", "either all of them or none begin with !"),
    ],
)
def test_what_cannot_be_set_is_refused_before_anything_happens(world: World, setting: str, said: str) -> None:
    ran = world.run("--set", setting)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert not (world.task / ".marathon").exists()


def test_a_project_may_not_name_a_program_and_its_arguments_need_a_yes(world: World) -> None:
    folder = world.project / ".marathon" / "workflows" / "w"
    folder.mkdir(parents=True)
    text = 'name = "W"\n[[phases]]\nid = "p"\nname = "P"\nbrief = "b"\ngate = true\n'
    text += '[[phases]]\nid = "q"\nname = "Q"\nbrief = "b"\ngate = true\n'
    (folder / "workflow.toml").write_text(f'{text}agent = "command"\nargs = ["rm"]\n')
    assert "may not choose the agent 'command'" in world.run("--workflow", "w").stderr
    (folder / "workflow.toml").write_text(f'{text}args = ["--dangerous"]\n')
    ran = world.run("--workflow", "w")
    assert ran.returncode == 3
    assert "q: arguments --dangerous, you review it" in ran.stdout
    assert world.sessions() == 0


def test_another_agent_takes_over_at_a_long_limit_and_comes_no_more_once_all_failed() -> None:
    course = Phases(load_workflows(BUILT_IN).workflows)
    limits, records = Limits(agents=("pi", "rehearsal")), [course.begin()]

    def after(agent: str, **ended: object) -> object:
        records.append(SessionStarted(iteration=len(records), phase="research", agent=agent))  # type: ignore[arg-type]
        records.append(SessionEnded(ending="refused", cause="usage limit", **ended))  # type: ignore[arg-type]
        return next_step(fold(records, course), course, limits)

    assert isinstance(after("pi", retry_after=300.0), Wait), "a short wait is no reason"
    step = after("pi", retry_after=3600.0)
    assert isinstance(step, Note)
    assert step.record == AgentTakesOver(agent="rehearsal", after="pi", cause="usage limit")
    records.append(step.record)  # type: ignore[arg-type]
    assert isinstance(next_step(fold(records, course), course, limits), RunSession)
    assert isinstance(after("rehearsal", retry_after=3600.0), Wait), "both cannot, so the reset is waited for"
    assert isinstance(records[0], Begun)


def test_of_two_limits_the_earlier_reset_is_waited_for() -> None:
    course = Phases(load_workflows(BUILT_IN).workflows)
    limits, records, days = Limits(agents=("pi", "rehearsal")), [course.begin()], 24 * 3600.0

    def after(agent: str, resets: float) -> object:
        records.append(SessionStarted(iteration=len(records), phase="research", agent=agent))  # type: ignore[arg-type]
        records.append(SessionEnded(ending="refused", cause="usage limit", retry_after=resets))  # type: ignore[arg-type]
        step = next_step(fold(records, course), course, limits)
        if isinstance(step, Note):
            records.append(step.record)  # type: ignore[arg-type]
            assert isinstance(step.record, AgentTakesOver)
            return step.record.agent
        return step.seconds if isinstance(step, Wait) else step

    assert after("pi", 5 * 3600.0) == "rehearsal"
    assert after("rehearsal", 4 * days) == "pi", "it can work sooner"
    assert after("pi", 4.9 * 3600) == 4.9 * 3600, "as it says now"
    assert after("pi", 7 * days) == "rehearsal"
    assert after("rehearsal", 8 * days) == 8 * days, "it does not go to and fro for ever"


@pytest.mark.parametrize("more", [{}, {"outage": True}])
def test_a_refusal_that_tries_did_not_cure_is_for_the_next_agent(more: dict[str, bool]) -> None:
    """A provider that answers 500, and a quota that does not say when it resets."""
    course = Phases(load_workflows(BUILT_IN).workflows)
    limits, records = Limits(agents=("pi", "rehearsal"), retries=2), [course.begin()]
    steps: list[object] = []
    while not steps or isinstance(steps[-1], Wait):
        records.append(SessionStarted(iteration=len(records), phase="research", agent="pi"))  # type: ignore[arg-type]
        records.append(SessionEnded(ending="refused", cause="500: It broke", **more))  # type: ignore[arg-type]
        steps.append(next_step(fold(records, course), course, limits))
    assert len(steps) == 3
    assert isinstance(steps[-1], Note)
    assert steps[-1].record == AgentTakesOver(agent="rehearsal", after="pi", cause="500: It broke")


def test_a_program_that_cannot_work_hands_over_to_the_next_agent(world: World) -> None:
    world.script({"say": ["login: permission denied"], "exit": 1})
    args = world.task_args()
    args[args.index("command")] = "command,rehearsal"
    ran = world.cli(*args)
    assert ran.returncode == 3, ran.stderr
    assert [record["agent"] for record in world.records("session_started")] == ["command", "rehearsal"]
    assert "permission denied). rehearsal takes over." in ran.stdout
    assert "Phase: research | Iteration: 2" in ran.stdout
