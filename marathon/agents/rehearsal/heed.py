"""What an ask of the human means for this project, as far as it can be told without a model.

It may name files and functions to leave alone or to test, or the README; all else is looked up and kept.
"""

import re
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from marathon.agents.rehearsal.functions import Function
from marathon.agents.rehearsal.prompt import Ask
from marathon.agents.rehearsal.survey import Survey

_LEAVE = re.compile(
    r"\b(leave|skip|ignore|except|hands off|out of scope|stay away from"
    r"|(do not|don['’]t|never|without) (touch|chang|edit|modify|document|test)\w*)\b",
    re.IGNORECASE,
)
_NO_LEAVE = re.compile(r"(\bnot|n['’]t|\bnever) (skip|leave|ignore)\b", re.IGNORECASE)
_TEST = re.compile(r"\b(test|tests|tested|cover|covered)\b", re.IGNORECASE)
_COMMON_LISTED = """
about also been could from have into just like make more only please should that them then there
these they this those very want what when with would your
"""
_COMMON = frozenset(_COMMON_LISTED.split())
MOST_PLACES = 3


class Heeded(NamedTuple):
    ask: Ask
    leave: tuple[str, ...]
    test: tuple[Function, ...]
    readme: str
    answer: str


def heed(ask: Ask, survey: Survey) -> Heeded:
    """Read an ask sentence by sentence and say what is done about it."""
    leave: list[str] = []
    test: list[Function] = []
    looked: list[str] = []
    readme = ""
    for sentence in re.split(r"(?<=[.!?;])\s+", ask.text):
        files, functions = _named_files(sentence, survey), _named_functions(sentence, survey)
        if _LEAVE.search(sentence) and not _NO_LEAVE.search(sentence):
            leave += [*files, *(function.name for function in functions)]
            continue
        if _TEST.search(sentence):
            test += functions
        readme = readme or next((path for path in files if _is_readme(path)), "")
        looked += [f"`{path}`" for path in files if not _is_readme(path)]
        looked += [_place(function, survey) for function in functions]
    said = {
        f"left alone from here on: {quoted(leave)}.": leave,
        f"unit tests for {quoted(function.name for function in test)}.": test,
        f"the public functions are listed in `{readme}`.": readme,
        f"looked at {', '.join(dict.fromkeys(looked))}.": looked and not test,
    }
    answer = " ".join(line for line, holds in said.items() if holds) or _looked_up(ask, survey)
    return Heeded(ask, tuple(leave), tuple(test), readme, answer)


def quoted(names: Iterable[str]) -> str:
    """Names as they are listed in our documents."""
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))


def bullet(heeded: Heeded) -> str:
    """The line that carries an ask and its answer through research.md, plan.md and work.md."""
    return f"- {heeded.ask.kind}: “{heeded.ask.text}” → {heeded.answer}"


def carried(document: str) -> list[Ask]:
    """The asks that an earlier document has such lines for."""
    lines = re.findall(r"^- (feedback|steering|answer): “(.*)” → ", document, re.MULTILINE)
    return list(dict.fromkeys(Ask(kind, text) for kind, text in lines))


def _named_files(sentence: str, survey: Survey) -> list[str]:
    """Files a sentence speaks of, by path, by name, or by name without its ending."""
    return [file.path for file in survey.files if _speaks_of_file(sentence, file.path, survey)]


def exclusions(text: str, survey: Survey) -> list[str]:
    """What a text (the instructions) says is to be left alone."""
    sentences = re.split(r"(?<=[.!?;])\s+|\n\s*(?:[-*]\s+|\n)", text)
    return [name for sentence in sentences for name in heed(Ask("feedback", sentence), survey).leave]


def _speaks_of_file(sentence: str, path: str, survey: Survey) -> bool:
    name = path.rpartition("/")[2]
    stem = name.partition(".")[0]
    if _has_word(sentence, path) or _has_word(sentence, name):
        return True
    taken = any(function.bare_name == stem for function in survey.functions)
    return len(stem) > 2 and not taken and _has_word(sentence.lower(), stem.lower())


def _named_functions(sentence: str, survey: Survey) -> list[Function]:
    return [each for each in survey.functions if _has_word(sentence, each.name) or _has_word(sentence, each.bare_name)]


def _has_word(sentence: str, word: str) -> bool:
    return re.search(rf"(?<![\w./]){re.escape(word)}(?!\w|\.\w|/)", sentence) is not None


def _is_readme(path: str) -> bool:
    return path.rpartition("/")[2].lower().startswith("readme")


def _place(function: Function, survey: Survey) -> str:
    gaps = ", ".join(survey.gaps(function)) or "nothing missing"
    return f"`{function.name}` ({function.path}:{function.line}: {gaps})"


def _looked_up(ask: Ask, survey: Survey) -> str:
    """Where the ask's own words turn up in the project."""
    if ask.kind == "mend":
        return "gone over again with this in view."
    words = [word for word in re.findall(r"[a-z]{4,}", ask.text.lower()) if word not in _COMMON]
    places = (
        f"“{word}” in `{file.path}:{number}`"
        for word in dict.fromkeys(words)
        for file in survey.files
        for number, line in enumerate(file.text.splitlines(), 1)
        if word in line.lower()
    )
    found = ", ".join(islice(places, MOST_PLACES))
    if found:
        return f"looked its words up: {found}. More than that takes an agent with a model."
    return "names nothing that is in this project; carried along for an agent with a model."
