"""The files of measured loops, in pi-multiloop's layout: `.multiloop/` with a directory per run, and a registry.

Of a loop that the runner measures, the truth is its journal, which lies outside of the project. The files are written
from it and never read back. Of a loop that an agent measures they are the truth: a row of results.jsonl is synced
before anything follows from it, the snapshot is replaced as a whole, and the registry is made from the directories.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from marathon.core.lanes.model import PINNED, LaneState, Row, parse_row, parse_state, state_of
from marathon.core.lanes.names import NAME, Run
from marathon.core.lanes.rules import lesson, rebuilt, replayed, runners_own
from marathon.core.records import RowAdded
from marathon.core.text import one_line
from marathon.core.validation import Invalid
from marathon.errors import TaskBusy, TaskInvalid
from marathon.store.files import (
    PRIVATE_FILE,
    append_durable,
    disk_errors,
    make_private_directory,
    opened,
    read_regular,
    sync_directory,
    unused_name,
    write_atomic,
)
from marathon.store.home import Home
from marathon.store.journal import read_journal
from marathon.store.places import trusted_folder

FOLDER = ".multiloop"
TASK = "task"  # the directory of a loop's sessions, beside its files
OBJECTS = "objects"  # of git, in the home of a loop's task: what was tried and not kept
_STATE, _ROWS, _LESSONS = "state.json", "results.jsonl", "lessons.md"
_PATIENCE = 10.0
_TO_REGISTRY = {"running": "active", "stopped": "completed"}  # the other words are the same in both
_FROM_REGISTRY: dict[str, Any] = {"active": "running", "completed": "stopped"}


@dataclass(frozen=True)
class Lane:
    """One run with everything that its files tell."""

    state: LaneState
    rows: tuple[Row, ...] = ()
    notices: tuple[str, ...] = ()
    unsaved: tuple[Row, ...] = ()  # rows that came after the snapshot: a crash came between

    @property
    def done(self) -> list[Row]:
        return [row for row in self.rows if not row.is_mark]


def find_project(start: Path) -> Path:
    """The nearest folder above that has loops, not further up than its repository. Else this folder."""
    for folder in (start, *start.parents):
        if (folder / FOLDER).is_dir():
            return folder
        if (folder / ".git").exists():
            break
    return start


class Lanes:
    """The loops of one project."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.root = project / FOLDER
        if self.root.is_symlink():
            raise TaskInvalid(f"{self.root} is a symbolic link. Put a directory in its place.")

    # Reading

    def runs(self) -> list[Run]:
        """Every run, newest first among those of one status."""
        found = [self._glance(*each) for each in self._folders()]
        found.sort(key=lambda each: each[1].started_at if each[1] else "", reverse=True)
        return [run for run, _ in found]

    def load(self, run: Run) -> Lane:
        """A run, rebuilt from its rows. What was wrong with its files stands in the notices."""
        folder = self.folder(run)
        if recorded := self.recorded(run):
            return self._of_runner(run, folder, recorded)
        rows, torn = _rows_in(folder / _ROWS)
        notices = [f"The last line of {folder / _ROWS} was cut off by a crash and does not count."] if torn else []
        snapshot, why = self._snapshot(folder, run.lane, run.tag)
        if snapshot is None:
            snapshot = self._without_snapshot(run, rows, folder, why)
            notices.append(f"{folder / _STATE}: {why}. The loop was rebuilt from its rows.")
        try:
            state = rebuilt(snapshot, rows)
        except Invalid as error:
            raise TaskInvalid(f"{folder / _ROWS}: a row is damaged ({error}).") from error
        state = self._placed(state, run, folder)
        changed = sorted(name for name in PINNED if getattr(snapshot, name) != getattr(state, name))
        if changed and not why:
            words = ", ".join(changed)
            notices.append(f"{folder / _STATE} says something else than row 0 about: {words}. Row 0 counts.")
        unsaved = tuple(row for row in rows if row.iteration > snapshot.iteration or snapshot.baseline is None)
        return Lane(state, tuple(rows), tuple(notices), unsaved)

    def recorded(self, run: Run) -> tuple[Row, ...]:
        """The rows in the runner's journal. None where it has not measured the loop yet."""
        home = Home(self.folder(run) / TASK)
        records = read_journal(home.journal) if home.exists() else []
        rows = [Row.model_validate(record.row) for record in records if isinstance(record, RowAdded)]
        return tuple(rows) if runners_own(rows) else ()

    def _of_runner(self, run: Run, folder: Path, rows: Sequence[Row]) -> Lane:
        state = replayed(runners_own(rows))
        assert state
        archived = run.status == "archived"  # whose state.json says so
        notices = [_CHANGED.format(path=path) for path in _changed(folder, state, rows, at_least=archived)]
        return Lane(self._placed(state, run, folder), tuple(rows), tuple(notices))

    def _placed(self, state: LaneState, run: Run, folder: Path) -> LaneState:
        """With what only the directories tell."""
        others = [each for each in _directories(self.root / "active" / run.lane) if each != folder and _has_files(each)]
        return state.with_(alone=not others, **({"status": "archived"} if run.status == "archived" else {}))

    def lessons(self, run: Run) -> list[str]:
        path = self.folder(run) / _LESSONS
        with disk_errors("read", path):
            text = (read_regular(path) or b"").decode("utf-8", "replace")
        return [line.removeprefix("- ") for line in text.splitlines() if line.strip()]

    def folder(self, run: Run) -> Path:
        for folder, lane, tag in self._folders():
            if (lane, tag) == (run.lane, run.tag) and self._archived(folder) == (run.status == "archived"):
                return folder
        return self._active(run.lane, run.tag)

    # Writing; every change happens inside `locked`

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One command at a time. Each reads, decides and writes within milliseconds."""
        make_private_directory(self.root)
        if not (self.root / ".gitignore").exists():
            write_atomic(self.root / ".gitignore", b"*\n")
        with opened(self.root / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW) as fd:
            try:
                for attempt in Retrying(
                    retry=retry_if_exception_type(BlockingIOError),
                    stop=stop_after_delay(_PATIENCE),
                    wait=wait_fixed(0.01),
                    reraise=True,
                ):
                    with attempt:
                        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                said = f"Another command has held {self.root / '.lock'} for {_PATIENCE:.0f} seconds. Try again."
                raise TaskBusy(said) from error
            yield

    def create(self, state: LaneState) -> None:
        make_private_directory(self._active(state.lane, state.run_tag))
        self._write(self._active(state.lane, state.run_tag), state)

    def set_holdout(self, state: LaneState, command: str) -> None:
        """Keep a command that the agent must not see. It lies outside of the project and of every worktree."""
        path = self._holdout(state.lane, state.run_tag)
        make_private_directory(path.parent)
        write_atomic(path, command.encode())

    def holdout(self, state: LaneState) -> str:
        path = self._holdout(state.lane, state.run_tag)
        with disk_errors("read", path):
            return (read_regular(path) or b"").decode()

    def _holdout(self, lane: str, tag: str) -> Path:
        known = hashlib.sha256(str(self.root.resolve()).encode()).hexdigest()[:16]
        return trusted_folder().with_name("holdouts") / known / f"{lane}-{tag}"

    def save(self, lane: Lane, state: LaneState, row: Row | None, now: str) -> None:
        """Append the row, then what follows from it. After a crash in between, the next load finds the row."""
        folder = self._active(state.lane, state.run_tag)
        if row is not None:
            _append_row(folder / _ROWS, row)
        _append_lessons(folder / _LESSONS, [*lane.unsaved, *([row] if row else [])], now)
        self._write(folder, state.with_(last_updated=now))

    def write(self, state: LaneState, rows: Sequence[Row]) -> list[str]:
        """The files of a loop that the runner measures. What else was in them is told."""
        folder = self._active(state.lane, state.run_tag)
        told = [_CHANGED.format(path=path) for path in _changed(folder, state, rows, at_least=True)]
        make_private_directory(folder)
        for name, data in _files(state, rows).items():
            if read_regular(folder / name) != data:
                write_atomic(folder / name, data)
        self._write_registry()
        return told

    def archive(self, state: LaneState, stamp: str) -> Path:
        """Move a run away. Where it lies says that it is archived, also after a crash before its files say so."""
        folder = self._active(state.lane, state.run_tag)
        make_private_directory(self.root / "archive")
        name = f"{stamp.replace(':', '-').replace('.', '-')}-{state.lane}-{state.run_tag}"
        target = unused_name(self.root / "archive" / name)
        with disk_errors("move", folder):
            os.rename(folder, target)
            sync_directory(target.parent)
            sync_directory(folder.parent)
        with contextlib.suppress(OSError):  # other runs of the lane are left
            folder.parent.rmdir()
        self._write(target, state)
        return target

    def remove(self, run: Run) -> None:
        folder = self.folder(run)
        with disk_errors("remove", folder):
            away = unused_name(self.root / f".removed-{run.lane}-{run.tag}")
            os.rename(folder, away)  # so that a crash leaves a whole run or none
            shutil.rmtree(away)
            self._holdout(run.lane, run.tag).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.parent.rmdir()
        self._write_registry()

    def _write(self, folder: Path, state: LaneState) -> None:
        write_atomic(folder / _STATE, state.to_bytes())
        self._write_registry()

    # Directories

    def _active(self, lane: str, tag: str) -> Path:
        return self.root / "active" / lane / tag

    def _archived(self, folder: Path) -> bool:
        return folder.parent == self.root / "archive"

    def _folders(self) -> Iterator[tuple[Path, str, str]]:
        """Every directory of a run with its lane and tag. A link could lead out of the project, so none counts."""
        for lane in _directories(self.root / "active"):
            for folder in _directories(lane):
                if NAME.fullmatch(lane.name) and NAME.fullmatch(folder.name) and _has_files(folder):
                    yield folder, lane.name, folder.name
        for folder in _directories(self.root / "archive"):
            facts = _facts(folder / _STATE)
            lane_name, tag = str(facts.get("lane", "")), str(facts.get("runTag", ""))
            if NAME.fullmatch(lane_name) and NAME.fullmatch(tag):
                yield folder, lane_name, tag

    def _glance(self, folder: Path, lane: str, tag: str) -> tuple[Run, LaneState | None]:
        """A run by its snapshot alone."""
        snapshot, _ = self._snapshot(folder, lane, tag)
        if self._archived(folder):
            return Run(lane, tag, "archived"), snapshot
        if recorded := self.recorded(Run(lane, tag, "running")):
            state = replayed(runners_own(recorded))
            return Run(lane, tag, state.status if state else "paused"), state
        if snapshot is None:
            said = self._registry().get((lane, tag), {}).get("status")
            return Run(lane, tag, _FROM_REGISTRY.get(str(said), "paused")), None
        return Run(lane, tag, snapshot.status), snapshot

    def _snapshot(self, folder: Path, lane: str, tag: str) -> tuple[LaneState | None, str]:
        """The snapshot, or why there is none. The directory names the run, whatever the file says."""
        with disk_errors("read", folder / _STATE):
            data = read_regular(folder / _STATE)
        if data is None:
            return None, "it is missing"
        try:
            return parse_state(data).with_(lane=lane, run_tag=tag), ""
        except Invalid as error:
            return None, one_line(str(error), 200)

    def _without_snapshot(self, run: Run, rows: Sequence[Row], folder: Path, why: str) -> LaneState:
        """The settings stand in row 0 and in later marks. The original writes no row 0, so nothing can be rebuilt."""
        setup: dict[str, Any] = {}
        for row in rows:
            setup |= row.setup or {}
        if not setup:
            advice = f"Restore the file, or remove the loop: pi-marathon loop rm {run.name}"
            raise TaskInvalid(f"{folder / _STATE}: {why}, and {_ROWS} has no baseline to rebuild it from. {advice}")
        try:
            return state_of({**setup, "lane": run.lane, "runTag": run.tag, "status": run.status})
        except Invalid as error:
            raise TaskInvalid(f"{folder / _ROWS}: the settings in row 0 are damaged ({error}).") from error

    # The registry: for the original and for people; we read it only where a snapshot is gone

    def _registry(self) -> dict[tuple[str, str], dict[str, Any]]:
        loops = _facts(self.root / "registry.json").get("loops", [])
        entries = [each for each in loops if isinstance(each, dict)] if isinstance(loops, list) else []
        return {(str(each.get("lane")), str(each.get("runTag"))): each for each in entries}

    def _write_registry(self) -> None:
        before = self._registry()
        loops = [
            {**before.get((lane, tag), {}), **self._entry(folder, lane, tag)} for folder, lane, tag in self._folders()
        ]
        loops.sort(key=lambda entry: str(entry.get("startedAt", "")))
        data = json.dumps({"version": 1, "loops": loops}, indent=2, ensure_ascii=False) + "\n"
        write_atomic(self.root / "registry.json", data.encode())

    def _entry(self, folder: Path, lane: str, tag: str) -> dict[str, Any]:
        run, snapshot = self._glance(folder, lane, tag)
        facts = snapshot.facts() if snapshot else {}
        return {
            "lane": lane,
            "runTag": tag,
            "mode": facts.get("mode", "optimize"),
            "status": _TO_REGISTRY.get(run.status, run.status),
            "startedAt": facts.get("startedAt", ""),
            "stateDir": str(folder.relative_to(self.project)),
            **{there: facts[here] for here, there in _SHARED.items() if here in facts},
        }


_SHARED = {name: name for name in ("verifyCommand", "guardCommand", "promptVerifier", "acceptancePolicy")}
_SHARED["metricName"] = "metric"


_CHANGED = "{path} was changed by something other than the runner. It counts for nothing: the runner's own record does."


def _files(state: LaneState, rows: Sequence[Row]) -> dict[str, bytes]:
    """What the runner's record makes of a loop's files."""
    done = [row for row in rows if not row.is_mark]
    lessons = [f"- [{row.timestamp}] {text}\n" for row in done if (text := lesson(row))]
    files = {_ROWS: b"".join(row.to_line() for row in done), _STATE: state.to_bytes()}
    return files | ({_LESSONS: "".join(lessons).encode()} if lessons else {})


def _changed(folder: Path, state: LaneState, rows: Sequence[Row], *, at_least: bool = False) -> list[Path]:
    """The files with something else in them than the runner wrote. A crash leaves them a row behind.

    `at_least`: those that are behind for another reason than a crash are not told, because they are written now.
    """
    expected = _files(state, rows)
    found = read_regular(folder / _ROWS) or b""
    if not expected[_ROWS].startswith(found):
        return [folder / _ROWS]
    if at_least or found != expected[_ROWS] or read_regular(folder / _STATE) in (expected[_STATE], None):
        return []
    return [folder / _STATE]


def _directories(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as found:
            return sorted(Path(each.path) for each in found if each.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _has_files(folder: Path) -> bool:
    return (folder / _STATE).exists() or (folder / _ROWS).exists()


def _facts(path: Path) -> dict[str, Any]:
    """A JSON object from a file, or nothing."""
    try:
        value = from_json(read_regular(path) or b"")
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _rows_in(path: Path) -> tuple[list[Row], bytes]:
    """The rows, and what a crash left of the last one."""
    with disk_errors("read", path):
        data = read_regular(path) or b""
    rows: list[Row] = []
    lines = data.split(b"\n")
    last = max((number for number, line in enumerate(lines) if line.strip()), default=-1)
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            rows.append(parse_row(line))
        except Invalid as error:
            if number == last and not _is_json(line):
                return rows, line
            advice = "Move the file aside, or take the line out."
            raise TaskInvalid(f"{path} line {number + 1} is damaged ({one_line(str(error), 100)}). {advice}") from error
    return rows, b""


def _is_json(line: bytes) -> bool:
    try:
        from_json(line)
    except ValueError:
        return False
    return True


def _append_row(path: Path, row: Row) -> None:
    """Add a row. What a crash left of the one before is kept in a file of its own."""
    data = read_regular(path) or b""
    last = data.rstrip().rpartition(b"\n")[2]
    if last and not _is_json(last):
        append_durable(path.with_name(f"{path.name}.torn"), last + b"\n", mode=PRIVATE_FILE)
        write_atomic(path, data[: data.rindex(last)])
    elif last and not data.endswith(b"\n"):
        append_durable(path, b"\n", mode=PRIVATE_FILE)
    append_durable(path, row.to_line(), mode=PRIVATE_FILE)


def _append_lessons(path: Path, rows: Sequence[Row], now: str) -> None:
    texts = [text for row in rows if (text := lesson(row))]
    if not texts:
        return
    known = (read_regular(path) or b"").decode("utf-8", "replace")
    lines = [f"- [{now}] {text}\n" for text in texts if text not in known]
    if lines:
        append_durable(path, "".join(lines).encode(), mode=PRIVATE_FILE)
