"""Words typed on the page by a person: key by key after a click, in a real Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from tests.process.driver import until
from tests.support.world import World, plan, research
from tests.web.chromium import Page
from tests.web.site import Site

SAYS = "Why a token bucket, and not a counter?"  # c, d, j, k and ? stand for something on the page
DOCUMENT = "# Findings\n\nA token bucket per key.\n\n- one row per key\n  - and minute\n- no lock\n\nThe end.\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    world = World(tmp_path_factory.mktemp("typing") / "world")
    world.script(research(write={"research.md": DOCUMENT}), plan())
    world.run()
    site = Site(world)
    yield site
    site.terminal.close()


@pytest.fixture
def page(browser: webdriver.Chrome, site: Site) -> Page:
    """The task, signed in anew, with nothing typed yet."""
    browser.get(site.another_address())
    browser.execute_script("localStorage.clear(); sessionStorage.clear()")
    page = Page(browser)
    page.click("tbody a")
    page.wait("Your review of research")
    return page


def typed(page: Page, words: str) -> tuple[str, str]:
    """What stands in the form after these keys: the words and the lines."""
    page.type(words)
    return page.value("#say"), page.value("#on")


def test_words_typed_after_a_click_are_the_comment(page: Page) -> None:
    for line in ("3-3", "5-5", "6-6", "9-9"):
        page.click(f"[data-line='{line}'] > .at")
        assert typed(page, SAYS) == (SAYS, line)
        page.find("#say").clear()
        page.press(Keys.ESCAPE)
    page.click("aside #comment > summary")
    assert typed(page, SAYS) == (SAYS, "9-9"), "as it was the last time"


def test_words_typed_after_c_are_the_comment(page: Page) -> None:
    for down, line in enumerate(("1-1", "3-3", "5-5"), start=1):
        page.type("j" * (down if down == 1 else 1) + "c")
        assert typed(page, SAYS) == (SAYS, line)
        page.browser.refresh()
        assert typed(page, " And who asks?") == (f"{SAYS} And who asks?", line), "a reload takes nothing away"
        page.find("#say").clear()
        page.press(Keys.ESCAPE)
        for _ in range(down):
            page.type("j")  # to where it was before the reload


def test_an_empty_form_has_the_focus_after_a_reload_too(page: Page) -> None:
    page.click("[data-line='3-3'] > .at")
    page.browser.refresh()
    assert typed(page, SAYS) == (SAYS, "3-3")


def test_a_link_to_lines_opens_the_form_with_the_focus(page: Page) -> None:
    page.browser.get(str(page.find("[data-line='5-5'] > .at").get_attribute("href")))
    assert typed(page, SAYS) == (SAYS, "5-5")


def test_a_live_update_takes_neither_words_nor_focus(page: Page, site: Site) -> None:
    page.click("[data-line='9-9'] > .at")
    for number, said in enumerate(("", "Why a coun")):
        page.type(said)
        page.script("document.querySelector('main').marked = true")
        (site.world.task / "research.md").write_text(f"{DOCUMENT}\nMore {number}.\n")
        if not said:
            until(lambda: not page.script("return document.querySelector('main').marked"), "the new text")
            page.wait("More 0.")
        else:
            page.wait("Your text is kept")
    assert typed(page, "ter, and jobs?") == ("Why a counter, and jobs?", "9-9")
    page.press(Keys.ESCAPE)
    page.wait("More 1.")
    page.type("c")
    assert typed(page, " dj") == ("Why a counter, and jobs? dj", "9-9")


def test_no_shortcut_acts_while_a_form_is_open(page: Page) -> None:
    address = page.browser.current_url
    for opened in ("[data-line='3-3'] > .at", "aside details:not(#comment) > summary"):
        page.click(opened)
        page.click("h1")  # which takes the focus away
        page.type("jjcd?")
        page.type(Keys.ENTER)
        assert page.browser.current_url.partition("?")[0] == address
        assert page.script("return document.querySelectorAll('dialog[open]').length") == 0
        if "details" not in opened:
            assert page.value("#on") == "3-3"
            assert page.script("return document.querySelector('.here').dataset.line") == "3-3"
        page.press(Keys.ESCAPE)
    page.type("j")
    assert page.script("return document.querySelector('.here').dataset.line") == "5-5", "and they act again"


def test_words_survive_another_sign_in_until_they_are_sent(page: Page, site: Site) -> None:
    page.click("[data-line='3-3'] > .at")
    page.type(SAYS)
    page.click("#words")
    page.type("Not quite, because")
    page.browser.delete_all_cookies()
    page.click("#comment button[value=note]")
    page.wait("not signed in")
    page.browser.switch_to.new_window("tab")  # where the address of the terminal opens
    page.browser.get(site.another_address())
    page.click("tbody a")
    assert typed(page, " Hm?") == (f"{SAYS} Hm?", "3-3")
    assert page.value("#words") == "Not quite, because"
    page.click("#comment button[value=note]")
    page.wait("c1 note")
    for _ in range(2):
        assert page.value("#say") == "", "sent, so it is no draft any more"
        assert page.value("#words") == "Not quite, because"
        page.browser.refresh()
    assert f"{SAYS} Hm?" in site.world.read("human.md")
    assert page.browser.current_url.endswith("#c1")
    page.click("[data-line='9-9'] > .at")
    page.type("Then")
    page.press(Keys.ESCAPE)
    page.browser.get(page.browser.current_url.partition("#")[0] + "#c1")
    page.browser.refresh()
    assert typed(page, " what?") == ("Then what?", "9-9"), "although the address names another place"
    page.browser.close()
    page.browser.switch_to.window(page.browser.window_handles[0])


def test_words_survive_a_new_start_of_the_page(page: Page, site: Site) -> None:
    page.click("#words")
    page.type("Not before Monday")
    site.terminal.send(b"\x03")
    site.terminal.wait()
    again = Site(site.world)
    try:
        page.browser.get(again.another_address())
        page.click("tbody a")
        assert page.value("#words") == "Not before Monday"
    finally:
        again.terminal.close()
