"""The pins name exact versions of everything and no place to get them from; the version is told once."""

import re
import tomllib
from importlib.metadata import metadata
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import marathon
from tests.packaging.checkouts import ROOT

PINS = ("requirements.txt", "requirements-web.txt", "requirements-mcp.txt", "requirements-dev.txt")


def pins(file: str) -> list[str]:
    return [line for line in (ROOT / file).read_text().splitlines() if line and not line.startswith("#")]


def normal(requirement: str) -> str:
    """The name in a requirement, spelled as package indexes compare it."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name, requirement
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("file", PINS)
def test_every_pin_is_a_name_and_one_exact_version(file: str) -> None:
    assert pins(file)
    for pin in pins(file):
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", pin), pin


@pytest.mark.parametrize("file", [*PINS, "pyproject.toml"])
def test_no_host_name_or_address_is_written_down(file: str) -> None:
    text = (ROOT / file).read_text()
    assert not re.search(r"://|@|--(extra-)?index|--find-links|--hash|\w\.(org|com|io|net|dev)\b", text)


def test_no_package_is_pinned_twice() -> None:
    names = [normal(pin) for file in PINS for pin in pins(file)]
    assert sorted(names) == sorted(set(names))


def test_what_the_project_needs_is_pinned() -> None:
    needed = {normal(requirement) for requirement in project()["project"]["dependencies"]}
    chosen = {"click", "questionary", "pydantic", "tenacity"}
    assert needed == chosen | {"rich", "psutil", "platformdirs", "markdown-it-py", "prompt-toolkit"}
    assert needed <= {normal(pin) for pin in pins("requirements.txt")}


def test_what_the_page_needs_is_an_extra_and_pinned() -> None:
    needed = {normal(requirement) for requirement in project()["project"]["optional-dependencies"]["web"]}
    assert needed == {"starlette", "uvicorn"}
    assert needed <= {normal(pin) for pin in pins("requirements-web.txt")}


def test_what_the_mcp_server_needs_is_an_extra_and_pinned() -> None:
    assert project()["project"]["optional-dependencies"]["mcp"] == ["mcp>=2"]
    assert "mcp" in {normal(pin) for pin in pins("requirements-mcp.txt")}


def test_what_the_checks_need_is_pinned() -> None:
    groups, build = project()["dependency-groups"], project()["build-system"]["requires"]
    needed = {normal(requirement) for requirement in [*groups["dev"], *build]}
    assert needed <= {normal(pin) for pin in pins("requirements-dev.txt")}


def test_changelog_begins_with_the_version_of_the_package() -> None:
    newest = re.search(r"^## \[([^]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest.group(1) == marathon.__version__


@pytest.mark.parametrize("python", re.findall(r"python(3\.\d+)", (ROOT / "bin" / "setup.sh").read_text()))
def test_the_pins_are_all_that_is_needed_on_every_python_that_setup_looks_for(python: str) -> None:
    """They are installed without looking for more, so a package that only one Python needs would be missing there."""
    pinned = {normal(pin) for file in PINS for pin in pins(file)}
    as_there = {"python_version": python, "python_full_version": f"{python}.0"}
    for name in pinned:
        about = metadata(name)
        assert SpecifierSet(about["Requires-Python"] or "").contains(f"{python}.0"), name
        for each in map(Requirement, about.get_all("Requires-Dist") or []):
            if each.marker is None or each.marker.evaluate({**as_there, "extra": ""}):
                assert normal(each.name) in pinned, f"{name} needs {each} with Python {python}"
