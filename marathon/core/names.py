"""Words and forms that several rooms share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

DONE = "done"
StateName = Literal["running", "paused", "completed"]


class StateInvalid(ValueError):
    """STATE.json cannot be read as a proposal; str() names the field or what is wrong with the bytes."""


def utc(moment: datetime) -> str:
    """ISO-8601 in UTC with a Z, to the second."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"
