"""The criteria of a task: commands that must pass, and judgements that the agent records.

They stand in checks.toml and in the list below `## Success Criteria` in instructions.md. The file wins over the list.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt

from marathon.core.sections import CODE_SPAN, items, sections
from marathon.core.text import clean, one_line, seconds_in
from marathon.core.validation import SHOWN, SHOWN_ON_ONE_LINE, Invalid, must, read

MOST_CRITERIA = 200
LONGEST_NAME = 200
LONGEST_COMMAND = 10_000
LONGEST_TIMEOUT = 7 * 86400
HEADINGS = ("success criteria", "acceptance criteria")


class CriteriaInvalid(ValueError):
    """A criterion cannot be used. The text says which one and why."""


def _as_seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    seconds = seconds_in(value)
    if seconds is None:
        raise ValueError(f"{one_line(value, 40)!r} is not a duration; write it like 90s, 5m or 2h")
    return seconds


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """A command with its settings. A criterion without a command is a judgement of the agent."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: Annotated[str, AfterValidator(lambda value: one_line(value, LONGEST_NAME)), must(bool, "it is empty")]
    command: Annotated[
        str, Field(max_length=LONGEST_COMMAND), SHOWN, must(lambda value: not value or value.strip(), "it is empty")
    ] = ""
    cwd: Annotated[
        str,
        must(bool, "it is empty"),
        SHOWN_ON_ONE_LINE,
        AfterValidator(posixpath.normpath),
        must(lambda cwd: not posixpath.isabs(cwd) and cwd.split("/")[0] != "..", "it leads out of the project"),
    ] = "."
    timeout: Annotated[
        StrictFloat,
        BeforeValidator(_as_seconds),
        must(lambda value: 0 < value <= LONGEST_TIMEOUT, "it has to be more than 0 seconds and at most a week"),
    ] = 600
    exit: Annotated[StrictInt, Field(ge=0, le=255)] = 0
    parallel: StrictBool = False


def read_criteria(checks_toml: str | None, instructions: str) -> tuple[Criterion, ...]:
    """The criteria of the file, then those of the list that the file does not name."""
    filed = _from_file(checks_toml) if checks_toml is not None else []
    named = {criterion.name for criterion in filed}
    joined = [*filed, *(criterion for criterion in _from_list(instructions) if criterion.name not in named)]
    if len(joined) > MOST_CRITERIA:
        raise CriteriaInvalid(f"there are {len(joined)} criteria; at most {MOST_CRITERIA} are allowed")
    return tuple(joined)


def said_in_full(checks_toml: str | None, instructions: str) -> str:
    """The instructions with the checks of the file added as a list, so that advice takes both into account."""
    try:
        filed = _from_file(checks_toml) if checks_toml is not None else []
    except CriteriaInvalid:
        filed = []
    lines = [f"- {each.name}: `{each.command}`" if each.command else f"- {each.name}" for each in filed]
    return "\n".join([instructions, "\n## Success Criteria\n", *lines, ""]) if lines else instructions


def in_full(each: Criterion) -> str:
    """A command with its settings. A command of several lines cannot look like several commands."""
    command = in_lines(each.command)
    place = f"in {each.cwd}" if each.cwd != "." else ""
    wants = f"wants exit code {each.exit}" if each.exit else ""
    more = ", ".join(filter(None, (place, wants)))
    name = "" if each.name == each.command else f"{each.name}: "
    return f"{name}{command}" + (f"  ({more})" if more else "")


def in_lines(command: str) -> str:
    return command.replace("\n", "\n  | ")


