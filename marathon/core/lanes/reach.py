"""Which files a change may touch: everything but what measures, or only what a human named."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase

from marathon.core.lanes.model import Check
from marathon.core.text import one_line

_TEST_FOLDERS = {"tests", "test", "__tests__", "spec", "specs", "testdata", "fixtures", "e2e"}
_CI_FOLDERS = {".github", ".gitlab", ".circleci", ".buildkite", ".woodpecker", ".cargo", ".vscode", ".husky"}
# Tests, builds and the settings of test tools: a guard runs them, or is told by them what to run.
_GUARDING = (
    *("test_*.py", "*_test.py", "*_test.go", "*.test.*", "*.spec.*", "*_spec.rb", "*Test.java", "*Tests.cs"),
    *("Makefile", "makefile", "GNUmakefile", "*.mk", "justfile", "Justfile", "Taskfile.y*ml", "Rakefile", "noxfile.py"),
    *("package.json", "pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "Cargo.toml", "build.rs", "go.mod"),
    *("build.gradle*", "pom.xml", "CMakeLists.txt", "composer.json", "Gemfile", ".gitlab-ci.yml", ".travis.yml"),
    *("Jenkinsfile", "Dockerfile", ".gitattributes", ".gitmodules"),
)
# A tool loads a file of this name by itself, wherever it lies.
_LOADED = (
    *("conftest.py", "sitecustomize.py", "usercustomize.py", "*.pth", "pytest.ini", ".pytest.ini", ".coveragerc"),
    *("jest.config.*", "vitest.config.*", "vite.config.*", ".mocharc*", "karma.conf.*", "babel.config.*", ".babelrc*"),
    *(".npmrc", ".yarnrc*", ".pnp.*", ".env", "phpunit.xml*", ".rspec", ".python-version", ".nvmrc", "pyvenv.cfg"),
)


def outside(
    changed: Iterable[tuple[str, bool]],
    only: Sequence[str],
    measures: Sequence[str],
    builtin: Collection[str],
    roots: Collection[str] = ("", "src", "lib"),
) -> list[str]:
    """The files that were changed and may not be. `changed` says which are new; `measures` is never to be touched."""
    return [path for path, new in changed if not _may(path, new, only, measures, builtin, roots)]


def _may(
    path: str,
    new: bool,
    only: Sequence[str],
    measures: Sequence[str],
    builtin: Collection[str],
    roots: Collection[str],
) -> bool:
    if path in only:  # named exactly
        return True
    if any(_covers(each, path) for each in measures) or (new and _is_loaded(path, builtin, roots)):
        return False
    if only:
        return any(_covers(each, path) for each in only)
    return not is_guarding(path)


def is_guarding(path: str) -> bool:
    parts = path.split("/")
    folders = {part.lower() for part in parts[:-1]}
    return bool(folders & (_TEST_FOLDERS | _CI_FOLDERS)) or _fits(parts[-1], (*_GUARDING, *_LOADED))


def _is_loaded(path: str, builtin: Collection[str], roots: Collection[str]) -> bool:
    """A tool's own name for a settings file, or a module that hides one of the language."""
    parts = path.split("/")
    if _fits(parts[-1], _LOADED):
        return True
    for root in roots:
        below = parts[len(root.split("/")) if root else 0 :] if not root or _covers(root, path) else []
        if below and re.sub(r"\..*", "", below[0]) in builtin and (len(below) > 1 or below[0].endswith((".py", ".so"))):
            return True
    return False


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, each) for each in patterns)


def _covers(named: str, path: str) -> bool:
    """Whether a path is what was named, lies below it, or fits it as a pattern."""
    named = named.rstrip("/")
    return (
        named in (".", path)
        or path.startswith(f"{named}/")
        or (any(c in named for c in "*?[") and fnmatchcase(path, named))
    )


def check(files: Sequence[str], only: Sequence[str]) -> Check:
    named = ", ".join(one_line(name, 100) for name in files[:5])
    told = f"{named} may not be changed (--only {' '.join(only) if only else 'PATH allows it'})" if files else None
    return Check(name="files", passed=not files, kind="files", evidence=told)
