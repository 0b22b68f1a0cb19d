"""Any program as the agent. The prompt comes on its standard input, or in MARATHON_PROMPT_FILE on the terminal.

The program may report what it used: a line {"marathon_usage": {…}} on its output or in MARATHON_USAGE_FILE.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections import deque
from dataclasses import dataclass, replace

from marathon.agents.base import Host, Mode, Outcome, crash, interruption, run_program
from marathon.agents.reading import failure_of, reported_usage, reports_usage
from marathon.core.error_kind import is_blocking
from marathon.core.events import Notice, Used
from marathon.core.text import one_line, says_complete
from marathon.core.validation import Invalid
from marathon.errors import AgentUnavailable, WrongUsage
from marathon.process.input_line import InputLine, Typed, for_next_session
from marathon.process.start import Exit
from marathon.store.files import read_regular

_CLOSED_BY_HUMAN = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
_AT_ONCE = 1024 * 1024  # bytes of the usage file


@dataclass(frozen=True)
class CommandAgent:
    argv: tuple[str, ...]
    mode: Mode = "stream"
    name: str = "command"
    tells_cost: bool = False
    tells_tokens: bool = False
    has_tools: bool = False
    can_be_steered: bool = False

    def check(self) -> None:
        if not self.argv:
            raise WrongUsage("The command agent needs a program: pi-marathon --task DIR --agent command -- PROGRAM")
        if shutil.which(self.argv[0]) is None:
            raise AgentUnavailable(f"{self.argv[0]!r} was not found or is not executable. Check the name after --.")

    def run(self, host: Host) -> Outcome:
        host = replace(host, env={**host.env, "MARATHON_USAGE_FILE": host.usage_file})
        session = _Session(host)
        terminal = self.mode == "tui"
        typing = _Typing(host, host.line) if host.line and not terminal else None
        with typing.line.keys if typing else contextlib.nullcontext():
            exit = run_program(
                self.argv,
                host,
                terminal=terminal,
                on_line=session.hear,
                over=session.is_over,
                readers=typing.readers if typing else None,
                on_resume=typing.resumed if typing else lambda: None,
            )
            session.read_usage_file()
            if typing:
                typing.line.finish("The session", typing.obey)
        return _outcome(exit, session, terminal)

    def close(self) -> None:
        pass


def _outcome(exit: Exit, session: _Session, terminal: bool) -> Outcome:
    if by_runner := interruption(exit):
        return by_runner
    if exit.code == 0:
        done = says_complete(session.last_out)
        return Outcome("ended", seconds=exit.seconds, signal=done, last_words=session.last_lines())
    if terminal and exit.signal in _CLOSED_BY_HUMAN:
        return Outcome("left", "closed by the human", exit.seconds)
    words = session.last_words()
    said, failure = f": {one_line(words, 160)}" if words else "", failure_of(words)
    permanent = is_blocking(exit.code, words) or failure.kind == "login"
    cause, outage = crash(exit) + said, failure.kind == "outage" and not permanent
    retry_after = None if permanent else failure.retry_after
    return Outcome("crashed", cause, exit.seconds, permanent=permanent, retry_after=retry_after, outage=outage)


class _Session:
    """What one run of the program said."""

    def __init__(self, host: Host) -> None:
        self.last_out = ""  # its last line on standard output
        self._lines = deque([""], maxlen=3)  # the last ones of all
        self._host = host
        self._in_line: dict[str, bool] = {}  # by stream: the piece before was not the end of its line
        self._offset = 0  # in the usage file
        self._complained = False

    def hear(self, stream: str, line: str, complete: bool) -> bool:
        whole = complete and not self._in_line.get(stream)
        self._in_line[stream] = not complete
        if whole and stream == "out" and reports_usage(line):
            self._count(line)
            return False
        if line.strip():
            self._lines.append(line)
            self.last_out = line if stream == "out" else self.last_out
        return True

    def last_lines(self) -> str:
        """More than one, because some programs wrap what they say."""
        return " ".join(self._lines).strip()

    def last_words(self) -> str:
        """Its last line, or the last ones if only these are a complaint about the login."""
        last, lines = self._lines[-1], self.last_lines()
        return lines if failure_of(last).kind != "login" and failure_of(lines).kind == "login" else last

    def is_over(self) -> bool:
        self.read_usage_file()
        return self._host.meter.must_stop()

    def read_usage_file(self) -> None:
        """The lines that were added. A line that is still being written is left for the next time."""
        try:
            data = read_regular(self._host.usage_file, _AT_ONCE, self._offset) or b""
        except OSError:
            return  # the program put something else in its place
        whole = data[: data.rfind(b"\n") + 1]
        if not whole and len(data) > _AT_ONCE:
            whole = data  # no line of ours is that long
        self._offset += len(whole)
        for line in whole.decode("utf-8", "replace").splitlines():
            if line.strip():
                self._count(line)

    def _count(self, line: str) -> None:
        try:
            self._host.emit(Used(reported_usage(line)))
        except Invalid as error:
            if not self._complained:
                self._complained = True
                ignored = f"Ignored a marathon_usage line of the agent that makes no sense ({error})"
                self._host.emit(Notice(f"{ignored}: {one_line(line, 120)}", "warning"))


class _Typing:
    """The program cannot be told anything while it works, so what the human types is for the next session."""

    def __init__(self, host: Host, line: InputLine) -> None:
        self.line = line
        self.readers = {0: self.read}
        self._host = host

    def read(self) -> None:
        if typed := self.line.read():
            self.obey(typed)

    def obey(self, typed: Typed) -> None:
        if typed.leaves and self._host.detach:
            self.line.keys.restore()
            self._host.detach()
            self.readers.clear()
        elif typed.text:
            self._host.steer(typed.text, True)
            self._host.emit(for_next_session(typed.text))

    def resumed(self) -> None:
        """The shell had the terminal."""
        self.line.keys.again()
        self.line.show()
