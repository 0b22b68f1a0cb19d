"""What must hold before a task counts as done: commands to run and judgements to record. From checks.toml and the list.

The list is the one below `## Success Criteria` in instructions.md; where both name a criterion, the file's stands.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, model_validator

from marathon.core.sections import CODE_SPAN, items, sections
from marathon.core.text import clean, one_line, seconds_in
from marathon.core.validation import Invalid, must, read

MOST_CRITERIA = 200
LONGEST_NAME = 200
LONGEST_COMMAND = 10_000
LONGEST_FILE = 1_000_000
LONGEST_TIMEOUT = 7 * 86400
HEADINGS = ("success criteria", "acceptance criteria")


class CriteriaInvalid(ValueError):
    """A criterion cannot be used; str() says which and why."""


def _as_name(value: object) -> object:
    return one_line(value, LONGEST_NAME) if isinstance(value, str) else value


def _as_folder(value: object) -> object:
    return posixpath.normpath(value) if value and isinstance(value, str) else value


def _as_seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    seconds = seconds_in(value)
    if seconds is None:
        raise ValueError(f"{one_line(value, 40)!r} is not a duration; write it like 90s, 5m or 2h")
    return seconds


def _stays_inside(folder: str) -> bool:
    return not posixpath.isabs(folder) and folder.split("/")[0] != ".."


Name = Annotated[str, BeforeValidator(_as_name), must(bool, "it is empty")]
Command = Annotated[
    str,
    must(lambda value: clean(value) == value, "it holds control characters"),
    must(lambda value: len(value) <= LONGEST_COMMAND, f"it is longer than {LONGEST_COMMAND} characters"),
    must(lambda value: not value or value.strip(), "it is empty"),
]
Folder = Annotated[
    str,
    BeforeValidator(_as_folder),
    must(lambda value: value and value == one_line(value, len(value)), "it is not the name of a folder"),
    must(_stays_inside, "it leads out of the project"),
]
Timeout = Annotated[
    StrictFloat,
    BeforeValidator(_as_seconds),
    must(lambda value: 0 < value <= LONGEST_TIMEOUT, "it has to be more than 0 seconds and at most a week"),
]
ExitCode = Annotated[StrictInt, must(lambda value: 0 <= value <= 255, "an exit code is 0 to 255")]


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """A command with what it needs, or (without one) a judgement."""

    name: Name
    command: Command = ""
    cwd: Folder = "."
    timeout: Timeout = 600
    exit: ExitCode = 0
    parallel: StrictBool = False


def read_criteria(checks_toml: str | None, instructions: str) -> tuple[Criterion, ...]:
    """Those of the file, then those of the list that the file does not name."""
    filed = _from_file(checks_toml) if checks_toml is not None else []
    named = {criterion.name for criterion in filed}
    joined = [*filed, *(criterion for criterion in _from_list(instructions) if criterion.name not in named)]
    if len(joined) > MOST_CRITERIA:
        raise CriteriaInvalid(f"there are {len(joined)} criteria; at most {MOST_CRITERIA} are allowed")
    return tuple(joined)


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


class _Check(BaseModel):
    """One [[check]]."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    name: Name
    command: Command = ""
    judgement: StrictBool = False
    cwd: Folder = "."
    timeout: Timeout = 600
    exit: ExitCode = 0
    parallel: StrictBool | None = None

    @model_validator(mode="after")
    def _is_a_command_or_a_judgement(self) -> _Check:
        if self.judgement == bool(self.command):
            raise ValueError("it needs either a command or judgement = true")
        of_commands = sorted(self.model_fields_set - {"name", "judgement", "command"})
        if self.judgement and of_commands:
            raise ValueError(f"{of_commands[0]}: only a command has that")
        return self


class _Checks(BaseModel):
    """The whole file; each check is read on its own, so that a mistake can be named with it."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    parallel: StrictBool = False
    check: Annotated[list[Any], Field(default_factory=list)]


def _from_file(text: str) -> list[Criterion]:
    if len(text) > LONGEST_FILE:
        raise CriteriaInvalid(f"checks.toml: it is longer than {LONGEST_FILE} characters")
    try:
        file = read(_Checks, tomllib.loads(text))
    except RecursionError as error:
        raise CriteriaInvalid("checks.toml: it is nested too deeply") from error
    except ValueError as error:
        hint = "; write [[check]] above each check" if str(error).startswith("check:") else ""
        raise CriteriaInvalid(f"checks.toml: {one_line(str(error))}{hint}") from error
    found: dict[str, Criterion] = {}
    for number, table in enumerate(file.check, 1):
        criterion = _from_table(number, table, file.parallel)
        if criterion.name in found:
            raise CriteriaInvalid(f"checks.toml: check {number} ('{criterion.name}'): the name is there twice")
        found[criterion.name] = criterion
    return list(found.values())


def _from_table(number: int, table: Any, parallel: bool) -> Criterion:
    try:
        check = read(_Check, table)
    except Invalid as error:
        name = table.get("name") if isinstance(table, Mapping) else None
        shown = f" ('{one_line(name, 60)}')" if isinstance(name, str) else ""
        raise CriteriaInvalid(f"checks.toml: check {number}{shown}: {one_line(str(error))}") from error
    fields = check.model_dump(exclude={"judgement", "parallel"})
    default = parallel and not check.judgement
    return Criterion(**fields, parallel=default if check.parallel is None else check.parallel)


# The list in instructions.md

_LABEL = re.compile(r"([^`:]+):\s*(?=`)")
_HOLDS = re.compile(
    r"(?:(?:must|should|still|always)\s+)*"
    r"(?:(?:pass|succeed|work)(?:s|es)?|(?:is|are|be|stays?)\s+green|runs?\s+without\s+(?:an\s+)?errors?"
    r"|exits?(?:\s+with)?(?:\s+(?:the\s+)?(?:exit\s+)?(?:code|status))?\s+(?P<exit>\d{1,3}))?[.;,!]?",
    re.I,
)
# People write requests and calls as code too: `POST /login` works, `parse("2026-W01")` works.
_NO_COMMAND = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)\s+/.*|[\w.:]+\(.*\)", re.S)


class _Item(NamedTuple):
    """What an item is called, its command ("" for a judgement) and the exit code it wants."""

    said: str
    command: str = ""
    exit: int = 0


def _read_item(item: str) -> _Item:
    """An item that is code, perhaps with a name before it and `passes` or the like behind it, is a command."""
    bare = item.strip(" *_")
    label = _LABEL.match(bare)
    code = CODE_SPAN.match(bare, label.end() if label else 0)
    holds = _HOLDS.fullmatch(bare[code.end() :].strip()) if code else None
    if not code or not holds:
        return _Item(item)
    command, exit_code = code["code"].strip(), int(holds["exit"] or 0)
    if not command or exit_code > 255 or len(command) > LONGEST_COMMAND or _NO_COMMAND.fullmatch(command):
        return _Item(item)
    return _Item((label[1].strip(" *_") if label else "") or command, command, exit_code)


def _from_list(instructions: str) -> list[Criterion]:
    """One for each item; what stands there twice counts once, but two commands of one name are two criteria."""
    parts = sections(clean(instructions))
    lists = (body for heading, body in parts.items() if heading.startswith(HEADINGS))
    different = dict.fromkeys(_read_item(item) for body in lists for item in items(body))
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
