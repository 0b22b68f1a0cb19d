"""What must hold before a task counts as done: commands to run and judgements to record. From checks.toml and the list.

The list is the one below `## Success Criteria` in instructions.md; where both name a criterion, the file's stands.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from marathon.core.listed import LONGEST_COMMAND, read_item
from marathon.core.sections import items, sections
from marathon.core.shape import Unshaped, build
from marathon.core.text import clean, one_line, seconds_in

MOST_CRITERIA = 200
LONGEST_NAME = 200
LONGEST_FILE = 1_000_000
LONGEST_TIMEOUT = 7 * 86400
HEADINGS = ("success criteria", "acceptance criteria")
_OF_COMMANDS = ("cwd", "timeout", "exit", "parallel")


class CriteriaInvalid(ValueError):
    """A criterion cannot be used; str() says which and why."""


def _is_short_and_plain(name: str) -> None:
    if not name or name != one_line(name, LONGEST_NAME):
        raise ValueError(f"it has to be one line of 1 to {LONGEST_NAME} characters")


def _can_be_shown(command: str) -> None:
    if clean(command) != command:
        raise ValueError("it holds control characters")
    if len(command) > LONGEST_COMMAND:
        raise ValueError(f"it is longer than {LONGEST_COMMAND} characters")
    if command and not command.strip():
        raise ValueError("it is empty")


def _stays_inside(folder: str) -> None:
    if not folder or one_line(folder, len(folder)) != folder:
        raise ValueError("it is not the name of a folder")
    if posixpath.isabs(folder) or posixpath.normpath(folder).split("/")[0] == "..":
        raise ValueError("it leads out of the project")


def _is_a_time(seconds: float) -> None:
    if not 0 < seconds <= LONGEST_TIMEOUT:
        raise ValueError("it has to be more than 0 seconds and at most a week")


def _is_an_exit_code(code: int) -> None:
    if not 0 <= code <= 255:
        raise ValueError("an exit code is 0 to 255")


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """A command with what it needs, or (without one) a judgement."""

    name: Annotated[str, _is_short_and_plain]
    command: Annotated[str, _can_be_shown] = ""
    cwd: Annotated[str, _stays_inside] = "."
    timeout: Annotated[float, _is_a_time] = 600
    exit: Annotated[int, _is_an_exit_code] = 0
    parallel: bool = False


def read_criteria(checks_toml: str | None, instructions: str) -> tuple[Criterion, ...]:
    """Those of the file, then those of the list that the file does not name."""
    filed = _from_file(checks_toml) if checks_toml is not None else []
    named = {criterion.name for criterion in filed}
    listed = [criterion for criterion in _from_list(instructions) if criterion.name not in named]
    if len(filed) + len(listed) > MOST_CRITERIA:
        raise CriteriaInvalid(f"there are {len(filed) + len(listed)} criteria; at most {MOST_CRITERIA} are allowed")
    return (*filed, *listed)


def said_in_full(checks_toml: str | None, instructions: str) -> str:
    """The instructions with the checks of the file as their list: who has written those has said how to check it."""
    try:
        filed = _from_file(checks_toml) if checks_toml is not None else []
    except CriteriaInvalid:
        filed = []
    items = [f"- {each.name}: `{each.command}`" if each.command else f"- {each.name}" for each in filed]
    return instructions + ("\n\n## Success Criteria\n\n" + "\n".join(items) + "\n" if items else "")


def in_full(each: Criterion) -> str:
    """A command with all that matters about it; no line of it passes for another one."""
    command = each.command.replace("\n", "\n  | ")
    said = {f"in {each.cwd}": each.cwd != ".", f"wants exit code {each.exit}": each.exit != 0}
    more = ", ".join(words for words, matters in said.items() if matters)
    name = "" if each.name == each.command else f"{each.name}: "
    return f"{name}{command}" + (f"  ({more})" if more else "")


def digest(criteria: Iterable[Criterion], project: str) -> str:
    """Changes with anything that would be run or judged, and with the project it is done in."""
    facts = [{**asdict(criterion), "timeout": float(criterion.timeout)} for criterion in criteria]
    text = json.dumps({"project": project, "criteria": facts}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# checks.toml


def _from_file(text: str) -> list[Criterion]:
    if len(text) > LONGEST_FILE:
        raise CriteriaInvalid(f"checks.toml: it is longer than {LONGEST_FILE} characters")
    raw = _parse(text)
    for key in raw:
        if key not in ("parallel", "check"):
            raise CriteriaInvalid(f"checks.toml: {one_line(key, 60)}: there is no such setting")
    parallel, tables = raw.get("parallel", False), raw.get("check", [])
    if type(parallel) is not bool:
        raise CriteriaInvalid("checks.toml: parallel: it is not true or false")
    if not isinstance(tables, list):
        raise CriteriaInvalid("checks.toml: check: write [[check]] above each check")
    found: dict[str, Criterion] = {}
    for number, table in enumerate(tables, 1):
        criterion = _from_table(number, table, parallel)
        if criterion.name in found:
            raise CriteriaInvalid(f"checks.toml: check {number} ('{criterion.name}'): the name is there twice")
        found[criterion.name] = criterion
    return list(found.values())


def _parse(text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else one_line(str(error))
        raise CriteriaInvalid(f"checks.toml: {reason}") from error


def _from_table(number: int, table: Any, parallel: bool) -> Criterion:
    name = table.get("name") if isinstance(table, Mapping) else None
    shown = f" ('{one_line(name, 60)}')" if isinstance(name, str) else ""
    try:
        return build(Criterion, _fields(table, parallel), strict=True)
    except Unshaped as error:
        raise CriteriaInvalid(f"checks.toml: check {number}{shown}: {one_line(str(error))}") from error


def _fields(table: Any, parallel: bool) -> dict[str, Any]:
    """A table as the fields of a Criterion; what only a table can have wrong is refused here."""
    if not isinstance(table, Mapping):
        raise Unshaped("it is not a table")
    fields = dict(table)
    judged = fields.pop("judgement", False)
    if type(judged) is not bool:
        raise Unshaped("it is not true or false", "judgement")
    if judged == bool(fields.get("command")):
        raise Unshaped("it needs either a command or judgement = true")
    for key in _OF_COMMANDS if judged else ():
        if key in fields:
            raise Unshaped("only a command has that", key)
    if isinstance(fields.get("name"), str):
        fields["name"] = one_line(fields["name"], LONGEST_NAME)
    if isinstance(fields.get("cwd"), str) and fields["cwd"]:
        fields["cwd"] = posixpath.normpath(fields["cwd"])
    if isinstance(fields.get("timeout"), str):
        fields["timeout"] = _seconds(fields["timeout"])
    return fields if judged else {"parallel": parallel, **fields}


def _seconds(text: str) -> float:
    seconds = seconds_in(text)
    if seconds is None:
        raise Unshaped(f"{one_line(text, 40)!r} is not a duration; write it like 90s, 5m or 2h", "timeout")
    return seconds


# The list in instructions.md


def _from_list(instructions: str) -> list[Criterion]:
    """One for each item; what stands there twice counts once, but two commands of one name are two criteria."""
    parts = sections(clean(instructions))
    lists = (body for heading, body in parts.items() if heading.startswith(HEADINGS))
    different = dict.fromkeys(read_item(item) for body in lists for item in items(body))
    if len(different) > MOST_CRITERIA:
        raise CriteriaInvalid(f"the list has {len(different)} criteria; at most {MOST_CRITERIA} are allowed")
    found: dict[str, Criterion] = {}
    for item in different:
        name = _free_name(item.said, found)
        found[name] = Criterion(name=name, command=item.command, exit=item.exit)
    return list(found.values())


def _free_name(said: str, taken: Mapping[str, Criterion]) -> str:
    name, number = one_line(said, LONGEST_NAME), 1
    while name in taken:
        number += 1
        name = f"{one_line(said, LONGEST_NAME - 6)} ({number})"
    return name
