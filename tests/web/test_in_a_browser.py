"""The page in a real Chromium: comments, differences, verdicts, live parts, two windows, hostile text, a phone."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from marathon.process import tree
from tests.process.driver import until
from tests.support.world import World, chunk, plan, research
from tests.web import chromium
from tests.web.chromium import Page
from tests.web.hostile import PAYLOADS
from tests.web.site import Site

PLAN = """# Plan: rate limits for the API

Every route gets a token bucket. The counters live in one table, so that two processes agree.

## Steps

- [x] 1. Add `limits.py` with a `Bucket` class
- [ ] 2. Store the counters
  - one row per key and minute
- [ ] 3. Answer 429 with a `Retry-After` header

```python
def allowed(key: str, now: float) -> bool:
    return bucket(key).take(now)
```

| route | per minute |
|---|---:|
| `/search` | 30 |
| everything else | 120 |

## Risks

The table grows. A job removes rows that are older than an hour.
"""
BETTER = (
    PLAN.replace("one row per key and minute", "one row per key, replaced in place")
    + "\n## Answers\n\n- c1: done, see step 2\n"
)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A plan in its second round, after a comment that was answered; and the page."""
    world = World(tmp_path_factory.mktemp("scene") / "world")
    world.task.rename(world.project / "rate-limits")
    world.task = world.project / "rate-limits"
    subprocess.run(["git", "init", "-q"], cwd=world.project, check=True)
    spends = ['{"marathon_usage": {"cost": 0.31, "input": 41000, "output": 900, "turns": 4, "model": "some-model"}}']
    world.script(
        research(say=spends),
        plan(write={"plan.md": PLAN}, say=[spends[0].replace("0.31", "0.24")], touch="limits.py"),
        plan(write={"plan.md": BETTER}, say=[spends[0].replace("0.31", "0.12")], touch="limits.py"),
        chunk(say=["Reading limits.py"], hold=True),
    )
    run(world)
    world.cli("approve", "rate-limits")
    run(world)
    site = Site(world)
    client = site.client()
    client.open_task()
    client.post(f"{client.task}/comment", doc="plan.md", on="9-9", say="A row per minute never shrinks.", kind="must")
    client.post(f"{client.task}/verdict", gate=client.gate(), answer="redo plan")
    run(world)
    yield site
    site.terminal.close()


def args(world: World) -> list[str]:
    return [world.task.name if each == "task" else each for each in world.task_args()]


def run(world: World) -> None:
    assert world.cli(*args(world)).returncode == 3


@pytest.fixture
def page(browser: webdriver.Chrome, scene: Site) -> Page:
    """The list of tasks, signed in anew."""
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    browser.get(scene.another_address())
    return Page(browser)


def test_a_review_by_keys_with_two_windows(page: Page, scene: Site) -> None:
    page.press("j", Keys.ENTER)
    page.wait("Your review of plan")
    first = page.browser.current_window_handle
    address = page.browser.current_url
    assert page.find(".card.answered").text.startswith("c1 must")
    chromium.picture(page.browser, "task")
    page.press("d")
    page.wait("What changed")
    page.wait("plan.md now")
    assert "replaced in place" in page.find("td.new mark").find_element(By.XPATH, "..").text
    assert "Answer: done, see step 2" in page.find(".diff .card.answered").text, "beside the changed lines"
    chromium.picture(page.browser, "diff")
    page.browser.back()
    page.press("j", "j", "c")
    page.find("#say").send_keys("Say how many processes.")
    page.browser.get(f"{address}?doc=research.md")
    assert page.find("#say").get_attribute("value") == "", "a draft belongs to its document and its lines"
    page.browser.get(address)
    assert page.find("#on").get_attribute("value") == "3-3"
    page.find("#comment button[value=note]").click()
    page.wait("Say how many processes.")
    assert "plan.md line 3 · not sent yet" in page.find("#c2").text
    page.script("scrollTo(0, 0)")
    chromium.picture(page.browser, "page")
    with on_a_phone(page, "dark"):
        chromium.picture(page.browser, "page-phone")
    page.press("?")
    assert page.find("dialog[open]").text.startswith("Keys")
    page.press(Keys.ESCAPE)
    page.browser.switch_to.new_window("tab")
    page.browser.get(address)
    page.find("#words").send_keys("half a thought")
    second = page.browser.current_window_handle
    page.browser.switch_to.window(first)
    page.find("#verdict [name=code]").send_keys(scene.world.code())
    page.find("#verdict button.main").click()
    page.wait("a start: its gate is answered")
    page.browser.switch_to.window(second)
    page.wait("The task has moved on")
    assert page.find("#words").get_attribute("value") == "half a thought"
    page.press(Keys.ESCAPE)
    page.wait("Nothing to answer")
    page.wait("Your words were not sent: half a thought")
    page.browser.close()
    page.browser.switch_to.window(first)


