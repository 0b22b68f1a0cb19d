"""A marathon in the pi session that typed it: the real pi in a terminal, with a scripted model behind both agents."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from marathon.store.lock import holder_of
from tests.process.driver import alive, until
from tests.real.desk import Terminal
from tests.real.model_server import Request, ToolCall, Turn, Work, bash, coding_agent, write
from tests.real.real_world import RealWorld, quiet

DOWN, ENTER, ESCAPE, ALT_ENTER, NEWLINE = b"\x1b[B", b"\r", b"\x1b", b"\x1b\r", b"\n"


@pytest.fixture
def pi(real: RealWorld) -> Iterator[Callable[..., Terminal]]:
    """The human's own pi, with our extensions."""
    opened: list[Terminal] = []

    def start(*args: str) -> Terminal:
        argv = ["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(real.project), *real.pi.argv(*args)]
        env = real.env()
        witness = real.project.parent / "bin" / "pi-marathon"
        witness.parent.mkdir(exist_ok=True)
        program = shutil.which("pi-marathon", path=env["PATH"])
        witness.write_text(f'#!/bin/sh\necho "$@" >> {command_lines(real)}\nexec {program} "$@"\n')
        witness.chmod(0o755)
        opened.append(Terminal(argv, {**env, "PATH": f"{witness.parent}:{env['PATH']}"}))
        opened[-1].resize(50, 140)
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()
    for task in (real.task, *real.project.glob("docs/tasks/*")):
        real.cli("stop", "--now", str(task))
        until(lambda task=task: not runs(task), "the end of the runner")  # type: ignore[misc]


def runs(task: Path) -> bool:
    lock = task / ".marathon" / "lock"
    return lock.exists() and alive(json.loads(lock.read_text())["pid"])


def command_lines(real: RealWorld) -> Path:
    """What pi started our program with. Every user can read that."""
    return real.project.parent / "command-lines"


def loop_of(real: RealWorld) -> Path:
    (task,) = real.project.glob("docs/tasks/*")
    return task


def waits_for(real: RealWorld) -> ToolCall:
    """A command that runs until the file `go` is there. A held answer would make pi try again."""
    return bash(f"until [ -e '{real.project}/go' ]; do sleep 0.05; done; echo seen")


def in_front(real: RealWorld) -> list[Request]:
    """What the agent of the human's own session was asked."""
    return [request for request in real.server.requests if request.heading is None]


def pasted(text: str) -> bytes:
    return f"\x1b[200~{text}\x1b[201~".encode()


def type_once(terminal: Terminal, text: str) -> None:
    """A line and one Enter. A second Enter would answer the dialog that comes."""
    quiet(terminal)
    terminal.send(text.encode())
    quiet(terminal)
    terminal.send(ENTER)


def test_a_loop_is_shown_and_steered_and_afterwards_input_is_normal_again(
    real: RealWorld, pi: Callable[..., Terminal]
) -> None:
    def script(request: Request) -> Turn:
        if request.heading is None:
            return Turn("I am in front.")
        if request.heading[2] == 1:
            return Turn("I look around.", tools=[waits_for(real)]) if request.number == 1 else Turn("Later.")
        ticked = write(loop_of(real) / "task.md", "- [x] all of it\n")
        return Turn(tools=[ticked]) if request.number == 1 else Turn("Everything is ticked.")

    real.plays(script)
    terminal = pi()
    started = "/ralph start fix-types --max-iterations 3 No error is left"
    terminal.command(started, lambda: len(real.server.requests) == 1)
    terminal.until(lambda: "▸ bash until [ -e".encode() in terminal.seen, "the running command")
    terminal.until(lambda: "🔄 fix-types │ iteration 1/3 │ running │ ⏱ ".encode() in terminal.seen, "the widget")
    terminal.send(b"mind the cache" + ENTER + b"and the docs" + ENTER)
    terminal.expect("→ told: mind the cache".encode())
    terminal.expect("→ told: and the docs".encode())
    terminal.send(b"for later" + ALT_ENTER)
    terminal.expect("→ for the next session: for later".encode())
    terminal.command("/ralph status", lambda: b"State:     running" in terminal.seen)
    (real.project / "go").touch()
    terminal.until(lambda: b"fix-types is completed" in terminal.seen, "the end")
    first, second = real.prompts()
    assert "No error is left" in first
    assert "for later" not in first
    assert "for later" in second
    assert any(request.last_text == "and the docs" for request in real.server.requests if request.heading)
    assert not in_front(real)
    typed = command_lines(real).read_text()
    assert "tell" in typed
    assert not [words for words in ("No error", "the cache", "for later") if words in typed]
    terminal.send(b"hello" + ENTER)
    terminal.until(lambda: in_front(real), "the request in front")
    assert in_front(real)[0].last_text == "hello"
    assert "I look around." not in str(in_front(real)[0].messages)


def test_options_go_to_the_runner_and_never_into_the_goal(real: RealWorld, pi: Callable[[], Terminal]) -> None:
    real.plays(lambda request: Turn("I look around.", tools=[waits_for(real)]))
    terminal = pi()
    terminal.command("/ralph start x --sort-of Faster", lambda: b"No such option" in terminal.seen)
    assert not list(real.project.glob("docs/tasks/*"))
    options = "--max-cost 5 --set work.thinking=low --success 'It is green' --stop-with-pi -- --model lab/other"
    terminal.command(f"/ralph start x No error is left {options}", lambda: len(real.server.requests) == 1)
    task = loop_of(real)
    assert "No error is left\n" in (task / "instructions.md").read_text()
    assert "It is green" in (task / "instructions.md").read_text()
    assert not [word for word in ("max-cost", "model", "lab/other", "work.") if word in real.prompts()[0]]
    (runs_it,) = (line for line in command_lines(real).read_text().splitlines() if "--detach" in line)
    assert "--max-cost 5 --set work.thinking=low -- --model lab/other" in runs_it
    assert real.server.requests[0].body["model"] == "other"
    terminal.until(lambda: b"$0.000 " in terminal.seen or b"of $5" in terminal.seen, "the widget")


def test_ralph_lists_kills_and_cleans(real: RealWorld, pi: Callable[..., Terminal]) -> None:
    real.plays(lambda request: Turn("I look around.", tools=[waits_for(real)]))
    terminal = pi()
    terminal.command("/ralph start fix-types No error is left", lambda: len(real.server.requests) == 1)
    terminal.command("/ralph list", lambda: b"Sessions" in terminal.seen)
    type_once(terminal, "/ralph start another Nor a warning")
    terminal.expect(b"Start another beside it?")
    terminal.send(ENTER)  # No
    quiet(terminal)
    lock = loop_of(real) / ".marathon" / "lock"  # of the only one
    terminal.command("/ralph kill", lambda: holder_of(lock) is None)
    terminal.command("/ralph clean", lambda: b"Nothing to remove" in terminal.seen)


def test_a_gate_is_answered_in_place_and_by_no_stray_key(real: RealWorld, pi: Callable[..., Terminal]) -> None:
    (real.task / ".marathon").mkdir()
    (real.task / ".marathon" / "lock").write_text('{"pid": 1}')  # of a runner before a reboot; it is another one now
    work = coding_agent(real.task)

    def script(request: Request) -> Turn:
        if request.heading is None:
            return Turn("Rather good.")
        return Turn(tools=[waits_for(real)]) if request.heading[0] == "plan" else work(request)

    real.plays(script)
    terminal = pi()
    terminal.command("/marathon-loop task --stop-with-pi", lambda: b"What you type now is told" in terminal.seen)
    terminal.until(lambda: b"Continue to next phase (plan)" in terminal.seen, "the gate")
    terminal.send(b"no, wait" + ENTER)  # meant for the editor
    terminal.expect(b"/marathon-loop answers it")
    terminal.command("what do you think of it?", lambda: in_front(real))
    assert not real.records("gate_answered")
    terminal.expect(b"Rather good.")
    quiet(terminal)
    terminal.send(b"/marathon-loop")
    quiet(terminal)
    terminal.send(ENTER)
    terminal.expect(b"Continue to next phase (plan)")
    terminal.send(DOWN + ENTER)
    terminal.expect(b"What is there.")
    terminal.send(DOWN + DOWN + DOWN + ENTER)
    terminal.expect(b"Feedback:")
    terminal.send(b"use the index:" + NEWLINE + b"  it is there" + pasted("\n\nand ask\nif not") + ENTER)
    terminal.until(lambda: any((request.heading or ("",))[0] == "plan" for request in real.server.requests), "plan")
    (answered,) = real.records("gate_answered")
    assert (answered["choice"], answered["by"]) == ("continue", "command")
    assert "use the index:\n  it is there\n\nand ask\nif not\n" in real.read("human.md")
    assert "use the index" not in command_lines(real).read_text()
    assert runs(real.task)
    terminal.send(b"/quit" + ENTER)
    terminal.wait()
    until(lambda: not runs(real.task), "the end of the runner with pi")
    assert real.records("session_ended")[-1]["ending"] == "stopped"


def test_what_changed_meanwhile_is_undone_only_as_the_human_ticks_it(
    real: RealWorld, pi: Callable[[], Terminal]
) -> None:
    (real.project / "code.py").write_text("before\n")
    subprocess.run(["git", "add", "-A"], cwd=real.project, check=True)
    subprocess.run(["git", "commit", "-qm", "all"], cwd=real.project, check=True)
    work = Work(real.task).phase("research.md", "# Found\n\nAll of it.\n")

    def script(request: Request) -> Turn:
        assert callable(work)
        (real.project / "mine.py").write_text("the human's\n")
        turns = [Turn(tools=[write(real.project / "code.py", "theirs\n")]), *work(request)]
        return turns[min(request.number, len(turns)) - 1]

    real.plays(script)
    terminal = pi()
    terminal.command("/marathon-loop task", lambda: b"What you type now is told" in terminal.seen)
    terminal.until(lambda: b"2 files changed while research ran" in terminal.seen, "the line of the gate")
    terminal.until(lambda: b"See what changed meanwhile" in terminal.seen, "the gate")
    quiet(terminal)
    terminal.send(DOWN * 5 + ENTER)
    assert b"+theirs" in terminal.expect(b"[x] code.py")
    terminal.expect(b"a patch is kept")
    quiet(terminal)
    terminal.send(DOWN * 3 + ENTER)
    until(lambda: real.records("undone"), "the undo")
    assert (real.project / "code.py").read_text() == "before\n"
    assert (real.project / "mine.py").read_text() == "the human's\n"
    assert not real.records("gate_answered")


def test_the_agent_may_start_a_loop_if_the_human_says_yes_and_it_outlives_pi(
    real: RealWorld, pi: Callable[..., Terminal]
) -> None:
    asked = ToolCall("marathon_start", {"name": "fix-types", "task": "No error is left.", "maxIterations": 2})

    def script(request: Request) -> Turn:
        if request.heading:
            return Turn("All done.\n<loop-complete>") if request.number > 1 else Turn(tools=[waits_for(real)])
        return Turn("As you say.") if request.messages[-1]["role"] == "tool" else Turn(tools=[asked])

    real.plays(script)
    alone = subprocess.run(
        real.pi.argv("-p", "do it"), cwd=real.project, env=real.env(), capture_output=True, timeout=60, check=False
    )
    assert alone.returncode == 0
    assert "there is no human to ask" in real.server.requests[1].last_text
    terminal = pi()
    terminal.command("do it in a loop", lambda: len(real.server.requests) > 2)
    terminal.expect(b"Start the loop fix-types?")
    terminal.send(ESCAPE)
    terminal.until(lambda: "the human said no" in real.server.requests[-1].last_text, "the refusal")
    assert not list(real.project.glob("docs/tasks/*"))
    terminal.expect(b"As you say.")
    type_once(terminal, "again")
    terminal.expect(b"Start the loop fix-types?")
    terminal.send(ENTER)  # of someone who was typing
    terminal.expect(b"As you say.")
    terminal.until(lambda: "the human said no" in real.server.requests[-1].last_text, "the second refusal")
    type_once(terminal, "once more")
    terminal.expect(b"Yes, for at most $10.00")
    terminal.send(DOWN + DOWN + ENTER)
    terminal.expect(b"Cost at most, in dollars:")
    terminal.send(b"a little" + ENTER)
    terminal.expect(b"An amount such as 2.50, in dollars:")
    terminal.send(b"$2.5" + ENTER)
    terminal.until(lambda: any(request.heading for request in real.server.requests), "the loop's first session")
    terminal.until(lambda: any("It runs by itself" in each.last_text for each in in_front(real)), "the tool's result")
    terminal.send(b"/quit" + ENTER)
    terminal.wait()
    task = loop_of(real)
    assert runs(task)
    assert "of $2.50" in real.cli("status", str(task)).stdout
    again = pi()
    again.command(f"/marathon-loop {task}", lambda: b"What you type now is told to fix-types" in again.seen)
    again.expect("▸ bash until [ -e".encode())
    (real.project / "go").touch()
    again.until(lambda: b"fix-types is completed" in again.seen, "the end of the loop")
    assert '"finished"' in (task / ".marathon" / "journal.jsonl").read_text()


def test_a_second_start_asks_and_the_first_goes_on_in_the_background(
    real: RealWorld, pi: Callable[..., Terminal]
) -> None:
    real.plays(lambda request: Turn("I look around.", tools=[waits_for(real)]))
    terminal = pi()
    terminal.command("/ralph start fix-types No error is left", lambda: len(real.server.requests) == 1)
    type_once(terminal, "/ralph start another Nor a warning")
    terminal.expect(b"Start another beside it?")
    assert len(list(real.project.glob("docs/tasks/*"))) == 1
    terminal.send(DOWN + ENTER)
    terminal.until(lambda: "🔄 another │ iteration 1".encode() in terminal.seen, "the widget of the second")
    terminal.until(lambda: len(real.server.requests) == 2, "the second's first session")
    assert all(runs(task) for task in real.project.glob("docs/tasks/*"))
    terminal.command("mind the cache", lambda: "→ told: mind the cache".encode() in terminal.seen)
    (real.project / "go").touch()
    terminal.until(lambda: any(request.last_text == "mind the cache" for request in real.server.requests), "steering")
    (steered,) = {request.first_user_text for request in real.server.requests if request.last_text == "mind the cache"}
    assert "Nor a warning" in steered


def test_words_for_a_gate_that_was_answered_elsewhere_are_kept(real: RealWorld, pi: Callable[..., Terminal]) -> None:
    terminal = pi()
    terminal.command("/marathon-loop task", lambda: b"What you type now is told" in terminal.seen)
    terminal.expect(b"Continue to next phase (plan)")
    quiet(terminal)
    terminal.send(DOWN + DOWN + DOWN + ENTER)
    terminal.expect(b"Feedback:")
    terminal.send(b"use the index" + NEWLINE + b"and ask")
    terminal.expect(b"and ask")
    assert real.cli("approve", "task").returncode == 0
    until(lambda: real.records("gate_answered"), "the answer from elsewhere")
    terminal.seen = b""
    terminal.send(ENTER)
    terminal.expect(b"and ask")  # in pi's own editor
    assert not (real.task / "human.md").exists()
    terminal.until(lambda: b"waits for you" in terminal.seen, "the gate after the plan")


def test_text_and_output_appear_as_they_come_and_an_edit_shows_its_true_lines(
    real: RealWorld, pi: Callable[..., Terminal]
) -> None:
    notes = real.project / "notes.txt"
    notes.write_text("".join(f"line {number}\n" for number in range(1, 201)))
    half = threading.Event()
    prints = bash(f"echo counted-$((40+2)); until [ -e '{real.project}/go' ]; do sleep 0.05; done; echo seen-$((1+1))")
    edit = ToolCall("edit", {"path": str(notes), "edits": [{"oldText": "line 150\n", "newText": "line CL\n"}]})

    def script(request: Request) -> Turn:
        if request.number == 1:
            return Turn("The first half is here, and the second half follows.", tools=[prints], hold=half)
        return Turn(tools=[edit]) if request.number == 2 else Turn("All done.\n<loop-complete>")

    patient = {**real.pi.settings(), "httpIdleTimeoutMs": 60_000}
    (real.pi.agent_folder / "settings.json").write_text(json.dumps(patient))
    real.plays(script)
    terminal = pi()
    terminal.command("/ralph start fix-types --max-iterations 1 No error is left", lambda: real.server.requests)
    terminal.expect(b"The first half")
    assert not half.is_set()
    half.set()
    terminal.expect(b"follows.")
    terminal.expect(b"counted-42")
    (real.project / "go").touch()
    terminal.expect(b"seen-2")
    terminal.expect(b"-150 ")
    terminal.expect(b"+150 ")


def test_reload_keeps_the_transcript_and_so_does_a_later_pi(real: RealWorld, pi: Callable[..., Terminal]) -> None:
    def script(request: Request) -> Turn:
        if request.heading is None:
            return Turn("I am in front.")
        if request.number == 1:
            return Turn("I look around.", tools=[waits_for(real)])
        return Turn("It was there.\n<loop-complete>")

    real.plays(script)
    terminal = pi()
    terminal.command("hello", lambda: b"I am in front." in terminal.seen)
    type_once(terminal, "/ralph start fix-types --max-iterations 1 No error is left")
    terminal.expect(b"I look around.")
    terminal.expect("▸ bash until [ -e".encode())
    quiet(terminal, 1.5)
    terminal.seen = b""
    type_once(terminal, "/reload")
    terminal.expect(b"I look around.")
    terminal.expect(b"$ until [ -e")
    (real.project / "go").touch()
    terminal.expect(b"seen")
    terminal.expect(b"It was there.")
    terminal.expect(b"fix-types is completed")
    quiet(terminal)
    terminal.seen = b""
    type_once(terminal, "/reload")
    terminal.expect(b"I look around.")
    drawn = terminal.expect(b"It was there.")
    assert drawn.count(b"$ until [ -e") == 1
    type_once(terminal, "/quit")
    terminal.wait()
    later = pi("--continue")
    drawn = later.expect(b"I look around.") + later.expect(b"It was there.")
    assert drawn.count(b"$ until [ -e") == drawn.count(b"I look around.") == 1


def test_the_clock_does_not_jump_and_the_status_line_counts(real: RealWorld, pi: Callable[..., Terminal]) -> None:
    def script(request: Request) -> Turn:
        return Turn(tools=[bash("sleep 3")]) if request.number == 1 else Turn("Later.")

    real.plays(script)
    terminal = pi()
    terminal.command("/ralph start fix-types --max-iterations 3 No error is left", lambda: real.server.requests)
    began = time.monotonic()
    terminal.until(lambda: b"waits for you" in terminal.seen, "the limit")
    shown = [int(seconds) for seconds in re.findall("⏱ ([0-9]+)s".encode(), terminal.seen)]
    assert shown == sorted(shown)
    assert 9 <= shown[-1] <= time.monotonic() - began + 5
    assert all(f"ralph: fix-types ({number}/3)".encode() in terminal.seen for number in (1, 2, 3))


def test_a_new_pi_says_what_runs_and_a_part_of_a_name_is_enough(real: RealWorld, pi: Callable[..., Terminal]) -> None:
    def script(request: Request) -> Turn:
        if request.heading is None:
            asked = ToolCall("marathon_status", {"task": "types"})
            return Turn("So it is.") if request.messages[-1]["role"] == "tool" else Turn(tools=[asked])
        return Turn("I look around.", tools=[waits_for(real)]) if request.number == 1 else Turn("Done.")

    real.plays(script)
    made = real.cli("repeat", "--no-start", "--json", "fix-types", "No error is left")
    task = Path(json.loads(made.stdout)["task"])
    terminal = pi()
    terminal.command("/marathon-loop types --max-iterations 1", lambda: real.server.requests)
    terminal.expect(b"ralph: fix-types (1/1)")
    type_once(terminal, "/ralph detach")
    terminal.expect(b"fix-types goes on in the background")
    type_once(terminal, "how is it?")
    terminal.expect(b"So it is.")
    (answer,) = [json.loads(each.last_text) for each in in_front(real) if each.messages[-1]["role"] == "tool"]
    assert (answer["condition"], answer["iteration"]) == ("running", 1)
    terminal.send(b"/quit" + ENTER)
    terminal.wait()

    later = pi()
    later.expect(b"fix-types runs: /ralph attach fix-types")
    type_once(later, "/ralph attach typ")
    later.expect(b"ralph: fix-types (1/1)")
    type_once(later, "/marathon-steer types mind the cache")
    later.expect("→ told: types mind the cache".encode())  # to the one that is shown, with every word
    type_once(later, "/marathon-steer fix-types mind the docs")
    later.expect("→ told: mind the docs".encode())
    type_once(later, "/marathon-loop types --max-iterations 9")
    later.expect(b"It runs already, so the options do not count.")
    type_once(later, "/ralph status")
    later.expect(b"/ralph attach ")
    assert b"pi-marathon attach" not in later.seen
    (real.project / "go").touch()
    later.expect(b"Decide later")
    quiet(later)
    later.send(ENTER)
    type_once(later, "/quit")
    later.wait()
    last = pi()
    last.expect(b"fix-types waits for you: /marathon-loop fix-types")
    assert task.name.endswith("fix-types")


def test_a_part_of_another_tasks_name_asks_who_is_meant(real: RealWorld, pi: Callable[..., Terminal]) -> None:
    real.plays(lambda request: Turn("I look around.", tools=[waits_for(real)]))
    made = real.cli("repeat", "--no-start", "--json", "cache-size", "It is smaller")
    other = Path(json.loads(made.stdout)["task"])
    terminal = pi()
    terminal.command("/ralph start fix-types No error is left", lambda: real.server.requests)
    type_once(terminal, "/marathon-steer cache entries are old")
    terminal.expect(b"Is cache the task cache-size?")
    terminal.send(DOWN + ENTER)
    terminal.expect("→ told: cache entries are old".encode())
    type_once(terminal, "/marathon-steer cache entries are old")
    terminal.expect(b"Is cache the task cache-size?")
    terminal.send(ENTER)
    terminal.until(lambda: list((real.kept_of(other) / "inbox").glob("*.json")), "the message for the other")
