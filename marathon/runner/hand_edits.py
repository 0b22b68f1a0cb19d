"""What the human changes by hand while a gate is open. No agent lives then, so every change is the human's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marathon.core.differences import difference, shortened
from marathon.core.gates import POLICIES
from marathon.core.records import Gate, HandEdit, HandEdited
from marathon.store.files import digest_of

if TYPE_CHECKING:
    from marathon.runner.gate_view import TaskAtGate
    from marathon.runner.marathon import Marathon

_OTHERWISE_TOLD = ("human.md", "instructions.md", "checks.toml")


def documents(seen: TaskAtGate) -> list[str]:
    """What the phase at hand writes and reads, the output first."""
    phase = seen.where.phase
    names = [phase.output, *phase.reads] if phase else []
    return [name for name in dict.fromkeys(names) if name and name not in _OTHERWISE_TOLD]


def digests(marathon: Marathon) -> dict[str, str]:
    """The documents as they are now, by which another folder in their place is told."""
    reviewed = [review.output for review in marathon.where.reviews if review.output]
    names = dict.fromkeys(["instructions.md", *documents(marathon), *reviewed])
    return {name: digest for name in names if (digest := marathon.task.digest(name))}


def remember_documents(marathon: Marathon, token: str) -> None:
    """Keep what the documents are when a gate opens."""
    found = {name: marathon.task.document(name) for name in documents(marathon)}
    held = {name: data for name, data in found.items() if data is not None}
    marathon.task.runs.save_at_gate(marathon.life.run, token, held)


def round_at(seen: TaskAtGate, gate: Gate) -> int:
    """The round that an open gate is about. A review gate has counted already."""
    return seen.where.round - 1 if POLICIES[gate.reason].review_round else seen.where.round


def edits_so_far(seen: TaskAtGate, gate: Gate) -> list[tuple[str, bytes, str]]:
    """Each changed document with its contents now and its diff against what it was."""
    before = seen.task.runs.saved_at_gate(seen.life.run, gate.token)
    found = []
    for name in documents(seen) if before else ():
        now, saved = seen.task.document(name), before / name if before else None
        then = saved.read_bytes() if saved and saved.is_file() else b""
        if now is not None and now != then:
            old, new = then.decode("utf-8", "replace"), now.decode("utf-8", "replace")
            found.append((name, now, difference(old, new, f"{name} before", f"{name} by hand")))
    return found


def record_edits(marathon: Marathon, gate: Gate) -> None:
    """Into the journal before the gate closes, with a copy in the rounds folder that a redo cannot overwrite."""
    life, task = marathon.life, marathon.task
    edits = []
    for name, data, diff in edits_so_far(marathon, gate):
        kept = task.runs.save_human_round(life.run, name, round_at(marathon, gate), data)
        shown = task.home.shown(kept)
        edits.append(HandEdit(name=name, kept=shown, digest=digest_of(data), diff=shortened(diff)))
    known = next((list(each.edits) for each in life.edited if each.gate == gate.token), [])
    if edits != known:
        marathon.record(HandEdited(gate=gate.token, edits=edits))