def digest(criteria: Iterable[Criterion], project: str, setup: str = "") -> str:
    """A digest of everything that would be run or judged, and of the project."""
    facts = [{**asdict(criterion), "timeout": float(criterion.timeout)} for criterion in criteria]
    more = {"setup": setup} if setup else {}
    text = json.dumps({"project": project, "criteria": facts, **more}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# checks.toml


@dataclass(frozen=True)
class _Checks:
    """The whole file. Each check is read on its own, so that a mistake can be named with its check."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    parallel: StrictBool = False
    setup: Annotated[
        str, Field(max_length=LONGEST_COMMAND), SHOWN, must(lambda value: not value or value.strip(), "it is empty")
    ] = ""  # prepares a new worktree
    check: list[Any] = field(default_factory=list)


def setup_in(checks_toml: str | None) -> str:
    """The command of the file that prepares a new worktree."""
    return _file(checks_toml).setup if checks_toml is not None else ""


def _file(text: str) -> _Checks:
    try:
        return read(_Checks, tomllib.loads(text))
    except RecursionError as error:
        raise CriteriaInvalid("checks.toml: it is nested too deeply") from error
    except ValueError as error:
        hint = "; write [[check]] above each check" if str(error).startswith("check:") else ""
        raise CriteriaInvalid(f"checks.toml: {one_line(str(error))}{hint}") from error


def _from_file(text: str) -> list[Criterion]:
    file, found = _file(text), dict[str, Criterion]()
    for number, table in enumerate(file.check, 1):
        try:
            criterion = _from_table(table, file.parallel)
            if criterion.name in found:
                raise Invalid("the name is there twice")
        except Invalid as error:
            name = table.get("name") if isinstance(table, dict) else None
            shown = f" ('{one_line(name, 60)}')" if isinstance(name, str) else ""
            raise CriteriaInvalid(f"checks.toml: check {number}{shown}: {one_line(str(error))}") from error
        found[criterion.name] = criterion
    return list(found.values())


def _from_table(table: Any, parallel: bool) -> Criterion:
    """One [[check]]. It has a command, or it says judgement = true."""
    given = read(dict[str, Any], table)
    judgement = given.pop("judgement", False)
    if not isinstance(judgement, bool):
        raise Invalid("judgement: it is not true or false")
    criterion = read(Criterion, {"parallel": parallel and not judgement, **given})
    if judgement == bool(criterion.command):
        raise Invalid("it needs either a command or judgement = true")
    of_commands = sorted(given.keys() - {"name", "command"})
    if judgement and of_commands:
        raise Invalid(f"{of_commands[0]}: only a command has that")
    return criterion


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


def _read_item(item: str) -> tuple[str, str, int]:
    """The name, the command and its exit code. The command is empty for a judgement.

    A command is code, perhaps with a name before it and a word like `passes` behind it.
    """
    bare = item.strip(" *_")
    label = _LABEL.match(bare)
    code = CODE_SPAN.match(bare, label.end() if label else 0)
    holds = _HOLDS.fullmatch(bare[code.end() :].strip()) if code else None
    if not code or not holds:
        return item, "", 0
    command, exit_code = code["code"].strip(), int(holds["exit"] or 0)
    if not command or exit_code > 255 or len(command) > LONGEST_COMMAND or _NO_COMMAND.fullmatch(command):
        return item, "", 0
    return (label[1].strip(" *_") if label else "") or command, command, exit_code


_ENTRY = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?(?P<said>.*\S)")
_PROGRAM = re.compile(r"(?:[\w.~-]*/)*[a-z0-9][\w.+-]*")
_ARGUMENT = re.compile(r"-.*|.*[/=:*$<>|&@].*|.*\w\.\w+")  # not a word of a sentence
# Programs whose names begin sentences too: they need an argument that no sentence has.
_ALSO_WORDS = re.compile(
    "as|at|cat|clear|column|cut|date|dig|env|expand|factor|file|find|fold|free|groups|head|history|host|install|join"
    "|kill|last|less|link|look|more|nice|open|patch|script|size|sleep|sort|split|strings|strip|tail|test|time|top"
    "|touch|type|users|wall|watch|which|who|write|yes"
)
_OF_SENTENCES = re.compile(
    "a|all|an|and|any|are|as|be|better|can|does|each|every|faster|for|has|have|in|is|it|its|more|must|no|not|of|on"
    "|only|or|should|so|still|sure|than|that|the|their|there|they|this|to|up|use|when|with|work|works"
)


def bare_commands(instructions: str, is_program: Callable[[str], bool]) -> dict[int, tuple[str, str]]:
    """The criteria that look like commands but are not code, by line: the command, and the line with it as code.

    Only a human can tell a command from a sentence for sure, so these are to be offered.
    """
    parts = sections(clean(instructions))
    listed = {item for heading, body in parts.items() if heading.startswith(HEADINGS) for item in items(body)}
    found = {}
    for number, line in reversed(list(enumerate(instructions.split("\n")))):  # the criteria come last
        entry = _ENTRY.fullmatch(line.rstrip())
        if entry and entry["said"] in listed and (command := _bare_command(entry["said"], is_program)):
            listed.remove(entry["said"])
            found[number] = command, line.replace(command, f"`{command}`", 1)
    return dict(sorted(found.items()))


def _bare_command(said: str, is_program: Callable[[str], bool]) -> str:
    """The command at the start of an item, perhaps with a word like `passes` behind it. Empty if there is none."""
    words = said.split(" ")
    behind = (at for at in range(1, len(words)) if _HOLDS.fullmatch(" ".join(words[at:])))
    first, *rest = words = words[: next(behind, len(words))]
    sentence = "`" in said or re.search(r"[^./][.!?…:]$", words[-1]) or _NO_COMMAND.fullmatch(" ".join(words))
    if sentence or not _PROGRAM.fullmatch(first) or not is_program(first):
        return ""
    plain = [word for word in rest if not _ARGUMENT.fullmatch(word)]
    also_a_word = len(plain) == len(rest) and _ALSO_WORDS.fullmatch(first)
    if also_a_word or len(plain) > 3 or any(_OF_SENTENCES.fullmatch(word) for word in plain):
        return ""
    return " ".join(words)


def _from_list(instructions: str) -> list[Criterion]:
    """A criterion for each different item. Two commands of the same name are two criteria."""
    parts = sections(clean(instructions))
    lists = (body for heading, body in parts.items() if heading.startswith(HEADINGS))
    found: dict[str, Criterion] = {}
    for said, command, exit_code in dict.fromkeys(_read_item(item) for body in lists for item in items(body)):
        name = _free_name(said, found)
        found[name] = Criterion(name=name, command=command, exit=exit_code)
    return list(found.values())


def _free_name(said: str, taken: Mapping[str, Criterion]) -> str:
    name, number = one_line(said, LONGEST_NAME), 1
    while name in taken:
        number += 1
        name = f"{one_line(said, LONGEST_NAME - 6)} ({number})"
    return name
