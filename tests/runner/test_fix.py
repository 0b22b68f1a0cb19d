"""The workflow for a small change: one session, the criteria, and one review of the code."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

from tests.process.driver import Pty
from tests.support.world import World, finish

KEYS_SHOWN = b"[q]      Quit marathon"


def test_one_session_is_checked_and_its_code_is_reviewed(world: World, on_terminal: Callable[..., Pty]) -> None:
    (world.project / "login.py").write_text("before\n")
    text = "# Fix the login\n\n## Success Criteria\n\n- `grep -q after login.py`\n"
    (world.task / "instructions.md").write_text(text)
    for args in (["init", "-q"], ["add", "-A"], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "all"]):
        subprocess.run(["git", *args], cwd=world.project, check=True)
    world.script(finish(), finish(run="echo after > login.py"), finish(run="echo after all > login.py"))
    terminal = on_terminal("--workflow", "fix", "--trust", PAGER="cat")
    shown = terminal.expect(KEYS_SHOWN)
    assert b"Phase: implement | Iteration: 2" in shown, "the first session did not meet the criterion"
    assert "✓ ran: grep -q after login.py".encode() in shown
    assert b"Review the output: task/result.md" in shown
    assert b"[Enter]  Accept (this was the last phase)" in shown
    assert b"[g] code" in terminal.expect(b"[?] more"), "what there is to review"
    terminal.send(b"g")
    assert b"+after" in terminal.expect(b"? shows the options")
    terminal.send(b"r")
    terminal.expect(b"Esc back")
    terminal.send(b"all of it\r")
    assert b"Phase: implement | Iteration: 3" in terminal.expect(KEYS_SHOWN)
    assert "> all of it" in world.prompt(3)
    terminal.send(b"\r")
    terminal.expect(b"Completed")
    (commit,) = re.findall(rb"The changes: git diff (\w+)", terminal.expect(b"What to type next:"))
    diff = subprocess.run(["git", "diff", commit], cwd=world.project, capture_output=True, text=True, check=True).stdout
    assert "+after all" in diff
    assert terminal.wait() == 0
    assert [record["reason"] for record in world.records("gate_opened")] == ["review", "review"]
