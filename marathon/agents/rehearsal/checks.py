"""The project's own tests: how they are run, and what they said."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from marathon.agents.rehearsal.survey import Survey

LONGEST_RUN = 600


class Verdict(NamedTuple):
    """What a test run said; `failed` names the failures, so that two runs can be compared."""

    ok: bool
    words: str
    failed: frozenset[str] = frozenset()


def unittest_arguments(project: Path, survey: Survey) -> list[str]:
    """What to hand to `python` to run the tests, nothing where there are no unittest tests."""
    files = [file.path for file in survey.files if file.is_test and re.search(r"\bunittest\b", file.text)]
    named = [path for path in files if os.path.basename(path).startswith("test")]
    if not named:
        return []
    start = os.path.commonpath([os.path.dirname(path) or "." for path in named]) or "."
    top = ["-t", "."] if _is_package(project, start) else []
    return ["-m", "unittest", "discover", "-s", start, *top]


def command_line(project: Path, survey: Survey) -> str:
    """The same as a human would type it."""
    found = unittest_arguments(project, survey)
    prefix = "PYTHONPATH=src " if (project / "src").is_dir() else ""
    return f"{prefix}python {' '.join(found)}" if found else ""


def run_tests(project: Path, survey: Survey) -> Verdict:
    """Run them; no tests at all is a verdict too, and none of failure."""
    found = unittest_arguments(project, survey)
    if not found:
        return Verdict(True, "this project has no unittest tests to run")
    try:
        done = python(project, found, timeout=LONGEST_RUN)
    except subprocess.TimeoutExpired:
        return Verdict(False, f"not finished after {LONGEST_RUN} seconds", frozenset({"timeout"}))
    said = done.stderr.decode("utf-8", "replace")
    ran = re.search(r"^Ran (\d+) tests?", said, re.MULTILINE)
    failed = frozenset(re.findall(r"^(?:FAIL|ERROR): (.+)$", said, re.MULTILINE))
    count = ran.group(1) if ran else "no"
    # Newer Pythons end with a failure where no test was found.
    if ran and not failed and (done.returncode == 0 or count == "0"):
        return Verdict(True, f"{count} ran, all passed")
    return Verdict(False, f"{count} ran, {len(failed) or 'some'} failed", failed or frozenset({"exit"}))


def python(
    project: Path, arguments: list[str], timeout: float, stdin: bytes = b"", seed: str = "0"
) -> subprocess.CompletedProcess[bytes]:
    """Run Python in the project as it would import itself, leaving no compiled files behind."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    paths = [str(project / "src")] if (project / "src").is_dir() else []
    paths += [environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else []
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": seed}
    if paths:
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=environment,
        input=stdin,
        capture_output=True,
        timeout=timeout,
        check=False,
    )


def _is_package(project: Path, folder: str) -> bool:
    """Whether every folder on the way down is a package, as discovery from the top needs it."""
    parts = [] if folder == "." else folder.split("/")
    ways = ["/".join(parts[: at + 1]) for at in range(len(parts))]
    return bool(ways) and all((project / way / "__init__.py").is_file() for way in ways)
