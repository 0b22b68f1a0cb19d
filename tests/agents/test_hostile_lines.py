"""Shell lines that an agent could ask for. None that writes where it may not, or that starts a program, is allowed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from marathon.agents.acp_reading import denials
from marathon.agents.permissions import ALLOWED, Request, allows, explained, runs_only

# fmt: off
WRITES = (  # outside of the project, or into what is git's or ours
    "echo x > /etc/passwd", "echo x >> /etc/passwd", "echo x>/etc/passwd", "echo x >/etc/passwd", "> /etc/passwd",
    "echo x 1> /etc/passwd", "echo x 2> /etc/passwd", "echo x 1>> /etc/passwd", "echo x > a > /etc/passwd",
    "echo x &> /etc/passwd", "echo x >& /etc/passwd", "echo x >| /etc/passwd", "echo x &>> /etc/passwd",
    "echo x <> /etc/passwd", "echo x >! /etc/passwd", "echo x >>! /etc/passwd", "echo x >!/etc/passwd",
    "echo x > ../out", "echo x > ./../out", "echo x > sub/../../out", "echo x > 'sub'/../../out", "echo x > '../out'",
    'echo x > "../out"', "echo x > ..\\/out", "echo x > .\\./out", "echo x > ~/.bashrc", "echo x > ~root/x",
    "echo x > ~+/../out", "echo x > $HOME/x", "echo x > ${HOME}/x", 'echo x > "$HOME/x"', "echo x > `pwd`/../x",
    "echo x > =ls", "echo x > /dev/tcp/127.0.0.1/1", "echo x > /dev/../etc/passwd", "echo x > /dev/null/../x",
    "echo x > /proc/self/cwd/../x", "echo x > *.md", "echo x > sub/?", "echo x > {a,../out}", "echo x > [.][.]/out",
    "echo x > link/out", "echo x >> link/out", "cd link && echo x > out", "cd sub/../link && echo x > out",
    "echo x > .git/config", "echo x >> .git/config", "echo x > .git/hooks/pre-commit", "echo x > sub/.git/config",
    "echo x > .GIT/config", "echo x > .Git/hooks/pre-commit", "echo x > .g\u200cit/config",
    "echo x > .git\u200d/config",
    "echo x > ./.git/config", "echo x > sub/../.git/config", "echo x > .git", "echo x > sub/.git",
    "cd .git && echo x > config", "cd .git/hooks && echo x > pre-commit", "cd sub && echo x > ../.git/config",
    "echo x > .marathon/journal.jsonl", "echo x > .MARATHON/lock", "echo x > .marathon",
    "echo x > sub/.marathon/inbox/1",
    "echo x > HEAD", "echo 'ref: refs/heads/m' > sub/HEAD", "echo .. > sub/commondir", "echo x > sub/head",
    "cd /; echo x > etc/passwd", "cd / && git status", "cd", "cd && echo x > .bashrc", "cd; echo x > .bashrc",
    "cd -", "cd - && echo x > y", "cd +1", "cd ~", "cd ~ && echo x > .bashrc", "cd ~root", "cd ~+/..", "cd =ls",
    "cd ..", "cd ../..", "cd sub/../..", "cd sub && cd ../..", "cd sub && cd .. && cd ..", "cd -P ..", "cd -L /",
    "cd -- /", "cd 'sub' ..", "cd sub /", "cd su? && echo x > ../out", "cd l* && echo x > out", "cd {/,sub}",
    "cd {..,}/..", "cd [l]ink && echo x > out", "cd l[i]nk", "cd lin?", "cd */..", "cd $HOME", "cd `pwd`/..",
    "cd 2>/dev/null && echo x > .bashrc", "cd 1>&2 && echo x > .bashrc", "cd 2>&1; echo x > .bashrc",
    "cd 0</dev/null; echo x > .bashrc", "cd .git && git status", "cd link",
)
STARTS = (  # programs that are not on the list
    "rm -rf .", "sh", "bash -c 'rm x'", "env git status", "exec git status", "command git status", "eval git status",
    "git push", "git -c core.editor=x commit", "git -c core.fsmonitor=x status", "git -C / status",
    "git --git-dir=x add .",
    "git --exec-path=. status", "git config core.hooksPath .", "git add-x", "gitcommit", "git  stash", "git statu?",
    "git", "./git status", "sub/git status", "git\\ status", "'git status'", "git checkout .", "git clean -fdx",
    "git status --help", "git add --help", "git commit --help", "git status; rm x", "git status && rm x",
    "git status || rm x", "git status | sh", "git status |& sh", "git status & rm x", "git status\nrm x",
    "git status;rm x",
    "git status | tee /etc/passwd", "true|xargs rm", "! rm x", "time rm x", "if true; then rm x; fi", "{ rm x; }",
    "(rm x)", "(git status)", "$(rm x)", "`rm x`", 'echo "$(rm x)"', 'echo "`rm x`"', "echo $(rm x)", "echo <(rm x)",
    "echo >(rm x)", "git commit -m \"$(rm x)\"", "git commit -m `rm x`", "echo ${x:=`rm x`}", "echo $((a[`rm x`]))",
    "git() { rm x; }", "function git { rm x; }; git status", "alias git='rm x'", "PATH=. git status", "A=b git commit",
    "PATH=.;git status", "GIT_DIR=x git status", "export PATH=.", "declare PATH=.", "read PATH < file", "source file",
    ". file", ". ./file", "trap 'rm x' EXIT", "set -e; rm x", "coproc rm x", "hash -p ./git git", "enable -f ./x echo",
    "printf -v PATH . && git status", "printf -vPATH .", "printf -v 'PATH' %s . ; git status", "printf '-v' PATH .",
    "printf \"-v\" PATH .", "printf -\\v PATH .", "printf -- -v x; printf -v PATH .", "printf {-v,PATH,.}", "printf *",
    "printf -? PATH", "printf x* PATH", "printf %n PATH", "printf '.%n' PATH; git status", "printf '%5n' PATH",
    "printf '%-*n' 5 PATH", "printf '%ln' PATH", "printf '%d' 'PATH=1'", "printf '%(%F)T' 1", "printf", "printf --",
    "printf x {PATH}>out", "echo {PATH}>out; git status", "true {PATH}<out", "{PATH}>out git status", "echo {x}>>out",
    "git commit -m $'\\'' ; rm '", "git commit -m 'open", 'git commit -m "open', "echo \\", "git status \\\n; rm x",
    "git status #'\nrm x #'", "true;#\"\nrm x #\"", "true #\\\nrm x", "echo x <<E\n$(rm x)\nE", "cat <<<x",
    "echo x > ; rm x",
    "echo x >", "< file", "git\rstatus", "true\r\nrm x", "true\x00rm x", "echo\x0brm", "true ;; rm x", "true;&rm x",
    "pi-marathon approve task", "pi-marathon answer task yes", "pi-marathon redo task", "pi-marathon stop",
    "pi-marathon",
    "pi-marathon --task x --auto-approve", "pi-marathon rm task", "npx -y x", "ls;x", "ls\nx", "ech? x", "e{cho,x} y",
)
# fmt: on


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (folder / "link").symlink_to(tmp_path)
    (folder / "file").write_text("f\n")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    for key, value in (("user.name", "n"), ("user.email", "e")):
        subprocess.run(["git", "config", key, value], cwd=folder, check=True)
    return folder


def may(project: Path, line: str, *added: str, at: str = "") -> bool:
    paths = (str(project / at),) if at else ()
    return allows(Request("execute", paths, line), (str(project),), (*ALLOWED, *added))


def test_there_are_as_many_lines_as_was_promised() -> None:
    assert len({*WRITES, *STARTS}) == len(WRITES) + len(STARTS) >= 170


@pytest.mark.parametrize("line", [*WRITES, *STARTS])
def test_no_hostile_line_is_allowed(project: Path, line: str) -> None:
    assert not may(project, line)


@pytest.mark.parametrize(
    "line",
    [
        "cd sub && git status",
        "cd 'sub' && echo x > file 2>&1",
        "git add -A 2>/dev/null && git commit -qm 'x [y] {z}?'",
        "printf '%s\\n' 'a: 50%' > out.txt",
        "printf 'done: 100%%\\n'",
        "printf -- '%s' -v",
        "echo {a,b} *.py 2> errors.txt",
        "git status; ls sub/*",
    ],
)
def test_plain_work_still_is(project: Path, line: str) -> None:
    assert may(project, line)


@pytest.mark.parametrize(
    ("line", "harm"),
    [
        ("cd 2>/dev/null && echo x > .bashrc", "../home/.bashrc"),
        ("cd l?nk && echo x > out", "../out"),
        ("cd {link,} && echo x > out", "../out"),
        ("printf -v PATH evil; git status", "started"),
        ("printf 'evil%n' PATH; cd evil; git status", "started"),
        ("true {PATH}>out; git status", "started"),
        ("cd bare && git status", "started"),
        ("cd bare/objects && git status", "started"),
    ],
)
def test_these_do_harm_in_a_real_shell(project: Path, line: str, harm: str) -> None:
    """So that the table is about shells as they are."""
    program = f"#!/bin/sh\n: > {project}/started\n"
    for folder in ("evil", "4", "10", "11", "12", "evil/4", "evil/10", "evil/11", "evil/12"):
        (project / folder).mkdir()
        (project / folder / "git").write_text(program)
        (project / folder / "git").chmod(0o755)
    bare = project / "bare"
    (bare / "objects").mkdir(parents=True)
    (bare / "refs").mkdir()
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    (bare / "config").write_text(
        f"[core]\n repositoryformatversion = 0\n bare = false\n worktree = {bare}\n fsmonitor = {project}/evil/git\n"
    )
    assert not may(project, line)
    subprocess.run(["bash", "-c", line], cwd=project, env={**os.environ}, check=False, capture_output=True, timeout=20)
    assert (project / harm).exists()


@pytest.mark.parametrize(
    "config", ["core.hooksPath .husky/_", "core.hooksPath ./tools", "--global core.hooksPath .husky"]
)
def test_a_commit_that_starts_hooks_of_the_project_is_a_question_with_its_cure(project: Path, config: str) -> None:
    line = "git add -A && git commit -qm x"
    assert may(project, line)
    subprocess.run(["git", "config", *config.split()], cwd=project, check=True)
    assert not may(project, line)
    assert not may(project, "cd sub && git commit -m x")
    assert may(project, "git add -A && git status")
    assert may(project, line, "git commit"), "a human has added it"
    asked = explained(Request("execute", (), line), (str(project),))
    assert denials("gemini", [asked]) == (
        f"gemini was not allowed to: {line} (git commit starts the hooks in {os.path.normpath(config.split()[-1])}). "
        "To allow it, end the command with: -- --allow 'git commit'"
    )
    assert not explained(Request("execute", (), "git status"), (str(project),)).why


def test_a_hook_that_is_a_link_into_the_project_and_one_of_every_change(project: Path) -> None:
    (project / "tools").mkdir()
    (project / "tools" / "hook").write_text("#!/bin/sh\n")
    hooks = project / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-commit").write_text("the user's own, where an agent cannot write\n")
    assert may(project, "git commit -m x")
    (hooks / "commit-msg").symlink_to("../../tools/hook")
    assert not may(project, "git commit -m x")
    subprocess.run(["git", "config", "core.hooksPath", "tools"], cwd=project, check=True)
    assert may(project, "git status")
    (project / "tools" / "post-index-change").write_text("#!/bin/sh\n")
    assert not may(project, "git status")


@pytest.mark.parametrize(
    "setting", ["filter.x.clean tools/clean", "core.fsmonitor tools/watch", "hook.x.command tools/x"]
)
def test_a_program_that_the_repository_names_is_a_question(project: Path, setting: str) -> None:
    for harmless in ("core.fsmonitor true", "filter.lfs.process git-lfs"):
        name, value = harmless.split()
        subprocess.run(["git", "config", name, value + " filter-process" * ("lfs" in name)], cwd=project, check=True)
    assert may(project, "git add -A")
    subprocess.run(["git", "config", *setting.split()], cwd=project, check=True)
    assert not may(project, "git add -A")
    assert "which .git/config names" in explained(Request("execute", (), "git add -A"), (str(project),)).why


def test_a_line_runs_in_the_folder_that_the_agent_names(project: Path) -> None:
    assert may(project, "echo x > config", at="sub")
    assert not may(project, "echo x > config", at=".git")
    assert not may(project, "echo x > y", at="..")
    assert runs_only("echo x > ../y", (str(project),), ALLOWED, [str(project / "sub")]) is False
