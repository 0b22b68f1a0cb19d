"""hook stop and hook session-start: JSON in, JSON out, exit 0, whatever they meet. No one is held for good."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.claude import SESSION, Claude, Json, answered
from tests.process.driver import Pty
from tests.support.world import ROOT, World, research

COMPLETE = "<loop-complete>"
STOPS = [Claude.stop_2_1, Claude.stop_1_0, Claude.stop_first]
GARBAGE = [
    b"",
    b"\n",
    b"[]",
    b"null",
    b"7",
    b'"text"',
    b"{",
    b"\xff\xfe\x00",
    b"[" * 200_000,
    b"x" * 100_000,
    b"\0" * 9,
]


@pytest.fixture
def claude(world: World) -> Claude:
    return Claude(world)


def test_without_a_loop_it_may_stop_and_nothing_is_made(world: World, claude: Claude) -> None:
    before = sorted(world.project.rglob("*"))
    for shape in STOPS:
        assert claude.hook("stop", shape(claude)) == {"ok": True, "reason": "no active loop"}
        assert claude.hook("stop", shape(claude, stop_hook_active=True))["ok"] is True
    assert sorted(world.project.rglob("*")) == before
    assert not world.states.exists()


@pytest.mark.parametrize("shape", STOPS)
def test_an_unmet_criterion_holds_it_and_is_named(claude: Claude, shape: Callable[..., Json]) -> None:
    claude.loop(**{"tests pass": True, "no lint errors": False})
    answer = claude.hook("stop", shape(claude))
    assert (answer["ok"], answer["decision"]) == (False, "block")
    assert "no lint errors" in answer["reason"]
    assert "tests pass" not in answer["reason"]


@pytest.mark.parametrize(("said", "ok"), [(f"All done.\n{COMPLETE}", True), ("All done.", False), (None, False)])
def test_all_met_it_still_takes_the_word_in_the_last_message(claude: Claude, said: str | None, ok: bool) -> None:
    claude.loop(tests=True, lint=True)
    answer = claude.hook("stop", claude.stop_2_1(last_assistant_message=said))
    assert answer["ok"] is ok
    assert answer.get("decision") == (None if ok else "block")
    assert answer["reason"] == "complete" if ok else COMPLETE in answer["reason"]


def test_a_loop_that_is_complete_is_closed_and_no_session_hears_of_it_again(claude: Claude) -> None:
    folder = claude.loop(tests=True)
    done = claude.stop_2_1(last_assistant_message=COMPLETE)
    assert claude.hook("stop", done)["reason"] == "complete"
    assert json.loads((folder / "state.json").read_text())["status"] == "completed"
    assert claude.hook("session-start", claude.start()) == {}
    assert claude.hook("stop", claude.stop_2_1())["reason"] == "the loop is over"


def test_the_same_five_times_is_stuck_and_the_human_is_told(claude: Claude) -> None:
    folder = claude.loop(tests=False)
    answers = [claude.hook("stop", claude.stop_1_0(stop_hook_active=bool(number))) for number in range(6)]
    assert [answer["ok"] for answer in answers] == [False] * 4 + [True, False]
    assert answers[4]["reason"] == "stuck"
    assert "tests" in answers[4]["systemMessage"]
    assert sorted(path.name for path in folder.iterdir()) == ["state.json", "stop-hook.json"]


def test_sessions_do_not_count_for_each_other(claude: Claude) -> None:
    claude.loop(tests=False)
    for number in range(8):
        asked = claude.stop_1_0(stop_hook_active=True, session_id=f"session-{number % 2}")
        assert claude.hook("stop", asked)["ok"] is False


def test_what_is_over_forgets_the_session(claude: Claude) -> None:
    folder = claude.loop(tests=False)
    claude.hook("stop", claude.stop_2_1())
    assert SESSION in (folder / "stop-hook.json").read_text()
    claude.leave(b'{"status": "paused"}')
    assert claude.hook("stop", claude.stop_2_1(stop_hook_active=True))["ok"] is True
    assert SESSION not in (folder / "stop-hook.json").read_text()


def test_without_memory_it_is_held_once_and_not_again(claude: Claude) -> None:
    folder = claude.loop(tests=False)
    (folder / "stop-hook.json" / "in the way").mkdir(parents=True)
    assert claude.hook("stop", claude.stop_2_1())["ok"] is False
    again = claude.hook("stop", claude.stop_2_1(stop_hook_active=True))
    assert again["ok"] is True
    assert "stop-hook.json" in again["systemMessage"]
    unknown = {name: value for name, value in claude.stop_2_1().items() if name != "stop_hook_active"}
    assert claude.hook("stop", unknown)["ok"] is True


@pytest.mark.parametrize("event", ["SubagentStop", "PreToolUse"])
def test_only_the_end_of_a_turn_is_held(claude: Claude, event: str) -> None:
    claude.loop(tests=False)
    assert claude.hook("stop", claude.stop_2_1(hook_event_name=event))["ok"] is True


@pytest.mark.parametrize("data", GARBAGE, ids=lambda data: repr(data[:6]))
def test_any_garbage_on_standard_input_is_answered(claude: Claude, data: bytes) -> None:
    claude.loop(tests=False)
    assert claude.hook("stop", data)["ok"] is True
    assert claude.hook("session-start", data) == {}


@pytest.mark.parametrize("data", GARBAGE, ids=lambda data: repr(data[:6]))
def test_any_garbage_as_the_state_holds_no_one(claude: Claude, data: bytes) -> None:
    claude.leave(data)
    answer = claude.hook("stop", claude.stop_2_1())
    assert answer["ok"] is True
    assert ".loop/state.json" in answer["systemMessage"]
    assert claude.hook("session-start", claude.start()) == {}


@pytest.mark.parametrize("cwd", ["/nowhere", "", "\0", "\ud800", "x" * 9999, None, 7, {}])
def test_any_working_directory_is_survived(claude: Claude, cwd: Any) -> None:
    assert claude.hook("stop", claude.stop_2_1(cwd=cwd))["ok"] is True
    assert claude.hook("session-start", claude.start(cwd=cwd)) == {}


@pytest.mark.parametrize("event", ["stop", "session-start"])
def test_a_working_directory_that_was_removed_is_survived(world: World, event: str) -> None:
    done = subprocess.run(
        ["sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && "$@"', "sh", *world.argv("hook", event)],
        cwd=world.project,
        env=world.env(),
        input=b"{}",
        capture_output=True,
        timeout=60,
        check=False,
    )
    answer = answered(done.returncode, done.stdout, done.stderr)
    assert answer.get("ok") is (True if event == "stop" else None)


@pytest.mark.parametrize("event", ["", "frobnicate", "--frobnicate", "stop\n"])
def test_an_unknown_event_is_no_reason_to_hold_anyone(claude: Claude, event: str) -> None:
    claude.loop(tests=False)
    assert claude.hook(event, claude.stop_2_1()) == {}


def test_settings_that_are_wrong_in_the_environment_do_not_hold_it(claude: Claude) -> None:
    wrong = {"PI_MARATHON_MAX_ITERATIONS": "many", "PI_MARATHON_MODE": "loud"}
    assert claude.hook("stop", claude.stop_2_1(), **wrong)["ok"] is True
    claude.loop(tests=False)
    assert claude.hook("stop", claude.stop_2_1(), HOME="", **wrong)["ok"] is False


@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", ">/dev/full", "<&- >&- 2>&-"])
def test_streams_that_are_not_there_are_survived(world: World, closing: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closing}', "sh", *world.argv("hook", "stop")],
        cwd=world.project,
        env=world.env(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert not done.stdout or answered(0, done.stdout)["ok"] is True


def test_an_input_that_never_ends_is_not_waited_for(world: World, claude: Claude) -> None:
    claude.loop(tests=False)
    with subprocess.Popen(
        world.argv("hook", "stop"), cwd=world.project, env=world.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as hook:
        assert hook.stdin is not None
        assert hook.stdout is not None
        hook.stdin.write(json.dumps(claude.stop_2_1()).encode())
        hook.stdin.flush()
        assert answered(hook.wait(50), hook.stdout.read())["ok"] is False


def test_on_a_terminal_it_waits_for_nothing_that_is_typed(typed: Callable[..., Pty]) -> None:
    pty = typed("hook", "stop")
    pty.send(b"{}\n")
    pty.expect(b"could not be read")
    assert pty.wait() == 0


def test_a_new_session_is_told_of_the_loop(claude: Claude) -> None:
    claude.loop(**{"tests pass": True, "no lint errors": False})
    for source in ("startup", "resume", "clear", "compact"):
        answer = claude.hook("session-start", claude.start(source=source, model="claude-opus-4-8"))
        assert list(answer) == ["hookSpecificOutput"]
        assert answer["hookSpecificOutput"]["hookEventName"] == "SessionStart"
        assert "no lint errors" in answer["hookSpecificOutput"]["additionalContext"]


def test_where_there_is_nothing_to_tell_a_new_session_is_told_nothing(claude: Claude) -> None:
    assert claude.hook("session-start", claude.start()) == {}
    claude.leave(b'{"status": "completed", "criteriaStatus": {"a": true}}')
    assert claude.hook("session-start", claude.start()) == {}


def in_session(world: World, *entries: Json) -> list[Json]:
    """A marathon whose agent runs the hook; what it was answered in each session."""
    world.script(*entries)
    assert world.run().returncode == 3
    return [json.loads(line) for line in (world.agent / "answers").read_text().splitlines()]


def asks(world: World, claude: Claude, event: str = "stop") -> str:
    """The shell command that runs the hook as Claude would, inside of a session."""
    (world.agent / "asked").write_text(json.dumps(claude.stop_1_0() if event == "stop" else claude.start()))
    command = " ".join(world.argv("hook", event))
    return f"{command} < {world.agent}/asked >> {world.agent}/answers"


def test_in_a_marathon_it_is_told_once_to_write_the_state(world: World, claude: Claude) -> None:
    claude.loop(tests=False)
    stop = asks(world, claude)
    answers = in_session(world, research(run=f"{stop}; {stop}; {stop}"))
    assert [answer["ok"] for answer in answers] == [False, True, True]
    assert answers[0]["reason"].startswith("next: write STATE.json as the prompt says")
    assert sorted(path.name for path in world.task.iterdir()) == [
        ".gitignore",
        ".marathon",
        "STATE.json",
        "instructions.md",
        "research.md",
    ]


@pytest.mark.parametrize("state", ["running", "paused"])
def test_in_a_marathon_it_may_stop_once_the_state_is_written(world: World, claude: Claude, state: str) -> None:
    proposal = json.dumps({"state": state, "phase": "research"})
    stop = asks(world, claude)
    answers = in_session(world, research(run=f"echo '{proposal}' > \"$MARATHON_TASK_DIR/STATE.json\"; {stop}"))
    assert answers == [{"ok": True, "reason": "the runner decides"}]


def test_in_a_marathon_a_state_that_cannot_be_read_is_said_before_the_session_is_lost(
    world: World, claude: Claude
) -> None:
    stop = asks(world, claude)
    (answer, again) = in_session(world, research(run=f"echo '{{' > \"$MARATHON_TASK_DIR/STATE.json\"; {stop}; {stop}"))
    assert (answer["ok"], again["ok"]) == (False, True)
    assert "cannot be read" in answer["reason"]


def test_in_a_marathon_a_new_session_is_told_its_phase(world: World, claude: Claude) -> None:
    (answer,) = in_session(world, research(run=asks(world, claude, "session-start")))
    context = answer["hookSpecificOutput"]["additionalContext"]
    assert "phase research" in context
    assert str(world.task) in context


def test_a_task_that_is_gone_holds_no_one(world: World, claude: Claude) -> None:
    gone = {"MARATHON_TASK_DIR": str(world.project / "gone"), "MARATHON_RUNNER_ID": "m-1"}
    assert claude.hook("stop", claude.stop_2_1(), **gone)["ok"] is True
    assert claude.hook("session-start", claude.start(), **gone) == {}


@pytest.mark.parametrize("event", ["stop", "session-start"])
def test_it_loads_nothing_heavy(claude: Claude, event: str) -> None:
    claude.loop(tests=False)
    heavy = ["pydantic", "questionary", "prompt_toolkit", "rich", "tenacity", "marathon.core.state", "subprocess"]
    report = f"import atexit, sys; atexit.register(lambda: print([x for x in {heavy} if x in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"{report}; import marathon.cli.main as m; m.main(['hook', {event!r}])"],
        cwd=claude.world.project,
        env={**claude.world.env(), "PYTHONPATH": str(ROOT)},
        input=json.dumps(claude.stop_2_1() if event == "stop" else claude.start()),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answer, loaded = done.stdout.splitlines()
    assert json.loads(answer)
    assert loaded == "[]"