def test_the_page_follows_a_session_without_a_reload(page: Page, scene: Site) -> None:
    world = scene.world
    page.find("tbody a").click()
    page.wait("Nothing to answer")
    page.script("window.same = true")
    runner = subprocess.Popen(
        world.argv(*args(world)), cwd=world.project, env=world.env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        until(lambda: world.holding(4), "the session")
        page.wait("Session 4 (implement) for")
        page.wait("Reading limits.py")
        (log,) = world.task.glob(".marathon/runs/001/events/004.jsonl")
        said = next(line for line in log.read_text().splitlines() if "Reading limits.py" in line)
        with log.open("a") as more:
            more.write(said.replace("Reading", "Writing") + "\n")
        page.wait("Writing limits.py")
        page.script("document.getElementById('doing').textContent = ''; listen()")  # as after a look at another tab
        page.wait("Session 4 (implement) for")
        assert page.find("#log").text.count("Writing limits.py") == 1
        world.release(4)
        page.wait("Session 5 (implement) for")
        assert page.script("return window.same") is True
        chromium.picture(page.browser, "live")
    finally:
        below = tree.descendants(runner.pid)
        runner.kill()
        tree.end(below, 0.2)
        runner.wait()


def test_without_a_script_a_comment_is_a_link_and_a_form(page: Page) -> None:
    page.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    page.find("tbody a").click()
    page.find("nav a[href$='plan.md']").click()
    page.find("[data-line='24-24'] > .at").click()
    assert page.find("#on").get_attribute("value") == "24-24"
    page.find("#say").send_keys("Which job?")
    page.find("#comment button[value=must]").click()
    assert "Which job?" in page.find("#c3").text


def test_a_comment_is_typed_below_the_lines_that_were_selected_or_clicked(page: Page) -> None:
    page.find("tbody a").click()
    task = page.browser.current_url
    page.browser.get(f"{task}?doc=plan.md")
    page.script("getSelection().selectAllChildren(document.querySelector('pre [data-part]:nth-child(2)'))")
    page.press("c")
    assert page.find("#on").get_attribute("value") == "14-14", "a line of code"
    page.find(".block + #comment #say").send_keys(Keys.ESCAPE)
    assert page.find("aside > #comment").get_attribute("open") is None
    page.browser.get(f"{task}/diff")
    page.find("tr:has(td.new) .number a").click()
    assert page.find("#on").get_attribute("value") == "9-9", "from the difference to the form"
    page.find("li[data-line='9-9'] > #comment #say").send_keys("In place of what?", Keys.CONTROL, Keys.ENTER)
    assert page.find("#c4").text.startswith("c4 must"), "a question must be answered"


PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}


@contextlib.contextmanager
def on_a_phone(page: Page, scheme: str) -> Iterator[None]:
    colours = [{"name": "prefers-color-scheme", "value": scheme}]
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": colours})
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    yield
    page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_it_fits_a_phone_and_no_one_is_locked_out(page: Page) -> None:
    """axe finds nothing serious on any kind of page, in light and in dark."""
    base = page.browser.current_url
    page.find("tbody a").click()
    task = page.browser.current_url
    problems: list[str] = []
    places = {"list": base, "task": f"{task}?doc=plan.md&on=9-9", "diff": f"{task}/diff", "code": f"{task}/code"}
    for name, address in places.items():
        page.browser.get(address)
        problems += [f"{name}: {each}" for each in chromium.serious_problems(page.browser)]
    with on_a_phone(page, "dark"):
        for name, address in places.items():
            page.browser.get(address)
            problems += [f"{name} on a phone: {each}" for each in chromium.serious_problems(page.browser)]
            assert page.script("return document.documentElement.scrollWidth") <= PHONE["width"], name
            chromium.picture(page.browser, f"{name}-phone")
    assert problems == []


def test_nothing_that_an_agent_wrote_runs_or_loads(page: Page, scene: Site) -> None:
    assert len(PAYLOADS) >= 500
    world = scene.world
    bad = world.project / "<img src=x onerror=window.pwned=1>"
    bad.mkdir()
    (bad / "instructions.md").write_text("# Do it\n")
    world.task = bad
    document = "\n\n".join(PAYLOADS)
    note = " ".join(PAYLOADS[::13])
    name = "<script>window.pwned=1<!--.md"
    left = {"state": "paused", "phase": "research", "note": note, "answers": {"c1": note}}
    rating = {"points": 3, "missing": PAYLOADS[:20]}
    written = {"research.md": document, name: document}
    world.script({"write": written, "say": PAYLOADS[::13], "state": {**left, "rating": rating}})
    for path in world.agent.glob("prompt-*"):
        path.unlink()
    run(world)
    heads = [f"## Comment c{number} (must) · research.md line {number}" for number in range(1, 60)]
    said = zip(heads, PAYLOADS, PAYLOADS[::-1], strict=False)
    (bad / "human.md").write_text("".join(f"\n{head}\n\n> {quote}\n\n{text}\n" for head, quote, text in said))
    page.browser.refresh()
    page.browser.find_element(By.PARTIAL_LINK_TEXT, "onerror").click()
    task = page.browser.current_url
    for more in ("", "?doc=research.md&as=lines", "?doc=human.md", "/diff", "/code", "/log/1-1"):
        page.browser.get(task + more)
        found = page.script(
            """
            for (const each of document.querySelectorAll("article *")) each.dispatchEvent(new Event("mouseover"));
            const ours = location.origin;
            const bad = [...document.querySelectorAll("main :is(script, img, iframe, object, embed, base, link, " +
              "style, video, math, meta), article :is(form, input):not(.card *)")];
            const links = [...document.querySelectorAll("main a, main area")].filter(
              (a) => !/^(https?:|mailto:)$/.test(a.protocol));
            const handlers = [...document.querySelectorAll("*")].filter(
              (e) => [...e.attributes].some((a) => /^on|^style$|^srcdoc$/.test(a.name)));
            const loads = performance.getEntriesByType("resource").filter((e) => !e.name.startsWith(ours));
            return { pwned: window.pwned || 0, pages: document.querySelectorAll("main").length,
              bad: [...bad, ...links, ...handlers].map((e) => e.outerHTML.slice(0, 200)),
              loads: loads.map((e) => e.name) };
            """
        )
        assert found == {"pwned": 0, "pages": 1, "bad": [], "loads": []}, more
        shown = str(page.script("return document.querySelector('main').textContent"))
        assert shown.count("pwned") > (400 if more.startswith("?doc=r") or not more else 0), more
