"""STATE.json: the agent's proposal, read with suspicion and written for other tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from marathon.core.names import StateInvalid, StateName, utc
from marathon.core.records import Rating
from marathon.core.text import one_line

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 100
MOST_POINTS = 10
_STRICT = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


class TaskState(BaseModel):
    """What STATE.json says. Fields we do not know are kept as they are."""

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
        """The same with some fields changed and stamped now."""
        return self.model_copy(update={"updatedAt": utc(now), **changes})

    def without(self, names: Iterable[str]) -> TaskState:
        """The same without some fields we do not know ourselves."""
        gone = set(names) - set(TaskState.model_fields)
        if not gone & set(self.model_extra or {}):
            return self
        return TaskState.model_validate({name: value for name, value in self.model_dump().items() if name not in gone})

    def to_bytes(self) -> bytes:
        return (json.dumps(self.model_dump(), indent=2, ensure_ascii=False) + "\n").encode()


def parse_state(data: bytes) -> TaskState:
    """Read the bytes of a STATE.json; StateInvalid says in a few words why they cannot be trusted."""
    if len(data) > MAX_BYTES:
        raise StateInvalid(f"it is larger than {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StateInvalid("it is not UTF-8 text") from error
    if not text.strip():
        raise StateInvalid("it is empty")
    if text.lstrip().startswith("```"):
        raise StateInvalid("it is wrapped in a Markdown fence")
    try:
        value = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
        _check_depth(value)
        # Also refuses what could not be written back: half a surrogate pair, 1e999.
        _STRICT.encode(value).encode()
    except StateInvalid:
        raise
    except RecursionError as error:
        raise StateInvalid("it is nested too deeply") from error
    except UnicodeEncodeError as error:
        raise StateInvalid("it holds half of a surrogate pair") from error
    except ValueError as error:
        raise StateInvalid(f"it is not JSON ({_first_line(error)})") from error
    if not isinstance(value, dict):
        raise StateInvalid("it is not a JSON object")
    try:
        return TaskState.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the object"
        raise StateInvalid(f"field {field}: {first['msg']}") from error


def rating_in(value: object) -> Rating | None:
    """The agent's rating of the instructions, out of an untrusted field."""
    if not isinstance(value, Mapping):
        return None
    points, missing = value.get("points"), value.get("missing")
    if isinstance(points, bool) or not isinstance(points, int | float) or not 0 <= points <= MOST_POINTS:
        return None
    lines = [one_line(line) for line in missing if isinstance(line, str)] if isinstance(missing, list) else []
    return Rating(points=round(points), missing=lines[:20])


def _no_duplicates(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise StateInvalid(f"field {key[:100]!r} is there twice")
        seen[key] = value
    return seen


def _no_constant(name: str) -> Any:
    raise StateInvalid(f"{name} is not a JSON value")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise StateInvalid("it is nested too deeply")


def _first_line(error: ValueError) -> str:
    return (str(error).splitlines() or [""])[0][:120]
