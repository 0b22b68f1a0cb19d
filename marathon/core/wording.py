"""What a sentence of instructions holds: names of code, commands, limits, checks, an end. Only signs, no judgement.

Every expression here is anchored, bounded or a plain list of words, so that any text is read in linear time.
"""

from __future__ import annotations

import re

_BOUNDARY = re.compile(
    r"\b(?:out of scope|not in scope|non-?goals?|nothing (?:else|but)|no (?:other|more)|only|leave|except"
    r"|exclud(?:e|es|ing)|(?:do not|don't|never) (?:touch|change|modify|edit)|stays? out|is out"
    r"|out:|not part of|(?:do not|don't) \w+ (?:any )?other)(?!\w)",
    re.I,
)
_LIMIT = re.compile(
    r"\b(?:must not|mustn't|never|without|do not|don't|should not|cannot|keep|keeps|only|no new|no other"
    r"|at most|at least|unchanged|compatib\w{2,5}|preserve|avoid|nothing (?:but|else)|stays?|no longer than|not allowed"
    r"|within \d+"
    r"|must (?!pass|be green|succeed|work|exit|run)\w+)\b",
    re.I,
)
_VAGUE = re.compile(
    r"\b(?:better|nicer|nice|improve[sd]?|improvements?|clean(?:ed)? ?up|cleaner|modern|moderni[sz]e|properly|somehow"
    r"|as needed|good|great|stuff|something|maybe|somewhat|things?"
    r"|polish|optimi[sz]e|enhance|etc|whatever|robust|user-friendly|awesome)\b",
    re.I,
)
_PASSES = re.compile(r"\b(?:pass(?:es|ing)?|green|succeeds?|exits?|works?|(?:runs?|builds?) (?:clean|without))\b", re.I)
_TRIED = re.compile(r"\b(?:verify|verified|checked? (?:with|by)|tested (?:with|by)|run)\b", re.I)
_DEMANDS = re.compile(r"\b(?:should|must|shall|has to|have to|needs to|so that)\b", re.I)
_BEHAVES = re.compile(
    r"\b(?:returns?|prints?|shows?|displays?|equals?|raises?|rejects?|refuses?|fails?|responds?|contains?|appears?)\b",
    re.I,
)
_TESTS = re.compile(r"\b(?:tests?|suite|ci|build|lint|linter|type ?check|pipeline|benchmark)\b", re.I)
_ENDS = re.compile(
    r"\b(?:(?:done|finished|complete[d]?|ready) (?:when|once|if|as soon as)|until|deliver(?:s|ed|able|ables)?"
    r"|pull request|open a pr|commit(?:ted|s)?|merged?|release[d]?|publish(?:ed)?|you can stop|stop when)\b",
    re.I,
)
_DELIVERS = re.compile(r"\b(?:writes?|save|record|document|put|produce|create|report)\b", re.I)
_NONE = re.compile(
    r"\W*(?:none|nothing|no|n/?a)(?: (?:constraints?|limits?|special|particular|known|in particular))*\W*", re.I
)

_CJK = "\u3040-\u30ff\u3400-\u9fff"  # written without spaces: two signs count as a word
_WORD = re.compile(rf"[{_CJK}]{{1,2}}|(?:(?![{_CJK}])\w)+")
_FIGURE = re.compile(r"\d")
_SPAN = re.compile(r"`([^`\n]+)`")
_RUNNER = re.compile(r"(?:pytest|tox|nox|make|just|mypy|ruff|eslint|tsc|jest|vitest|ctest|rspec|phpunit|pre-commit)")
_CHECKING = re.compile(
    r"\b(?:\w{0,20}tests?|check|lint|verify|tox|nox|mypy|ruff|eslint|tsc|jest|vitest|rspec|phpunit)\b"
)
_FILE = re.compile(
    r"[\w.@/-]*\w\.(?:py|pyi|tsx?|jsx?|mjs|go|rs|rb|java|kt|swift|c|h|cc|cpp|hpp|cs|php|sh|sql|html?|css|scss|vue|svelte"
    r"|md|rst|txt|toml|ya?ml|json|xml|csv|ini|cfg|lock|tf|proto|ipynb|lua|ex|exs|hs|scala|dart)"
)
_FOLDER = re.compile(
    r"(?:\.{0,2}/|~/)?(?:src|lib|tests?|docs?|app|apps|cmd|pkg|packages|internal|bin|scripts)/[\w./-]*"
)
_TECHNOLOGIES = {"node.js", "next.js", "vue.js", "nuxt.js", "react.js", "express.js", "three.js", "d3.js"}
_EDGES = "`'\"*_.,;:!?()[]{}<>"


def words(text: str) -> int:
    return len(_WORD.findall(text))


def is_vague(text: str) -> bool:
    """More than one word in ten could mean anything, and no figure says what."""
    return 10 * len(_VAGUE.findall(text)) > words(text) and not _has_figure(text)


def is_concrete(text: str) -> bool:
    """It names code, a file, an option or a figure."""
    return bool(_SPAN.search(text) or _has_figure(text) or " --" in text or places(text))


def _has_figure(text: str) -> bool:
    return bool(_FIGURE.search(text))


def places(text: str) -> list[str]:
    """Files, folders and names of code a text mentions, in order."""
    named = [span for span in _SPAN.findall(text) if _is_name(span)]
    bare = (token.strip(_EDGES) for token in _SPAN.sub(" ", text).split())
    return list(dict.fromkeys([*named, *filter(_is_path, bare)]))


def _is_path(token: str) -> bool:
    return bool(_FILE.fullmatch(token) or _FOLDER.fullmatch(token)) and token.lower() not in _TECHNOLOGIES


def _is_name(span: str) -> bool:
    return not any(sign.isspace() for sign in span) and span[0] != "-" and any(sign.isalpha() for sign in span)


def commands(text: str) -> list[str]:
    """Code that reads like something to run."""
    return [span for span in _SPAN.findall(text) if " " in span.strip() or _RUNNER.fullmatch(span.strip())]


def tests(text: str) -> bool:
    """A command that checks something is named, whatever is said about it."""
    return any(_CHECKING.search(command) for command in commands(text))


def is_bounded(text: str) -> bool:
    """Something is said to be out."""
    return bool(_BOUNDARY.search(text))


def limits(text: str) -> bool:
    return bool(_LIMIT.search(text))


def says_none(text: str) -> bool:
    return bool(_NONE.fullmatch(text))


def is_checkable(text: str) -> bool:
    """There is something to run, to count or to see in it."""
    return bool(_SPAN.search(text) or _has_figure(text) or _PASSES.search(text) or _BEHAVES.search(text))


def must_hold(statement: str) -> bool:
    """A command that has to work, or an exact behaviour that is demanded."""
    if commands(statement) and (_PASSES.search(statement) or _TRIED.search(statement)):
        return True
    observed = _BEHAVES.search(statement) or _PASSES.search(statement)
    return bool(observed and _DEMANDS.search(statement) and is_concrete(statement))


def hints_at_a_check(statement: str) -> bool:
    """A behaviour of something named, or tests, but nothing that says what has to come of it."""
    behaves = bool(_BEHAVES.search(statement)) and is_concrete(statement)
    return behaves or tests(statement) or bool(_PASSES.search(statement) and _TESTS.search(statement))


def ends(statement: str) -> bool:
    """It says when to stop, or what is to be handed over."""
    return bool(_ENDS.search(statement)) or delivers(statement)


def delivers(statement: str) -> bool:
    """It names a file in which something is to be written down."""
    return bool(_DELIVERS.search(statement)) and any(_FILE.fullmatch(place) for place in places(statement))
