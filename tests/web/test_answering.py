"""A gate is answered on the page as anywhere else: the same offers, exactly one answer, and everyone notices."""

from __future__ import annotations

import contextlib
import http.client
import random
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from marathon.core.records import Answer, Gate
from marathon.errors import WrongUsage
from marathon.runner.status_query import Known
from marathon.runner.verdicts import open_gate, send
from tests.process.driver import Pty, until
from tests.support.loops import LoopWorld
from tests.support.world import World, chunk, code_of, finish, plan, research
from tests.web.site import Client, Site

Web = Callable[..., Site]


def answered(client: Client, answer: str, **form: str) -> int:
    return client.post(f"{client.task}/verdict", gate=client.gate(), answer=answer, **form).status


def test_from_the_list_to_the_next_session(web: Web, world: World) -> None:
    world.script(research(), plan(), plan(state="running", ask="Which database?"), finish())
    world.run()
    client = web().client()
    assert "waiting for you: review of research" in client.get(f"{client.base}/").body
    page = client.open_task()
    assert 'data-line="1-1"' in page
    assert client.buttons() == {
        "Continue to next phase (plan)": "continue",
        "Send back: say why, research is done again": "redo research",
        "Cancel this run": "cancel",
    }
    assert answered(client, "cancel") == 409  # needs the tick
    assert answered(client, "redo research") == 409  # needs words
    assert answered(client, "loop") == 409  # not offered
    assert answered(client, "oversight") == 409
    gate = client.gate()
    assert answered(client, "continue", words="mind the tests") == 303
    again = client.post(f"{client.task}/verdict", gate=gate, answer="continue", words="and more")
    assert again.status == 409
    assert "answered already" in again.body
    assert "and more" in again.body  # what was typed is not lost
    assert "a start: its gate is answered" in client.look()
    world.run()
    assert world.prompt(2).count("mind the tests") == 1
    assert "not open any more" in client.post(f"{client.task}/verdict", gate=gate, answer="continue").body
    assert answered(client, "redo plan", words="smaller steps") == 303
    world.run()
    assert client.look().count("Which database?") == 1, "in the gate, and not once more above it"
    assert client.buttons()["Answer the question"] == "answer"
    assert answered(client, "answer", words="sqlite") == 303
    world.run()
    assert "sqlite" in world.prompt(4)


