"""Finding pi, and saying what is wrong with it before the first session; small scripts answer in its place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from marathon.agents.pi.find import EXTENSION, EXTENSIONS, Pi, check_start, find_pi, load_failure
from marathon.errors import AgentUnavailable

ROOT = Path(__file__).resolve().parents[2]


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def answering(path: Path, version: str) -> Path:
    return script(path, f'test "$*" = --version || exit 9\necho "{version}"')


def env(*folders: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.pathsep.join([*map(str, folders), os.defpath]), **more}


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(AgentUnavailable) as refused:
        find_pi(environ)
    said = str(refused.value)
    assert len(said.splitlines()) == 1
    return said


def test_pi_is_found_on_the_path(tmp_path: Path) -> None:
    program = answering(tmp_path / "bin" / "pi", "0.87.1")
    assert find_pi(env(tmp_path / "bin")) == Pi(str(program), (0, 87, 1))


def test_marathon_pi_goes_before_the_path(tmp_path: Path) -> None:
    answering(tmp_path / "bin" / "pi", "0.87.1")
    other = answering(tmp_path / "elsewhere" / "my pi", "1.5.0")
    assert find_pi(env(tmp_path / "bin", MARATHON_PI=str(other))) == Pi(str(other), (1, 5, 0))


def test_marathon_pi_may_name_a_program_on_the_path_and_empty_is_unset(tmp_path: Path) -> None:
    first, second = answering(tmp_path / "pi", "0.87.1"), answering(tmp_path / "pi-next", "1.5.0")
    assert find_pi(env(tmp_path, MARATHON_PI="pi-next")).program == str(second)
    assert find_pi(env(tmp_path, MARATHON_PI="")).program == str(first)


@pytest.mark.parametrize(
    ("said", "version", "settles"),
    [
        ("0.74.0", (0, 74, 0), False),
        ("0.80.3", (0, 80, 3), False),
        ("0.80.4", (0, 80, 4), True),
        ("0.87.1", (0, 87, 1), True),
        ("pi v1.5.0-beta.2 (node 22)", (1, 5, 0), True),
        ("10.0.0", (10, 0, 0), True),
    ],
)
def test_its_version_says_whether_it_settles(
    tmp_path: Path, said: str, version: tuple[int, int, int], settles: bool
) -> None:
    answering(tmp_path / "pi", said)
    pi = find_pi(env(tmp_path))
    assert (pi.version, pi.settles) == (version, settles)


def test_a_version_said_on_stderr_counts(tmp_path: Path) -> None:
    script(tmp_path / "pi", "echo 0.87.1 >&2")
    assert find_pi(env(tmp_path)).version == (0, 87, 1)


def test_a_missing_pi_comes_with_the_command_that_installs_it(tmp_path: Path) -> None:
    said = refusal({"PATH": str(tmp_path)})
    assert "npm install -g" in said
    assert "MARATHON_PI" in said


@pytest.mark.parametrize("wrong", ["missing", "folder", "plain-file"])
def test_a_wrong_marathon_pi_is_named_and_nothing_else_is_tried(tmp_path: Path, wrong: str) -> None:
    answering(tmp_path / "pi", "0.87.1")
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain-file").write_text("#!/bin/sh\necho 0.87.1\n")
    said = refusal(env(tmp_path, MARATHON_PI=str(tmp_path / wrong)))
    assert "MARATHON_PI" in said
    assert wrong in said


@pytest.mark.parametrize("version", ["0.73.9", "0.60.1", "0.9.99"])
def test_a_pi_that_is_too_old_is_named_with_its_version(tmp_path: Path, version: str) -> None:
    program = answering(tmp_path / "pi", version)
    said = refusal(env(tmp_path))
    assert str(program) in said
    assert version in said
    assert "npm install -g" in said


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ("exit 1", "Try it by hand"),
        ("exit 0", "Try it by hand"),
        ("echo no number here", "Try it by hand"),
        ("echo 0.87.1; exit 3", "Try it by hand"),
        ("kill -9 $$", "Try it by hand"),
        ("echo \"SyntaxError: The requested module 'node:module'\" >&2; exit 1", "Node 22.19"),
        ("echo \"Error: Cannot find module 'node:sqlite'\" >&2; exit 1", "Node 22.19"),
        ("printf '\\377\\376'; exit 1", "Try it by hand"),
    ],
)
def test_a_broken_pi_comes_with_the_command_that_shows_it(tmp_path: Path, body: str, hint: str) -> None:
    program = script(tmp_path / "pi", body)
    said = refusal(env(tmp_path))
    assert hint in said
    assert f"{program} --version" in said


def test_a_program_for_another_machine_is_a_refusal_and_no_traceback(tmp_path: Path) -> None:
    program = tmp_path / "pi"
    program.write_bytes(b"\x7fELF, but not really")
    program.chmod(0o755)
    assert f"{program} --version" in refusal(env(tmp_path))


def test_it_is_asked_without_our_input_and_without_looking_for_updates(tmp_path: Path) -> None:
    script(tmp_path / "pi", f"cat > '{tmp_path}/stdin'; echo $PI_SKIP_VERSION_CHECK > '{tmp_path}/skip'; echo 0.87.1")
    finding = "import os; from marathon.agents.pi.find import find_pi; find_pi(os.environ)"
    subprocess.run(
        [sys.executable, "-c", finding], input=b"typed ahead", env=env(tmp_path, PYTHONPATH=str(ROOT)), check=True
    )
    assert (tmp_path / "stdin").read_text() == ""
    assert (tmp_path / "skip").read_text() == "1\n"


# Its first start


def started(folder: Path, body: str, *args: str) -> frozenset[str]:
    return check_start(Pi(str(script(folder / "pi", body)), (0, 87, 1)), args, env(folder))


def answer(question: str, **data: object) -> str:
    return f"echo '{json.dumps({'id': question, 'type': 'response', 'success': True, 'data': data})}'"


NO_MODELS = answer("get_available_models", models=[])


def test_a_pi_without_a_login_is_said_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(AgentUnavailable) as refused:
        started(tmp_path, NO_MODELS)
    assert "/login" in str(refused.value)
    assert str(tmp_path / "pi") in str(refused.value)


def test_who_only_starts_pi_may_log_in_there(tmp_path: Path) -> None:
    pi = Pi(str(script(tmp_path / "pi", NO_MODELS)), (0, 87, 1))
    check_start(pi, (), env(tmp_path), needs_model=False)


def test_a_key_given_with_the_arguments_is_taken_at_its_word(tmp_path: Path) -> None:
    started(tmp_path, NO_MODELS, "--api-key", "k")


@pytest.mark.parametrize(
    "body", ["echo 'no JSON'; echo '[1]'; echo '{\"id\": 3}'", "exit 1", "echo oh dear >&2", "true"]
)
def test_whatever_else_it_says_is_not_our_business(tmp_path: Path, body: str) -> None:
    assert started(tmp_path, body) == frozenset()


def test_it_starts_as_in_a_session_and_tells_its_commands(tmp_path: Path) -> None:
    told = answer("get_commands", commands=[{"name": "scribe"}, {"name": "skill:loop"}, "odd"])
    commands = started(tmp_path, f"echo \"$*\" > '{tmp_path}/args'; {told}", "--model", "m")
    assert commands >= {"scribe", "skill:loop"}
    assert (tmp_path / "args").read_text() == f"--model m --mode rpc --no-session {' '.join(EXTENSIONS)}\n"


@pytest.mark.parametrize(
    ("failed", "owner", "culprit"),
    [
        ("/home/u/a.ts", str(EXTENSION), "/home/u/a.ts"),
        (str(EXTENSION), "/home/u/b c/index.ts", "/home/u/b c/index.ts"),
    ],
)
def test_another_extension_with_our_tools_is_named_with_the_cure(failed: str, owner: str, culprit: str) -> None:
    said = load_failure(
        f'Error: Failed to load extension "{failed}": Tool "human_feedback" conflicts with {owner}\nHint'
    )
    assert f"{culprit} also registers the tool human_feedback" in said
    assert str(EXTENSION) not in said
    assert "pi remove" in said
    assert "--no-extensions" in said


def test_an_extension_that_does_not_load_is_named_with_its_reason() -> None:
    said = load_failure(
        '\x1b[31mError: Failed to load extension "/u/a.ts": Failed to load extension: no such thing\x1b[39m'
    )
    assert "/u/a.ts: no such thing. Fix it" in said
    assert load_failure("Error: something else") == ""


def test_our_own_extension_is_not_to_be_moved_away() -> None:
    said = load_failure(f'Failed to load extension "{EXTENSION}": pi.on is not a function')
    assert "Update pi-marathon" in said
    assert "move" not in said
