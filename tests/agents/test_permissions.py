"""What the runner allows an agent that asks: a table over kinds, paths and shell lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from marathon.agents.our_tools import is_ours
from marathon.agents.permissions import Request, allows, runs_only
from marathon.cli.commands.mcp import TOOLS

ROOTS = ("/project", "/elsewhere/task")


@pytest.mark.parametrize(
    ("kind", "paths", "expected"),
    [
        ("edit", ("/project/src/a.py",), True),
        ("edit", ("/elsewhere/task/plan.md",), True),
        ("read", ("/project",), True),
        ("other", ("/elsewhere/task/plan.md", "/elsewhere/task"), True),
        ("edit", ("/project/a", "/etc/passwd"), False),
        ("edit", ("/projectile/a",), False),
        ("read", ("/home/me/.ssh/id_ed25519",), False),
        ("delete", (), False),
        ("other", (), False),
        ("fetch", ("/project/a",), False),
        ("unheard-of", ("/outside",), False),
        ("edit", ("/project/.git/config",), False),
        ("edit", ("/project/sub/.GIT/hooks/pre-commit",), False),
        ("edit", ("/elsewhere/task/.marathon/journal.jsonl",), False),
        ("edit", ("/project/.github/ci.yml",), True),
        ("read", ("/project/.git/config",), True),
    ],
)
def test_files_inside_the_project_and_the_task_are_allowed(kind: str, paths: tuple[str, ...], expected: bool) -> None:
    assert allows(Request(kind, paths), ROOTS) is expected


@pytest.mark.parametrize(
    "line",
    [
        'pi-marathon wait 30 "CI runs"',
        "pi-marathon ask 'Which; one?'",
        "git add -A && git commit -qm 'One > two; three'",
        "cd /project/src && git status",
        "echo 'a line' >> '/elsewhere/task/work.md' && git add -f . 2>&1",
        "printf x > out.txt; true",
        "git status 2>/dev/null | npm test",
        "git commit -qm 'Fix #12\n\nIt was > 3; now it is not.'",
        "echo '>' '#1' > out.txt",
        "cd src; git add .;",
    ],
)
def test_these_lines_run(line: str) -> None:
    assert allows(Request("execute", ("/project",), line), ROOTS, ("npm test", *_allowed()))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "git push",
        "git -c core.editor=x commit",
        "pi-marathon approve task",
        "gitcommit",
        "git commit -m x\nrm -rf .",
        "git commit -m x & rm -rf .",
        "git status | sh",
        "git commit -m $'\\'' ; rm '",
        'git commit -m "$(rm -rf .)"',
        "git commit -m `rm -rf .`",
        "git commit -m 'open",
        "echo x > /etc/passwd",
        "echo x > ../../etc/passwd",
        "echo x > ~/.bashrc",
        "echo x &> /etc/passwd",
        "echo x >| /etc/passwd",
        "cat <(rm x)",
        "(git status)",
        "git() { rm x; }",
        "PATH=/evil git commit",
        "cd / && git status",
        "cd && echo x > .bashrc",
        "cd - && git status",
        "pi-marathon ask q <<END\nEND",
        "echo '>' > /etc/passwd",
        "echo \\> >> /etc/passwd",
        "echo x >\\\n/etc/passwd",
        "git status #'\nrm -rf . #'",
        'true;#"\nrm -rf . #"',
        "cd /elsewhere/task && echo x > ../project/file",
        "cd /elsewhere/task && cd ../project",
        "echo x > *.md",
        "echo x >",
        "echo x > ; true",
        "printf '[core]\\n fsmonitor = rm -rf .\\n' >> .git/config && git status",
        "echo x > /elsewhere/task/.marathon/journal.jsonl",
    ],
)
def test_these_lines_do_not(line: str) -> None:
    assert not runs_only(line, ROOTS, _allowed())


def test_a_redirection_through_a_link_that_leads_outside_is_refused(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "link").symlink_to(tmp_path)
    roots = (str(tmp_path / "project"),)
    assert runs_only("echo x > file", roots, ("echo",))
    assert not runs_only("echo x > link/file", roots, ("echo",))


def test_a_shell_that_goes_back_over_a_link_does_not_leave_the_project(tmp_path: Path) -> None:
    (tmp_path / "project" / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "project" / "link").symlink_to("a/b/c")
    roots = (str(tmp_path / "project"),)
    assert runs_only("cd link/.. && echo x > file", roots, ("echo",))
    assert not runs_only("cd link/../.. && echo x > file", roots, ("echo",))


def test_a_human_may_allow_everything() -> None:
    assert allows(Request("execute", ("/",), "rm -rf $HOME"), ROOTS, ("*",))
    assert not allows(Request("edit", ("/etc/passwd",)), ROOTS, ("*",))


def test_the_rule_that_would_allow_a_command() -> None:
    rules = [Request("execute", (), line).rule for line in ("git push origin", "make -j2", "npm", "")]
    assert rules == ["git push", "make", "npm", ""]


def _allowed() -> tuple[str, ...]:
    from marathon.agents.permissions import ALLOWED

    return ALLOWED


@pytest.mark.parametrize(
    ("kind", "title", "expected"),
    [
        ("other", "marathon_wait", True),
        ("other", "marathon_human_feedback", True),
        ("other", "mcp__marathon__multiloop_start", True),
        ("other", "marathon_status (marathon MCP Server)", True),
        ("other", "marathon_approve", False),
        ("other", "marathon_wait; rm -rf .", False),
        ("other", "marathon_wait (another MCP Server)", False),
        ("execute", "marathon_wait", False),
    ],
)
def test_our_own_tools_are_allowed_by_their_names(kind: str, title: str, expected: bool) -> None:
    assert is_ours(Request(kind, (), title)) is expected
    assert all(is_ours(Request("other", (), f"marathon_{tool.__name__}")) for tool in TOOLS)