def test_comments_and_steering_reach_the_next_session_once(web: Web, world: World) -> None:
    text = "# Plan\n\nfirst\n\n- step one\n- step two\n"
    world.script(
        research(), plan(write={"plan.md": text}), plan(write={"plan.md": f"new\n\n{text}\n## Answers\n\n- c1: done\n"})
    )
    world.run()
    world.cli("approve", "task")
    world.run()
    client = web().client()
    page = client.open_task()
    assert "on=5-5#say" in page
    assert 'value="5-5"' in client.look("?doc=plan.md&on=5-5")  # the form without a script
    made = client.post(f"{client.task}/comment", doc="plan.md", on="5-5", say="too big", kind="must")
    assert made.status == 303
    assert made.headers["location"].endswith("#c1")
    client.post(f"{client.task}/comment", doc="plan.md", on="", say="in general fine", kind="note")
    client.post(f"{client.task}/comment", doc="../../../etc/passwd", on="1", say="not a document", kind="note")
    client.post(f"{client.task}/withdraw", id="c3")
    assert "> - step one\n\ntoo big" in world.read("human.md")
    page = client.look()
    assert "With any answer the agent gets 2 comments of yours: c1 (must), c2 (note)." in page
    assert re.search(r'data-line="5-5".*?step one.*?id="c1".*?too big.*?step two', page, re.S)
    client.post(f"{client.task}/steer", words="use tabs")
    assert answered(client, "redo plan") == 303  # the comments say why
    world.run()
    for said in ("use tabs", "See c1, c2."):
        assert world.prompt(3).count(said) == 1, said
    assert "too big" in world.prompt(3)
    assert "in general fine" in world.prompt(3)
    page = client.look()
    assert "1 of 2 answered" in page, "what was withdrawn does not count"
    assert "not a document" not in page
    assert re.search(r'id="c1".*?plan.md line 7.*?answered.*?Answer: done', page, re.S)
    assert "not a document" not in world.prompt(3), "it was taken back before anyone was given it"
    assert "1 of 2 comments answered" in page
    written = world.cli("report", "task", "-o", "report.html", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert written.returncode == 0, written.stderr
    report = (world.project / "report.html").read_text()
    for said in ("too big", "Answer: done", "plan, round 2, against plan, round 1", "Cost and time of each session"):
        assert said in report
    assert "not a document" not in report
    assert not re.search(r"<script|<form|<a |src=|url\(", report)
    described = world.cli("report", "task", "--markdown").stdout
    assert "- c1 (must) `plan.md line 5`: `too big`\n  - `done`" in described
    assert "not a document" not in described
    compared = client.get(f"{client.task}/diff?a=1:plan:1&b=1:plan:2").body
    assert compared.count('class="new"') == 6
    assert 'class="gone"' not in compared
    assert "+ new" in client.get(f"{client.task}/diff?a=1:plan:1&b=1:plan:2&as=inline").body


def test_the_first_of_many_answers_counts(web: Web, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page and a shell at the same gate, 46 times. Both ask the same files, so exactly one is told yes."""
    world.script(research(), plan())
    world.run()
    monkeypatch.setenv("XDG_STATE_HOME", str(world.home / ".local/state"))
    client = web().client()
    client.open_task()
    winners = Counter[str]()
    gate, inbox = client.gate(), world.task / ".marathon/inbox"
    for turn in range(46):
        told = list[str]()
        known, opened = open_gate(world.task, world.project, gate)

        def by_shell(known: Known = known, opened: Gate = opened, told: list[str] = told) -> None:
            time.sleep(random.random() * 0.02)
            with contextlib.suppress(WrongUsage):
                send(known, opened, Answer(choice="continue"), world.code())
                told.append("shell")

        shell = threading.Thread(target=by_shell)
        shell.start()
        if client.post(f"{client.task}/verdict", gate=gate, answer="continue").status == 303:
            told.append("page")
        shell.join()
        assert len(told) == 1, (turn, told)
        winners.update(told)
        (message,) = inbox.glob("*.json")
        if turn < 45:
            message.unlink()
    assert set(winners) == {"shell", "page"}
    world.run()
    assert len(world.records("gate_answered")) == 1


def test_the_terminal_and_the_page_race_for_a_gate(web: Web, world: World, on_terminal: Callable[..., Pty]) -> None:
    """The runner's own terminal needs no file. The page says so when it was too late."""
    world.script(research(), plan(), chunk())
    terminal = on_terminal("--oversight", "colleague")
    client = web().client()
    for turn, late in enumerate((0.3, 0.45, 0.55, 0.7)):
        terminal.expect(b"Quit marathon")
        if not turn:
            client.open_task()
        gate = client.gate()
        terminal.send(b"\r")  # counts half a second later
        time.sleep(late)
        sent = client.post(f"{client.task}/verdict", gate=gate, answer="continue")
        given = until(lambda: world.records("gate_answered")[turn:], "an answer")  # noqa: B023
        assert sent.status == (303 if given[0]["by"] == "page" else 409)
    terminal.expect(b"Quit marathon")
    assert len(world.records("gate_answered")) == 4
    assert len(world.records("gate_opened")) == 5
    client.post(f"{client.task}/verdict", gate=client.gate(), answer="cancel", sure="on")
    terminal.expect(b"Answered from the page.")
    until(lambda: world.records("cancelled"), "the end")
    refused = client.post(f"{client.task}/comment", doc="research.md", say="too late")
    assert (refused.status, "too late" in refused.body) == (409, True), "no session would read it"
    assert 'id="comment"' not in client.look()


def test_a_gate_for_its_own_terminal_takes_nothing_here(web: Web, world: World) -> None:
    world.script(research())
    world.run("--answers-here")
    client = web().client()
    assert "takes answers only at its own terminal" in client.open_task()
    (gate,) = (str(record["token"]) for record in world.records("gate_opened"))
    assert client.post(f"{client.task}/verdict", gate=gate, answer="continue").status == 409


def test_live_parts_come_from_the_event_log(web: Web, world: World, in_background: Callable[..., object]) -> None:
    world.script(research(say=["looking around"], hold=True))
    in_background()
    until(lambda: world.holding(1), "the session")
    client = web().client()
    page = client.open_task()
    assert "Nothing to answer" in page
    source = re.search(r'data-live="([^"]+)"', page)
    assert source
    listening = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    listening.request("GET", source[1].replace("&amp;", "&"), headers={"Cookie": client.cookie})
    answer = listening.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")
    seen = b""
    while b"Session 1 (research) for" not in seen:
        seen += answer.read1(1000)
    began = time.monotonic()
    world.release(1)
    while b"event: moved" not in seen:
        seen += answer.read1(1000)
    assert time.monotonic() - began < 10
    listening.close()
    until(client.gate, "the gate")
    assert "looking around" in client.look()


def test_the_code_the_log_and_a_loop_are_shown(web: Web, world: World) -> None:
    subprocess.run(["git", "init", "-q"], cwd=world.project, check=True)
    world.script(
        research(),
        plan(),
        chunk(run="printf 'a = 1\\n' > 'new <b>file.py'", say=["<script>alert(1)</script>"]),
        finish(),
    )
    world.run()
    world.cli("approve", "task")
    world.run()
    world.cli("approve", "task")
    world.run("--oversight", "colleague")
    client = web().client()
    client.open_task()
    code = client.get(f"{client.task}/code").body
    assert "new &lt;b&gt;file.py" in code
    assert '<span class="new">+a = 1' in code
    log = client.get(f"{client.task}/log/1-3").body
    assert "&lt;script&gt;alert(1)" in log
    assert "<script>alert" not in log
    assert client.get(f"{client.task}/log/..-..").status == 200
    world.cli("loop", "start", "Make it <b>fast", "--lane", "perf", "--verify", "true", "--metric", "seconds")
    listed = re.search(r'href="([^"]+/loop/\w+)"[^>]*>perf', client.get(f"{client.base}/").body)
    assert listed
    loop = client.get(listed[1]).body
    assert "Make it &lt;b&gt;fast" in loop
    assert "<svg" in loop


def test_a_loop_that_waits_for_its_human_is_answered_on_the_page(web: Web, world: World) -> None:
    loop = LoopWorld(world)
    loop.start()
    loop.steps(then="true")
    loop.run(expected=5)
    client = web().client()
    page = client.open_task()
    assert "left nothing new to measure" in page
    client.code = partial(code_of, loop.task, world.home)
    assert answered(client, "continue") == 303
    assert "loop run perf/r1" in client.look()


def test_words_that_are_refused_come_back(web: Web, world: World) -> None:
    world.script(research())
    world.run()
    client = web().client()
    client.open_task()
    refused = client.post(f"{client.task}/comment", doc="research.md", on="", say="x" * 1_000_001, kind="note")
    assert refused.status == 409
    assert "Your words: xxx" in refused.body


def test_a_comment_on_a_line_that_is_not_drawn_is_shown(web: Web, world: World) -> None:
    """A rule, the address of a link, what stands before the text."""
    text = "---\ntitle: x\n---\n\n[a]: http://x.y\n\n***\n\n- one\n\n  ***\n\n- two\n\n***\n"
    world.script(research(write={"research.md": text}))
    world.run()
    client = web().client()
    client.open_task()
    for line in (15, 7, 11, 5, 1, 5):
        client.post(f"{client.task}/comment", doc="research.md", on=f"{line}", say=f"about {line}", kind="note")
    for way in ("", "&as=lines"):
        page = client.look(f"?doc=research.md{way}")
        assert re.findall(r'class="said">about (\d+)<', page) == ["1", "5", "5", "7", "11", "15"], way


def test_a_comment_quotes_the_lines_that_its_human_saw(web: Web, world: World) -> None:
    """A session may write the document anew while the human types."""
    world.script(research(write={"research.md": "one\n\ntwo\n\nthree\n"}))
    world.run()
    client = web().client()
    page = client.open_task()
    version = re.search(r'name="version" value="(\w+)"', page)
    assert version
    (world.task / "research.md").write_text("new\n\nzero\n\none\n\ntwo\n")
    seen = {"doc": "research.md", "version": version[1], "kind": "note"}
    for line, said in ("3", "why two?"), ("5", "why three?"):
        client.post(f"{client.task}/comment", on=line, say=said, **seen)
    assert "> two\n\nwhy two?" in world.read("human.md")
    page = client.look()
    assert re.search(r'data-line="7-7".*?id="c1".*?research.md line 7', page, re.S)
    assert "text gone: research.md line 5" in page


def test_the_page_that_w_opened_stays_until_the_browser_was_told(world: World, on_terminal: Callable[..., Pty]) -> None:
    world.script(research(), plan())
    terminal = on_terminal()
    terminal.expect(b"Quit marathon")
    terminal.send(b"w")
    found = re.search(rb"127\.0\.0\.1:(\d+)(/in\?token=\w+)", terminal.expect(b"Ctrl+C: stop"))
    assert found
    client = Client(int(found[1]))
    client.base = client.get(found[2].decode()).headers["location"].rstrip("/")
    client.open_task()
    sent = client.post(f"{client.task}/verdict", gate=client.gate(), answer="continue")
    assert sent.status == 303
    assert "Nothing to answer" in client.get(sent.headers["location"]).body
    terminal.expect(b"Answered from the page.")
    terminal.expect(b"Phase: plan")


def test_the_gate_on_the_page_shows_the_total_against_the_budget(web: Web, world: World) -> None:
    world.script(research(say=['{"marathon_usage": {"cost": 0.9, "turns": 1}}']))
    world.run("--max-cost", "10")
    assert "total: $0.90 of $10.00" in web().client().open_task()
