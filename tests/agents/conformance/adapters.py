"""The table of adapters: how each agent is started with the scripted model, and what it can do."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.real.install import ensure_pi
from tests.real.model_server import ModelServer, Script, ToolCall, Turn, bash, coding_agent, refused, write
from tests.real.pi_home import PiHome
from tests.real_agents.install import ensure_agents
from tests.real_agents.models import Anthropic, Chat, Gemini, Responses
from tests.support.world import World

HERE = Path(__file__).resolve().parent
REAL_AGENTS = "MARATHON_REAL_AGENTS"  # bin/test-agents sets it
PATIENCE = 180.0  # seconds for a real program on a busy machine; nothing here waits that long when it works


class ModelWorld(World):
    """A World whose agent asks `server`; its script may be changed at any time."""

    def __init__(self, folder: Path, adapter: Adapter) -> None:
        super().__init__(folder)
        self.adapter = adapter
        self.folder = folder
        self.server = adapter.server(coding_agent(self.task, chunks=1))
        self.server.__enter__()
        self.extra = adapter.env(self)
        self.more = adapter.free  # arguments for the agent
        for words in (["init", "-q"], ["config", "user.name", "agent"], ["config", "user.email", "agent@localhost"]):
            subprocess.run(["git", *words], cwd=self.project, check=True)

    def close(self) -> None:
        self.server.__exit__(None, None, None)

    def plays(self, script: Script) -> None:
        self.server.script = script

    def env(self, **more: str) -> dict[str, str]:
        env = super().env(**self.extra, **more)
        bin = self.folder / "bin"
        return {**env, "PATH": f"{bin}:{env['PATH']}"} if bin.is_dir() else env

    def run(self, *args: str, timeout: float = PATIENCE, **env: str) -> subprocess.CompletedProcess[str]:
        return super().run(*args, timeout=timeout, **env)

    mode = ""
    tail: tuple[str, ...] = ()  # after --, instead of all that

    def task_args(self, *args: str) -> list[str]:
        after = ["--", *self._arguments()] if self._arguments() else []
        mode = ["--mode", self.mode] if self.mode else []
        return ["--task", "task", "--agent", self.adapter.agent, *mode, *args, *after]

    def _arguments(self) -> tuple[str, ...]:
        """Of the acp agent, ours come before the program."""
        if self.tail:
            return self.tail
        ours, theirs = self.more, self.adapter.args
        return (*ours, *theirs) if self.adapter.agent == "acp" else (*theirs, *ours)

    def on_path(self, name: str, argv: Sequence[str]) -> None:
        """A program of that name for the runner and the agent."""
        program = self.folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
        program.chmod(0o755)

    def texts(self) -> str:
        """Everything the model was ever sent."""
        return "\n".join(json.dumps(request.body, ensure_ascii=False) for request in self.server.requests)


@dataclass(frozen=True)
class Adapter:
    """What one agent is, and what the suite may expect of it."""

    agent: str
    server: type[ModelServer]
    env: Callable[[ModelWorld], dict[str, str]]
    args: tuple[str, ...] = ()
    steers: bool = True  # inside a session
    cost: bool = True
    tokens: bool = True
    status: bool = True  # tells the HTTP status of an error
    counts: bool = True  # tells each request while it works
    settles: bool = True  # tells what it used when it is cut short
    free: tuple[str, ...] = ()  # arguments that let it run every command
    limited: Callable[[int], Turn] | None = field(
        kw_only=True
    )  # a provider's answer when its limit resets at this time
    log_in: str = ""  # the cure at the gate, where the key is wrong
    denies: ToolCall | None = None  # a call that it may not make, and the words at the gate
    denied: str = ""
    allows: tuple[str, ...] = ()
    tools: str | None = None  # what it puts before the names of our tools over MCP; None if it is not given them


def _command(world: ModelWorld) -> dict[str, str]:
    return {"MODEL_URL": world.server.url}


def _pi(world: ModelWorld) -> dict[str, str]:
    home = PiHome(world.folder / "pi", ensure_pi(), world.server.url)
    world.states, world.home = home.states, home.home
    world.on_path("pi", home.install.command)
    return {name: value for name, value in home.env().items() if name not in ("PATH", "PYTHONPATH", "TERM")}


def _claude(world: ModelWorld) -> dict[str, str]:
    world.on_path("claude", [str(ensure_agents().claude)])
    home = world.folder / "claude"
    home.mkdir()
    trusted = {str(world.project): {"hasTrustDialogAccepted": True}}
    (home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True, "projects": trusted}))
    return {
        "ANTHROPIC_BASE_URL": world.server.url.removesuffix("/v1"),
        "CLAUDE_CODE_OAUTH_TOKEN": "no-secret",  # only a subscription has limits that reset
        "CLAUDE_CONFIG_DIR": str(home),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def _codex(world: ModelWorld) -> dict[str, str]:
    world.on_path("codex", [str(ensure_agents().codex)])
    home = world.folder / "codex"
    home.mkdir()
    provider = f'name = "lab"\nbase_url = "{world.server.url}"\nwire_api = "responses"\nenv_key = "LAB_KEY"\n'
    # The tests lie in the folder for temporary files, which is writable otherwise.
    sandbox = "exclude_slash_tmp = true\nexclude_tmpdir_env_var = true\n"
    (home / "config.toml").write_text(
        f'model = "scripted"\nmodel_provider = "lab"\n\n[model_providers.lab]\n{provider}\n'
        f'[sandbox_workspace_write]\n{sandbox}\n[projects."{world.project}"]\ntrust_level = "trusted"\n'
    )
    temporary = world.folder / "tmp"  # Codex puts its helpers into its home unless that is a temporary folder
    temporary.mkdir()
    return {"CODEX_HOME": str(home), "LAB_KEY": "no-secret", "TMPDIR": str(temporary)}


def _gemini(world: ModelWorld) -> dict[str, str]:
    world.on_path("gemini", ["node", str(ensure_agents().gemini)])
    folder = world.folder / "gemini" / ".gemini"
    folder.mkdir(parents=True)
    auth = {"auth": {"selectedType": "gemini-api-key"}}
    quiet = {"privacy": {"usageStatisticsEnabled": False}, "general": {"disableAutoUpdate": True}}
    (folder / "settings.json").write_text(json.dumps({"security": auth, **quiet}))
    return {
        "GEMINI_CLI_HOME": str(folder.parent),
        "GEMINI_API_KEY": "no-secret",
        "GOOGLE_GEMINI_BASE_URL": world.server.url.removesuffix("/v1"),
    }


def _opencode(world: ModelWorld) -> dict[str, str]:
    world.on_path("opencode", [str(ensure_agents().opencode)])
    model = {"limit": {"context": 200_000, "output": 8000}, "cost": {"input": 10, "output": 20}, "tool_call": True}
    options = {"baseURL": world.server.url, "apiKey": "no-secret"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"scripted": model}}
    config = {"model": "lab/scripted", "share": "disabled", "autoupdate": False, "provider": {"lab": provider}}
    off = ("AUTOUPDATE", "MODELS_FETCH", "DEFAULT_PLUGINS", "LSP_DOWNLOAD")
    return {
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
        **{f"OPENCODE_DISABLE_{name}": "1" for name in off},
        **{f"XDG_{name}_HOME": str(world.folder / "opencode") for name in ("DATA", "CACHE", "CONFIG")},
    }


def _claude_limit(resets_at: int) -> Turn:
    unified = {"status": "rejected", "reset": str(resets_at), "representative-claim": "five_hour"}
    window = {"5h-status": "rejected", "5h-reset": str(resets_at)}
    headers = {f"anthropic-ratelimit-unified-{name}": value for name, value in {**unified, **window}.items()}
    error = {"type": "rate_limit_error", "message": "This request would exceed your limit"}
    return Turn(status=429, body={"type": "error", "error": error}, headers=headers)


def _codex_limit(resets_at: int) -> Turn:
    error = {"type": "usage_limit_reached", "message": "The usage limit has been reached", "resets_at": resets_at}
    headers = {"x-codex-primary-used-percent": "100", "x-codex-primary-reset-at": str(resets_at)}
    return Turn(status=429, body={"error": {**error, "plan_type": "plus"}}, headers=headers)


def _limit_in_words(resets_at: int) -> Turn:
    clock = time.strftime("%I:%M%p", time.gmtime(resets_at)).lower()
    return refused(429, f"You've hit your 5-hour limit · resets {clock} (UTC)")


def _chat_limit(resets_at: int) -> Turn:
    error = {"message": "Limit reached", "type": "rate_limit", "resets_at": resets_at}
    return Turn(status=429, body={"error": error})


ADAPTERS = {
    "command": Adapter(
        "command",
        ModelServer,
        _command,
        args=(sys.executable, "-IS", str(HERE / "model_agent.py")),
        steers=False,
        limited=_limit_in_words,
    ),
    "acp": Adapter(
        "acp",
        ModelServer,
        _command,
        args=(sys.executable, "-ES", str(HERE / "acp_agent.py")),
        counts=False,
        free=("--allow", "*"),
        limited=_limit_in_words,
        tools="",
        log_in="log in",
        denies=bash("git push"),
        denied="acp was not allowed to: git push. To allow it, end the command with: -- --allow 'git push'",
        allows=("--allow", "git push"),
    ),
    "pi": Adapter("pi", ModelServer, _pi, limited=_chat_limit, log_in="/login"),
    "claude": Adapter(
        "claude",
        Anthropic,
        _claude,
        limited=_claude_limit,
        log_in="/login",
        denies=bash("git push"),
        denied="Claude was not allowed to use: Bash(git push:*). To allow it, end the command with: -- --allowedTools "
        '"Bash(git push:*)"',
        allows=("--allowedTools", "Bash(git push:*)"),
    ),
    "codex": Adapter(
        "codex",
        Responses,
        _codex,
        cost=False,
        limited=_codex_limit,
        log_in="codex login",
        denies=ToolCall(
            "exec_command",
            {"cmd": "git push", "sandbox_permissions": "require_escalated", "justification": "May I push?"},
        ),
        denied="Codex was not allowed to: git push. To allow everything, end the command with: -- -c sandbox_mode=",
        allows=("-c", "sandbox_mode=danger-full-access"),
    ),
    "gemini": Adapter(
        "gemini",
        Gemini,
        _gemini,
        steers=False,
        settles=False,
        cost=False,
        counts=False,
        free=("--allow", "*"),
        limited=None,
        tools="mcp_marathon_",
        log_in="/auth",
        denies=bash("git push"),
        denied="gemini was not allowed to: git push. To allow it, end the command with: -- --allow 'git push'",
        allows=("--allow", "git push"),
    ),
    "opencode": Adapter(
        "opencode",
        Chat,
        _opencode,
        tokens=False,
        status=False,
        counts=False,
        limited=None,
        tools="marathon_",
        log_in="opencode auth login",
        denies=write(Path("/outside-of-the-project.md"), "It is not mine."),
        denied="opencode was not allowed to: use /outside-of-the-project.md.",
    ),
}


def available(name: str) -> bool:
    """Whether its program is there for the whole suite."""
    return name in ("command", "acp") or bool(os.environ.get(REAL_AGENTS))
