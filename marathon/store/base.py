"""What the runner needs from the place where a task's records and messages are kept. Files are the first such place."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from marathon.core.records import Record
from marathon.store.inbox import Kind, Message


class Lease(Protocol):
    """The right to write one task, held by at most one runner."""

    @property
    def fd(self) -> int:
        """Inherited by the agent, so that the lease is held for as long as the agent lives."""

    @property
    def previous_runner(self) -> str:
        """The id of the runner that had the task before; empty if none is known."""

    def sign(self) -> None:
        """Note that this process is the runner. A fork that goes on in the background signs again."""

    def release(self) -> None: ...


class Store(Protocol):
    def lease(self, shown: Path, runner: str, resume: str, project: Path, boot: str = "") -> Lease:
        """Take the task. TaskBusy names the runner that has it. `boot` names this boot of the machine."""

    def replay(self) -> list[Record]:
        """Every record, oldest first. Called once, before the first append."""

    def append(self, record: Record) -> Record:
        """Number, stamp and store a record. The record is durable when this returns."""

    def news(self) -> list[str]:
        """What the human should know of the stored records since this was last asked, such as a restored journal."""

    def messages(self) -> list[Message]:
        """What other shells have sent, oldest first."""

    def put(self, kind: Kind, **fields: Any) -> str:
        """Store a message durably and return its id."""

    def remove(self, message_id: str) -> None:
        """Forget a message, once a record holds what it said."""
