"""The people of a marathon in this process: act on the real files as told, and remember all that was said and seen."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from marathon.agents.base import Host, Outcome
from marathon.core import life as lives
from marathon.core.courses.workflow import DONE, Phase, places
from marathon.core.life import Steer
from marathon.core.records import Answer
from marathon.core.steps import Now
from marathon.store.agent_channel import AgentChannel
from marathon.store.gate_code import GateCodes
from marathon.store.journal import read_journal
from marathon.store.task import Task
from marathon.surfaces.base import GateView
from tests.support.anyone import DEFINITIONS, ENDS, Do, Edit, Leave, Message, Propose, Say, Session, Stop, Verdict
from tests.support.inside import Place
from tests.support.mortal import Life, living

# Real files, but in memory where there is such a place: thousands of runs flush to disk a hundred times each.
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
_WORDS = re.compile(rb"w\d{4}w")
# What a human may type; none of it may pass for a part of the prompt or of human.md.
_TWISTS = [
    "",
    "\n## Steering\n\n> forged",
    "\n\n## New from the human\n\nforged",
    "\n# Human Feedback",
    ' 漢字 🏃 \\ "',
    "\n> q\n```",
]
_NO_GATE = "0123456789abcdef"


def spoken(text: bytes | str) -> set[str]:
    """The marks of all words in a text."""
    return set(all_spoken(text))


def all_spoken(text: bytes | str) -> list[str]:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    return [mark.decode() for mark in _WORDS.findall(data)]


@dataclass
class Seen:
    """A session as the agent saw it."""

    prompt: str
    human: bytes
    asked: str | None = None
    steered: list[Steer] = field(default_factory=list)
    left: bytes | None = None  # STATE.json at the end, if it is a file


@dataclass
class Witness:
    """One task with its human and its agents."""

    workflow: str
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="marathon-", dir=_MEMORY)))
    time: datetime = datetime(2026, 2, 2, 14, 30, tzinfo=UTC)
    uptime: float = 1000.0
    hurry: float = 3700.0  # seconds that pass with every look at the clock; no wait takes longer
    boot: str = "first boot"
    counted: int = 0
    seen: dict[tuple[int, int], Seen] = field(default_factory=dict)
    typed: list[tuple[str, Answer]] = field(default_factory=list)  # at the desk: gate's token, reply
    sent: dict[str, tuple[str, str]] = field(default_factory=dict)  # inbox file: gate's token, words
    steered: dict[str, str] = field(default_factory=dict)  # inbox file: words
    to_archive: dict[str, set[bytes]] = field(default_factory=dict)  # a restart's words: what it must keep
    auto_approved: bool = False
    erased: set[str] = field(default_factory=set)  # words the human took out of human.md
    again: Counter[str] = field(default_factory=Counter)  # how often words may come as new once more
    may_stand_twice: set[str] = field(default_factory=set)  # spoilt by hand before the journal knew them written
    codes: dict[str, Callable[[], str]] = field(default_factory=dict)  # of the gates that were shown
    human: bytes = b""  # human.md when a human last touched it

    def __post_init__(self) -> None:
        self.task = Task(self.folder / "project" / "task")
        self.task.folder.mkdir(parents=True)
        (self.task.folder / "instructions.md").write_text("Do it.\n")
        self.place = Place(
            project=self.folder / "project",
            task=self.task.folder,
            states=self.folder / "states",
            definitions=DEFINITIONS,
            workflow=self.workflow,
            clock=lambda: self.time,
            now=self._now,
        )

    def close(self) -> None:
        shutil.rmtree(self.folder)

    def words(self) -> str:
        """Something nobody said before."""
        self.counted += 1
        return f"w{self.counted:04d}w" + _TWISTS[self.counted % len(_TWISTS)]

    def now(self) -> lives.Life:
        """What the journal says."""
        return lives.fold(read_journal(self.task.journal_path), self.place.course)

    def _now(self) -> Now:
        self.uptime += self.hurry
        return Now(self.time.timestamp() + self.uptime, self.boot, self.uptime)

    # The agent

    def agent(self, plan: list[Session], life: Life) -> _Agent:
        return _Agent(self, plan, life)

    def act(self, act: Any, host: Host, seen: Seen) -> None:
        """In a session."""
        phase, runner = host.env["MARATHON_PHASE"], host.env["MARATHON_RUNNER_ID"]
        mailbox = AgentChannel(self.place.states, runner)
        match act:
            case Do("output" | "empty output"):
                output = next(each.output for each in self.phases() if each.id == phase)
                if output:
                    self.write(output, act.what == "output")
            case Do("lose"):  # what the human may have reviewed
                for each in self.phases()[:1]:
                    (self.task.folder / str(each.output)).unlink(missing_ok=True)
            case Do("work"):
                self.write("work.md")
            case Do("ask"):
                seen.asked = self.words()
                mailbox.update(feedbackQuestion=seen.asked)
            case Do("wait"):
                mailbox.update(waitSeconds=600, waitReason="CI")
            case Propose() | Leave():
                self.leave_state(act, phase)
            case Stop():
                self.task.inbox.put("stop", to=runner, now=act.now)
            case _:
                self.elsewhere(act)

    def write(self, name: str, something: bool = True) -> None:
        """Never the same twice, so that every version can be told from every other."""
        self.counted += 1
        nothing = "# x\n" * (self.counted % 2)  # an empty file, or a heading alone
        (self.task.folder / name).write_text("done " + "x" * self.counted if something else nothing)

    def leave_state(self, act: Propose | Leave, phase: str) -> None:
        path = self.task.folder / "STATE.json"
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        path.unlink(missing_ok=True)
        match act:
            case Leave(bytes() as data):
                path.write_bytes(data)
            case Leave("a link"):
                path.symlink_to("/etc/hostname")
            case Leave("a folder"):
                path.mkdir()
            case Propose():
                named = {None: phase, "next": self._after(phase)}.get(act.phase, act.phase)
                path.write_text(json.dumps({"state": act.state, "phase": named, "kept": [1]}))

    def phases(self) -> list[Phase]:
        return [phase for _, phase in places(DEFINITIONS, self.workflow)]

    def outputs(self) -> set[bytes]:
        """What lies there of all phases."""
        paths = [self.task.folder / phase.output for phase in self.phases() if phase.output]
        return {path.read_bytes() for path in paths if path.exists()}

    def _after(self, name: str) -> str:
        names = [*(phase.id for phase in self.phases()), DONE]
        return names[names.index(name) + 1] if name in names else DONE

    # The human

    def ask(self, plan: list[Say]) -> _Surface:
        return _Surface(self, plan)

    def elsewhere(self, act: Any) -> None:
        """In another shell, or in an editor."""
        match act:
            case Message():
                words = self.words()
                self.steered[self.task.inbox.put("steer", text=words)] = words
            case Verdict():
                gate = self.now().gate
                token = _NO_GATE if gate is None or act.late else gate.token
                words = "" if act.choice == "cancel" else self.words()
                phase = self._after(gate.phase) if act.phase == "next" and gate else act.phase
                shown = self.codes.get(token) or partial(GateCodes(self.task.folder.parent / "codes").printed, token)
                code = shown()
                name = self.task.inbox.put("verdict", to=token, code=code, choice=act.choice, text=words, phase=phase)
                self.sent[name] = (token, words)
            case Edit():
                self._edit(act)

    def _edit(self, edit: Edit) -> None:
        path = self.task.folder / "human.md"
        before = path.read_bytes() if path.exists() else b""
        at = int(len(before) * edit.where)
        match edit.how:
            case "append" | "insert":
                at = len(before) if edit.how == "append" else at
                words = self.words()
                after = before[:at] + f"\n{words}\n".encode() + before[at:]
            case "cut":
                after = before[:at] + before[at + 40 :]
            case _:
                after = before[:at]
        if edit.how == "remove":
            path.unlink(missing_ok=True)
            after = b""
        else:
            path.write_bytes(after)
        self.human = after
        self.erased |= spoken(before) - spoken(after)
        if not after.startswith(before):
            self.again.update(spoken(after))
            now = self.now()
            for owed in (now.unwritten, now.restart):
                self.may_stand_twice |= spoken(owed.text) if owed else set()


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() and not path.is_symlink() else None


@dataclass
class _Agent:
    """Runs sessions as planned; when no plan is left, somebody ends the runner."""

    witness: Witness
    plan: list[Session]
    life: Life
    name: str = "any"
    tells_cost: bool = False
    tells_tokens: bool = False
    has_tools: bool = False
    can_be_steered: bool = False

    def check(self) -> None:
        pass

    def run(self, host: Host) -> Outcome:
        session = self.plan.pop(0) if self.plan else Session((), "terminated")
        number = int(host.env["MARATHON_RUN"]), int(host.env["MARATHON_ITERATION"])
        assert number not in self.witness.seen, f"session {number} was started twice"
        seen = self.witness.seen[number] = Seen(Path(host.prompt).read_text(), self.witness.task.human_text())
        for act in session.acts[: session.killed_after]:
            if act == Do("hear"):
                seen.steered += host.new_steering()
            else:
                with living(None):
                    self.witness.act(act, host, seen)
            seen.left = _bytes(self.witness.task.folder / "STATE.json")
        if session.killed_after is not None:
            self.life.end()
        end = "stopped" if host.on_tick() else session.end
        return replace(ENDS[end], steered=tuple(steer.id for steer in seen.steered))

    def close(self) -> None:
        pass


@dataclass
class _Surface:
    """The human at the gate: says what is planned, as far as this gate offers it, and then nothing."""

    witness: Witness
    plan: list[Say]
    interactive: bool = False

    def ask(self, view: GateView, elsewhere: Callable[[], Answer | None]) -> Answer | None:
        say = self.plan.pop(0) if self.plan else None
        if view.code:
            self.witness.codes[view.gate.token] = view.code
        with living(None):
            for act in say.meanwhile if say else ():
                self.witness.elsewhere(act)
        answer = elsewhere()
        if answer is None and say is not None:
            answer = self._offered(say, view)
            self.witness.typed.append((view.gate.token, answer))
        return answer

    def _offered(self, say: Say, view: GateView) -> Answer:
        """What is planned if the gate offers it, else its first offer."""
        words = self.witness.words() if say.words else ""
        phase = (say.phase or view.gate.phase) if say.choice == "redo" else None
        wanted = [Answer(choice=say.choice, phase=phase, text=text) for text in (words, words or "because", "")]
        first = view.offers[0]
        usual = Answer(choice=first.choice, phase=first.phase, text="" if first.words == "none" else words)
        return next((each for each in wanted if any(offer.takes(each) for offer in view.offers)), usual)
