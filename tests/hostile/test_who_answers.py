"""Nothing that works in a session answers, steers, ends or starts a marathon, however it hides, even with the code."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from marathon.cli.human import FOR_HUMANS
from marathon.process import tree
from marathon.process.signals import Signals
from marathon.process.start import Command
from marathon.process.supervisor import run
from marathon.runner.code_socket import handed_over
from marathon.store.gate_code import GateCodes
from tests.process.driver import Pty, until
from tests.support.debian import need_bubblewrap
from tests.support.world import ROOT, World, plan, research

MANY = ROOT / "tests" / "support" / "many_commands.py"
REFUSED = "is for the human and does nothing inside an agent's session."

# What an agent may type to get past the review of `other`, which waits with nobody there, and of `living`.
TYPED = {
    "approve": "approve other --code CODE",
    "redo": "redo other -m why --code CODE",
    "answer": "answer other text --code CODE",
    "approve --anyway": "approve other --anyway fine --yes --code CODE",
    "undo": "undo other file --code CODE",
    "cancel": "cancel other --yes",
    "comment": "comment other words",
    "comment --withdraw": "comment other --withdraw c1",
    "review": "review other",
    "check": "check other --trust",
    "tell": "tell other words",
    "attach": "attach living",
    "stop": "stop living --now",
    "rm": "rm other --yes",
    "rm --logs": "rm --logs --yes",
    "rm --archive": "rm --archive other --yes",
    "repair": "repair other --yes",
    "pr": "pr other",
    "--task": "--task other --auto-approve --trust --adopt",
    "run": "run other --auto-approve",
    "new --run": "new goal --run --trust",
    "repeat": "repeat name goal --trust",
    "loop run": "loop run lane --trust",
    "demo": "demo",
    "install": "install --service",
}
AND_HELP = {"words": "approve other -m --help --code CODE", "one word": "approve -m --help", "last": "redo -- --help"}
ALLOWED = {
    "status": "status other --json",
    "list": "list",
    "loop ls": "loop ls",
    "help": "approve --help",
}

# How it starts them: many_commands.py with its arguments, and the least environment that it needs.
WAYS = {
    "as it is": "{python} here",
    "without our variable": "env -u MARATHON_RUNNER_ID {python} here",
    "another folder of states": "PI_MARATHON_STATES=/nowhere {python} here",
    "without the files of the runners": "rm -rf {states}/*; env -u MARATHON_RUNNER_ID {python} here",
    "an empty environment": "env -i {least} {python} here",
    "on a terminal": 'script -qec "env -i {least} {python} here" /dev/null </dev/null',
    "as a daemon": "env -i {least} setsid {python} gone",
    "as a daemon on a terminal": 'env -i {least} setsid script -qec "setsid {python} gone" /dev/null </dev/null',
    "as if it were not Linux": "env -i {least} MARATHON_PORTABLE=1 setsid {python} gone",
}


def another(world: World, name: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Another task, at the review of its research."""
    folder = world.project / name
    folder.mkdir()
    (folder / "instructions.md").write_text("# Something else\n")
    words = world.task_args(*args)
    words[words.index("task")] = name
    return subprocess.run(
        world.argv(*words), cwd=world.project, env=world.env(), stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


@pytest.fixture
def others(world: World) -> Iterator[str]:
    """`other` waits with nobody there, and `living` at a gate of its runner. The code that was printed for `other`."""
    world.script(research())
    printed = another(world, "other")
    assert printed.returncode == 3, printed
    assert another(world, "living", "--detach").returncode == 0
    journal = world.kept_of(world.project / "living") / "journal.jsonl"
    until(lambda: journal.exists() and b"gate_opened" in journal.read_bytes(), "the other one waits")
    yield re.findall(r"approve other.* --code (\w+)", printed.stdout)[0]
    holder = json.loads((journal.parent / "lock").read_text())
    tree.end([process for process in [tree.look(holder["pid"])] if process], 5.0)


def token_of(world: World, name: str) -> str:
    text = (world.kept_of(world.project / name) / "journal.jsonl").read_text()
    return str(re.findall(r'"gate_opened".*"token": "(\w+)"', text)[-1])


def session(world: World, script: str, done: Path) -> subprocess.CompletedProcess[str]:
    """A session that runs this and waits until the file is there."""
    path = world.agent / "tries.sh"
    path.write_text(
        f"cd {world.project}\n{script}\nfor i in $(seq 1200); do [ -e {done} ] && break; sleep 0.05; done\n"
    )
    number = world.sessions() + 1
    world.script(*[research()] * (number - 1), research(run=f"sh {path} > {world.agent}/said 2>&1"))
    return world.run()


@pytest.mark.parametrize("way", WAYS)
def test_what_is_for_humans_does_nothing_below_a_session(world: World, others: str, way: str) -> None:
    assert TYPED.keys() >= FOR_HUMANS, "each has a line above"
    lines = {name: line.replace("CODE", others).split() for name, line in {**TYPED, **AND_HELP, **ALLOWED}.items()}
    lines["--task"] = [word if word != "task" else "other" for word in world.task_args("--auto-approve", "--trust")]
    asked, told = world.agent / "asked.json", world.agent / "told.json"
    asked.write_text(json.dumps(lines))
    least = f"HOME={world.home} XDG_STATE_HOME={world.home}/.local/state PATH=/usr/bin:/bin PYTHONPATH={ROOT}"
    python = shlex.join([sys.executable, "-P", str(MANY), str(asked), str(told)])
    line = WAYS[way].format(python=python, least=least, states=world.states)
    ran = session(world, line, told)
    assert ran.returncode == 3, ran
    found: dict[str, tuple[int, str]] = json.loads(told.read_text())
    assert {
        name: said for name, said in found.items() if name in TYPED and (said[0] != 2 or REFUSED not in said[1])
    } == {}
    assert {name: said for name, said in found.items() if name in ALLOWED and said[0] != 0} == {}
    for name in ("other", "living"):
        kept = world.kept_of(world.project / name)
        assert '"gate_answered"' not in (kept / "journal.jsonl").read_text()
        assert not list((kept / "inbox").glob("*.json"))
    assert not (world.project / "docs").exists()
    # And a human, who has the code, is believed.
    done = subprocess.run(
        world.argv("approve", "other", "--code", others.upper()),
        cwd=world.project,
        env=world.env(),
        capture_output=True,
    )
    assert done.returncode == 0, done


ASK = """
import os, pathlib, socket, sys
place, token, answer = sys.argv[1:]
os.chdir(place)
with socket.socket(socket.AF_UNIX) as runner:
    runner.connect("gate")
    try:
        runner.sendall(token.encode() + b"\\n")
        said = runner.recv(100)
    except OSError:
        said = b""
pathlib.Path(answer).write_bytes(b"asked: " + said)
"""


@pytest.mark.parametrize("how", ["", "env -i setsid ", "as a daemon"])
def test_the_socket_of_a_runner_tells_a_session_nothing(world: World, others: str, how: str) -> None:
    program, answer = world.agent / "ask.py", world.agent / "answer"
    program.write_text(ASK)
    kept, token = world.kept_of(world.project / "living"), token_of(world, "living")
    line = shlex.join([sys.executable, "-IS", str(program), str(kept), token, str(answer)])
    line = f"env -i setsid sh -c '(setsid {line} &) &'" if how == "as a daemon" else how + line
    assert session(world, line, answer).returncode == 3
    assert answer.read_bytes() == b"asked: "
    code = handed_over(kept, token)
    assert re.fullmatch(r"\w{6}", code or ""), "it tells a human's process"
    assert handed_over(kept, "0" * 16) is None, "of no other gate"
    assert (kept / "gate").stat().st_mode & 0o777 == 0o600


def test_in_the_sandbox_a_daemon_is_known_as_well(world: World) -> None:
    """It sees no process outside, so neither its guardian. What it is below was started with our variable."""
    need_bubblewrap()
    least = f"HOME={world.home} PATH=/usr/bin:/bin PYTHONPATH={ROOT}"
    approve = f"sleep 0.2; {shlex.join(world.argv('approve', 'task', '--code', 'aaaaaa'))} > said 2>&1; touch done"
    daemon = f"(env -i {least} setsid sh -c {shlex.quote(f'({approve}) &')}) &"
    # In the task's folder: research cannot write the project.
    (world.project / "tries.sh").write_text(f"cd task\n{daemon}\nuntil [ -e done ]; do sleep 0.05; done\n")
    assert world.cli("--task", "task", "--sandbox", "--agent", "command", "--", "sh", "tries.sh").returncode in (3, 5)
    assert REFUSED in (world.task / "said").read_text()


def test_no_file_or_command_line_tells_a_code(world: World, others: str, typed: Callable[..., Pty]) -> None:
    """Also not the log of a runner that a pool has started. A code in a message is spent."""
    for name in ("pooled", "beside"):
        (world.project / name).mkdir()
        (world.project / name / "instructions.md").write_text("# Something else\n")
    pooled = world.project / "pooled"
    args = world.task_args()
    pool = typed("run", "pooled", "beside", *args[args.index("--agent") :])
    pool.wait()
    in_pool = re.findall(rb"pooled.*?the gate's code: (\w+)", pool.seen, re.DOTALL)[0]
    living = handed_over(world.kept_of(world.project / "living"), token_of(world, "living"))
    everything = world.agent / "everything"
    looks = f"cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ > {everything}.1 2>/dev/null"
    reads = f"find {world.home} {world.states} {world.project} -type f -exec cat {{}} + > {everything} 2>/dev/null"
    session(
        world,
        f"{looks}; {reads}; PYTHONPATH={ROOT} {shlex.join(world.argv('status', 'other'))} >> {everything}",
        everything,
    )
    read = everything.read_bytes() + Path(f"{everything}.1").read_bytes()
    assert b'"gate_opened"' in read
    assert b"CODE" in (world.kept_of(pooled) / "output.log").read_bytes(), "the gate was printed there"
    for code in (others, in_pool.decode(), living):
        assert code
        assert code.encode() not in read
    assert world.cli("approve", "pooled", "--code", in_pool.decode()).returncode == 0
    hashes = [path.read_bytes() for path in (world.home / ".local/state/pi-marathon/codes").iterdir()]
    assert all(re.fullmatch(rb"[0-9a-f]{96}", each) for each in hashes), "salt and hash"


def test_a_code_that_something_puts_on_the_disk_does_not_open_a_living_gate(world: World, others: str) -> None:
    kept, token = world.kept_of(world.project / "living"), token_of(world, "living")
    forged = GateCodes(world.home / ".local/state/pi-marathon/codes").printed(token)
    (kept / "inbox").mkdir(exist_ok=True)
    verdict = {"kind": "verdict", "to": token, "choice": "continue", "text": "", "code": forged}
    (kept / "inbox/1.json").write_text(json.dumps(verdict))
    until(lambda: not (kept / "inbox/1.json").exists(), "the runner has looked at it")
    assert '"gate_answered"' not in (kept / "journal.jsonl").read_text()


def test_an_agent_is_not_given_the_terminals_of_the_human(world: World) -> None:
    (world.task / "instructions.md").write_text("# Do it\n\n## Checks\n\n```sh\nenv > ../agent/check\n```\n")
    world.script(research(), plan())
    world.run("--trust", TMUX="/tmp/tmux-0/default,1,0", TMUX_PANE="%1", STY="1.pts-0")
    given = json.loads((world.agent / "env-1").read_text())
    assert "MARATHON_RUNNER_ID" in given
    assert not {"TMUX", "TMUX_PANE", "STY"} & given.keys()


def test_the_humans_own_pi_is_no_session(tmp_path: Path) -> None:
    """What bare `pi-marathon` starts has a guardian, too."""
    said: list[bytes] = []
    look = "import os; from marathon.process import tree; print(tree.in_a_session(os.getpid()))"
    line = shlex.join([sys.executable, "-P", "-c", look])
    (tmp_path / "daemon").write_text(f"{line}; touch looked")
    wait = "until [ -e looked ]; do sleep 0.05; done; rm looked"
    (tmp_path / "look").write_text(f"(setsid sh daemon &) & {wait}; {line}")
    for session in (True, False):
        with Signals() as signals:
            run(
                Command(
                    ("sh", "look"),
                    tmp_path,
                    {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
                    session=session,
                ),
                signals=signals,
                on_output=lambda stream, line, complete: said.append(line),
                on_tick=lambda: False,
                on_interrupt=lambda: None,
                on_resume=lambda: None,
                timeout=30,
            )
    assert said == [b"True", b"True", b"False", b"False"]


def test_what_was_typed_while_an_agent_had_the_terminal_is_dropped(world: World) -> None:
    """An agent can type as well (TIOCSTI). Neither a gate nor the shell after us reads it."""
    world.script(research(hold=True))
    marathon = shlex.join(world.argv(*world.task_args("--mode", "tui", "--max-iterations", "1", "--oversight", "tool")))
    line = f'cd {world.project}; {marathon}; read -t 1 words; echo "the shell read <$words>"'
    terminal = Pty(["bash", "-c", line], world.env())
    try:
        until(lambda: world.holding(1), "the agent has the terminal")
        terminal.send(b"touch gotcha\n")
        runner = json.loads((world.kept / "lock").read_text())["runner"]
        message = {"kind": "stop", "to": runner, "now": False, "text": "", "choice": "", "phase": None}
        (world.kept / "inbox").mkdir(exist_ok=True)
        (world.kept / "inbox/1.json").write_text(json.dumps(message))
        world.release(1)
        terminal.expect(b"the shell read <>")
    finally:
        terminal.close()


def test_at_a_terminal_the_code_is_asked_for_and_a_start_needs_none(
    world: World, others: str, typed: Callable[..., Pty]
) -> None:
    asked = typed("approve", "other")
    asked.expect(b"The code, as it was printed")
    asked.send(b"aaaaaa\r")
    refused = asked.expect(b"(on a terminal)").decode()
    assert "That is not the code; nothing was changed." in refused
    assert "pi-marathon --task other" in refused
    assert asked.wait() == 2
    asked = typed("approve", "living", "--code", "aaaaaa")
    asked.expect(b"To answer without it: pi-marathon attach living")
    assert asked.wait() == 2
    shown = typed("status", "other")
    shown.wait()
    assert others.encode() not in shown.seen
    started = typed("--task", "other")
    started.expect(b"Quit marathon")
    started.send(b"?")
    told = started.expect(b"--code ") + started.expect(b"\n")
    code: Any = re.search(rb"(\w{6})\s*$", told)
    started.send(b"q")
    assert started.wait() == 3
    asked = typed("approve", "other")
    asked.expect(b"The code, as it was printed")
    asked.send(code[1] + b"\r")
    asked.expect(b"Approved: research")
    assert asked.wait() == 0
