"""Debian's Chromium without a window, driven by selenium, and axe for accessibility. Installed when missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from tests.process.driver import until
from tests.support.debian import do_without, ensure

HERE = Path(__file__).resolve().parent
AXE = HERE / "node_modules" / "axe-core" / "axe.min.js"
PICTURES = HERE / "pictures"
PAGE = "the page in a browser"
_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
)


def start(profile: Path) -> webdriver.Chrome:
    ensure(("chromium", "chromedriver"), ("chromium", "chromium-driver"), PAGE)
    options = Options()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*_FLAGS.split(), f"--user-data-dir={profile}", "--window-size=1280,900"):
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


class Page:
    def __init__(self, browser: webdriver.Chrome) -> None:
        self.browser = browser

    def find(self, selector: str) -> Any:
        return until(lambda: next(iter(self.browser.find_elements(By.CSS_SELECTOR, selector)), None), selector)

    def press(self, *keys: str) -> None:
        self.find("body").send_keys(*keys)

    def has(self, text: str) -> bool:
        return text in str(self.script("return document.body.innerText"))

    def wait(self, text: str) -> None:
        until(lambda: self.has(text), text)

    def script(self, script: str) -> Any:
        return self.browser.execute_script(script)

    def click(self, selector: str) -> None:
        """As a mouse does."""
        ActionChains(self.browser).click(self.find(selector)).perform()

    def type(self, words: str) -> None:
        """Key by key, to whatever has the focus, and slowly enough for the page to do between them what it does."""
        for key in words:
            ActionChains(self.browser).send_keys(key).pause(0.02).perform()

    def value(self, selector: str) -> str:
        return str(self.find(selector).get_attribute("value"))


def serious_problems(browser: webdriver.Chrome) -> list[str]:
    """What axe calls serious or critical on the page that is open."""
    if not AXE.exists():
        npm = shutil.which("npm")
        if npm is None:
            do_without(PAGE, "npm is not installed, so there is no axe")
        subprocess.run(
            [str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=HERE, check=True, timeout=300
        )
    browser.execute_script(AXE.read_text())
    found: list[dict[str, Any]] = browser.execute_async_script(
        "const done = arguments[0]; axe.run().then((told) => done(told.violations))"
    )
    return [
        f"{each['id']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def picture(browser: webdriver.Chrome, name: str) -> None:
    PICTURES.mkdir(exist_ok=True)
    browser.save_screenshot(str(PICTURES / f"{name}.png"))
