"""What a phase may write: how an agent is told beforehand, and what is said of what changed elsewhere meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from marathon.core.courses.workflow import Phase
from marathon.core.records import Writes
from marathon.core.text import clean, counted, one_line

UNCHECKED = "Not checked:"
_SHOWN = 5


def rule(phase: Phase, task: str, *, held: bool = False) -> str:
    """The line of the prompt. Empty where a phase may write the whole project. `held`: the sandbox sees to it."""
    if phase.writes == "project":
        return ""
    only = f"in `{task}/`"
    if phase.writes == "none":
        only = " and ".join(f"`{task}/{name}`" for name in (phase.output, phase.checklist, "STATE.json") if name)
    elsewhere = (
        "The project itself, its repository included, is read-only. "
        if held
        else "What you write elsewhere in the project, commits included, is shown to the human and may be undone. "
    )
    experiment = "For an experiment, use a temporary folder outside of the project.\n"
    return f"- In this phase write only {only}. {elsewhere}{experiment}"


def told(phase: str, writes: Writes, task: str) -> str:
    """The sentences for a gate."""
    unchecked = f"{UNCHECKED} whether {phase} wrote where it may not. {writes.unchecked}" if writes.unchecked else ""
    if not (writes.count or writes.commit or writes.left):
        return unchecked
    if writes.tree:
        return " ".join(filter(None, (_kept(phase, writes), unchecked)))
    did = [f"changed {counted(writes.count, 'file')} ({_names(writes.files, writes.count)})"] if writes.count else []
    did += [f"committed {writes.commit[:12]} (kept in refs/pi-marathon/undone)"] if writes.commit else []
    said = f"{phase} {' and '.join(did)} although it may not." if did else f"{phase} may have written where it may not."
    undone = f"Not all of it was undone: {writes.left}" if writes.left else "It was undone."
    kept = f"A copy is kept as {task}/{writes.patch}." if writes.patch else ""
    return " ".join(filter(None, (said, undone, kept, unchecked)))


def together(found: Iterable[tuple[str, Writes]]) -> list[tuple[str, Writes]]:
    """What was kept of each phase, as one. The rest as it is."""
    kept: dict[str, Writes] = {}
    others = []
    for phase, writes in found:
        if not writes.tree:
            others.append((phase, writes))
            continue
        one = kept.get(phase, Writes(tree=writes.tree))
        more = [name for name in writes.files if name not in one.files]
        kept[phase] = replace(
            writes,
            files=[*one.files, *more],
            count=one.count + len(more) + writes.count - len(writes.files),
            commit=writes.commit or one.commit,
            was=one.was or writes.was,
            commits=one.commits + writes.commits,
            fixed=one.fixed or writes.fixed,
            by_agent=list(dict.fromkeys([*one.by_agent, *writes.by_agent])),
            undone=list(dict.fromkeys([*one.undone, *writes.undone])),
            unchecked=one.unchecked or writes.unchecked,
        )
    return [*others, *kept.items()]


def without(writes: Writes, files: Sequence[str], commit: str) -> Writes:
    """What is left of it after a human undid some."""
    gone = [name for name in writes.files if name in files]
    if not writes.tree or not (gone or (commit and writes.commit)):
        return writes
    if commit:
        writes = replace(writes, commit="", was="", commits=0)
    return replace(
        writes,
        files=[name for name in writes.files if name not in gone],
        count=writes.count - len(gone),
        by_agent=[name for name in writes.by_agent if name not in gone],
        undone=[*writes.undone, *gone],
    )


def told_agent(phase: str, writes: Writes, now: Phase) -> str:
    """The sentence for a session of a phase that may not write everywhere."""
    did = _changes(writes)
    files = f" ({_names(writes.files, writes.count)})" if writes.files else ""
    said = f"{did[:1].upper()}{did[1:]} changed while {phase} ran{files}. It was kept, because it may be the human's."
    undone = f"The human undid: {_names(writes.undone, len(writes.undone))}." if writes.undone else ""
    return f"{said if did else ''} {undone} {now.name} may not write there.".strip()


def _kept(phase: str, writes: Writes) -> str:
    """2 files and 1 commit changed while research ran; they may be yours: code.py, notes.md."""
    it = "it" if writes.count + bool(writes.commit) * max(1, writes.commits) == 1 else "they"
    names = [_names(writes.files, writes.count)] if writes.count else []
    names += [f"{writes.was[:12]} → {writes.commit[:12]}"] if writes.commit else []
    said = f"{_changes(writes)} changed while {phase} ran; {it} may be yours: {', '.join(names)}."
    agents = _names(writes.by_agent, len(writes.by_agent)) or "none of it"
    known = f"Tool calls of the agent wrote {agents}; what its shell commands wrote is not known."
    return " ".join(filter(None, (said, writes.fixed, known)))


def _changes(writes: Writes) -> str:
    parts = [counted(writes.count, "file")] if writes.count else []
    moved = "the branch" if not writes.commits else counted(writes.commits, "commit")
    return " and ".join([*parts, *([moved] if writes.commit else [])])


def _names(files: Sequence[str], count: int) -> str:
    names = ", ".join(one_line(clean(name), 80) for name in files[:_SHOWN])
    return names + (f" and {count - _SHOWN} more" if count > _SHOWN else "")
