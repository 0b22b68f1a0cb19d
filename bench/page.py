"""How long the page takes to show a long document with many comments, and a long log."""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.listing import at_home
from bench.row import Row
from bench.scratch import MARATHON, WAITS_FOR_HUMAN, Scratch
from marathon.core.budgets import Usage
from marathon.core.comments import Comment, quote_of
from marathon.core.events import Text, ToolCalled, ToolEnded, Used, encode
from marathon.core.records import Commented

_PART = (
    "## Part {n}\n\nThe **limiter** of part {n} lives in `api/limit_{n}.py`, see [the page](http://a/{n}).\n\n"
    "- [ ] {n}. store the counters in one table, so that two processes agree\n- [x] answer 429\n\n"
)


def page(scratch: Scratch) -> list[Row]:
    scratch.new_task("reviewed")
    scratch.run(scratch.marathon("reviewed"), WAITS_FOR_HUMAN)
    task, times = scratch.project / "reviewed", scratch.count(9, 1)
    _write_long_review(task, scratch.count(1_000_000, 10_000), scratch.count(500, 5))
    with at_home(scratch):
        shown = _median(task, times, "research.md")
    opened = _in_chromium(scratch, task, times)
    (task / "research.md").write_text("short\n")
    _write_long_log(task / ".marathon/runs/001/events/001.jsonl", scratch.count(10_000_000, 10_000))
    with at_home(scratch):
        logged = _median(task, times, "instructions.md")
    about = f"median of {times}, from the files to HTML"
    return [
        Row("the page of 1 MB with 500 comments", shown, "s", 1, about),
        Row("the same, opened in Chromium", median(opened), "s", 1, f"median of {times}, until painted and loaded"),
        Row("the page of a session with 10 MB of events", logged, "s", 1, about),
    ]


def _median(task: Path, times: int, document: str) -> float:
    from marathon.web.task_page import task_page
    from marathon.web.view import look
    from marathon.web.views import Session

    took = []
    for _ in range(times):
        began = time.perf_counter()
        task_page(Session("/base", "csrf"), look("id", task, task.parent), {"doc": document}, "now")
        took.append(time.perf_counter() - began)
    return median(took)


def _in_chromium(scratch: Scratch, task: Path, times: int) -> list[float]:
    """From the click to the first paint and the load event, whichever is later, with the server of `review`."""
    from tests.process.driver import Pty
    from tests.web import chromium

    server = Pty([*MARATHON, "review", str(task)], scratch.environment())
    took: list[float] = []
    try:
        told = server.expect(b"Ctrl+C: stop").decode()
        with tempfile.TemporaryDirectory(dir=scratch.project, ignore_cleanup_errors=True) as profile:
            browser = chromium.start(Path(profile))
            try:
                browser.get("".join(re.findall(r"http://\S+/in\?\S+", told)))
                browser.get(browser.current_url + "?doc=research.md")  # the first visit also loads style and script
                for _ in range(times):
                    browser.refresh()
                    took.append(browser.execute_async_script(_WHEN_SHOWN) / 1000)
                assert browser.find_elements("css selector", "article .card"), "another page was measured"
            finally:
                browser.quit()
    finally:
        server.close()
    return took


_WHEN_SHOWN = """
const done = arguments[0];
const look = () => {
  const painted = performance.getEntriesByName("first-contentful-paint")[0];
  const loaded = performance.getEntriesByType("navigation")[0].loadEventEnd;
  return painted && loaded ? done(Math.max(painted.startTime, loaded)) : setTimeout(look, 20);
};
look();
"""


def _write_long_review(task: Path, size: int, comments: int) -> None:
    document = "".join(_PART.format(n=number) for number in range(size // len(_PART)))
    lines = document.count("\n")
    made = []
    for number in range(comments):
        first, last, quote = quote_of(document, number * lines // comments + 1, number * lines // comments + 3)
        made.append(Comment(f"c{number + 1}", "Why?", "must", "research.md", first, last, quote))
    (task / "research.md").write_text(document)
    with (task / ".marathon" / "journal.jsonl").open("a") as journal:
        journal.write(Commented(comments=made, shown=True).to_json() + "\n")


def _write_long_log(log: Path, size: int) -> None:
    events = [
        ToolCalled("1", "bash", {"command": "make test"}),
        ToolEnded("1", "bash", "a line of output\n" * 30),
        Used(Usage(cost=0.01, turns=1)),
        Text("What the agent says about it.\n"),
    ]
    once = b"".join(encode(event, 1.0) for event in events)
    log.write_bytes(once * (size // len(once)))
