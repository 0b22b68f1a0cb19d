"""STATE.json: what the agent proposes. It is read with suspicion and written for other tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import from_json

from marathon.core.records import Rating, StateName
from marathon.core.text import one_line, utc
from marathon.core.validation import first_mistake

MAX_BYTES = 1024 * 1024
MOST_POINTS = 10


WORKFLOW = "workflow"  # the field that names the workflow of a task that has not begun


class StateInvalid(ValueError):
    """STATE.json cannot be read as a proposal. The text names the field, or what is wrong with the bytes."""


class TaskState(BaseModel):
    """What STATE.json says. Unknown fields are kept as they are."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    state: StateName
    phase: str = Field(min_length=1, max_length=100)
    iteration: int = Field(default=0, ge=0, le=10**9)
    updatedAt: str | None = None
    note: str | None = None

    @field_validator("updatedAt")
    @classmethod
    def _is_a_time(cls, value: str | None) -> str | None:
        try:
            if value is not None:
                datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("it is not an ISO-8601 time") from None
        return value

    def written(self, now: datetime, **changes: Any) -> TaskState:
        """A copy with some fields changed and with the time of now."""
        return self.model_copy(update={"updatedAt": utc(now), **changes})

    def without(self, names: Iterable[str]) -> TaskState:
        """A copy without some of the unknown fields."""
        gone = set(names) - set(TaskState.model_fields)
        if not gone & set(self.model_extra or {}):
            return self
        return TaskState.model_validate({name: value for name, value in self.model_dump().items() if name not in gone})

    def to_bytes(self) -> bytes:
        return (json.dumps(self.model_dump(), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def parse_state(data: bytes) -> TaskState:
    """Read the bytes of a STATE.json. StateInvalid says in a few words why they cannot be trusted."""
    if len(data) > MAX_BYTES:
        raise StateInvalid(f"it is larger than {MAX_BYTES} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise StateInvalid("it is not UTF-8 text") from error
    if not text.strip():
        raise StateInvalid("it is empty")
    if text.lstrip().startswith("```"):
        raise StateInvalid("it is wrapped in a Markdown fence")
    try:
        value = from_json(data, allow_inf_nan=False)  # it refuses half a surrogate pair and more than 200 levels
        if not isinstance(value, dict):
            raise StateInvalid("it is not a JSON object")
        json.loads(text, object_pairs_hook=_without_duplicates)
        state = TaskState.model_validate(value)
        state.to_bytes()  # fails for 1e999, which cannot be written back
    except StateInvalid:
        raise
    except ValidationError as error:
        raise StateInvalid(f"field {first_mistake(error)}") from error
    except ValueError as error:
        raise StateInvalid(f"it is not JSON ({error})") from error
    return state


def _without_duplicates(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise StateInvalid(f"field {key[:100]!r} is there twice")
        seen[key] = value
    return seen


def rating_in(value: object) -> Rating | None:
    """The agent's rating of the instructions, from an untrusted field."""
    if not isinstance(value, Mapping):
        return None
    points, missing = value.get("points"), value.get("missing")
    if isinstance(points, bool) or not isinstance(points, int | float) or not 0 <= points <= MOST_POINTS:
        return None
    lines = [one_line(line) for line in missing if isinstance(line, str)] if isinstance(missing, list) else []
    return Rating(points=round(points), missing=lines[:20])
