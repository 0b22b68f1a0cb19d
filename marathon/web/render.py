"""Documents and differences as HTML. What an agent wrote is text: no markup and no address of its own gets through."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from marathon.core.differences import changed_places
from marathon.web.html import Html, Part, h, text

if TYPE_CHECKING:
    from markdown_it.token import Token

_LINK = re.compile(r"(?i)https?://|mailto:|#")
_BOX_LINE = re.compile(r"^(\s*(?:[-*+]|\d{1,9}[.)])\s+)(\[[ xX]\] )")
_BOX = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}
_LONGEST_PART = 60_000  # characters that are shown at once
_LONGEST_WORDS = 600  # characters of a line whose changed words are marked
_NOTHING: Mapping[int, Part] = MappingProxyType({})
_MOST_ROWS = 4000  # of a diff
_FENCE = re.compile(r"\s*(```+|~~~+)")
_WORDS = re.compile(r"(\w+|\s+|.)", re.S)

Beside = Callable[[int, int], tuple[Html, Html]]  # what stands in the margin of some lines, and what stands below them


def parts_of(lines: Sequence[str]) -> list[int]:
    """Where the parts of a long document begin: at headings or blank lines outside of code."""
    starts, length, fence = [0], 0, ""
    for number, line in enumerate(lines):
        mark = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        heading = line.startswith("#")
        if not fence and (length > _LONGEST_PART * 2 or (length > _LONGEST_PART and (heading or not line.strip()))):
            starts.append(number)
            length = 0
        length += len(line) + 1
    return starts


def markdown(lines: Sequence[str], first: int, beside: Beside) -> Html:
    """A part of a document whose first line has this number. Every block names its lines."""
    tokens = _parser().parse("\n".join(_BOX_LINE.sub(lambda box: box[1] + _BOX[box[2]], line) for line in lines))
    return Html(_parser().renderer.render(tokens, _parser().options, {"beside": beside, "first": first}))


def numbered(lines: Sequence[str], first: int, beside: Beside) -> Html:
    """The same as plain lines."""
    found = []
    for number, line in enumerate(lines, start=first):
        margin, below = beside(number, number)
        found.append(h("div", margin, h("code", line or " "), class_="line", data_line=f"{number}-{number}") + below)
    return h("div", Html("".join(found)), class_="lines")


@functools.cache
def _parser() -> Any:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML

    class Renderer(RendererHTML):
        """Adds to each block its lines, and what stands beside and below them."""

        def render(self, tokens: Sequence[Token], options: Any, env: Any) -> str:
            env["below"] = []
            return super().render(tokens, options, env)

        def renderToken(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
            token = tokens[idx]
            _make_plain(token)
            if token.type == "tr_open" and token.map:
                token.attrSet("data-part", _span(env["first"] + token.map[0]))
            if token.type in ("bullet_list_open", "ordered_list_open") and env["below"]:
                below, env["below"][-1] = env["below"][-1], Html()  # of an item's own words, before the items in it
                return f"{below}{super().renderToken(tokens, idx, options, env)}"
            if token.hidden or token.type.rpartition("_")[0] not in _COMMENTED:
                return super().renderToken(tokens, idx, options, env)
            if token.nesting == 1:
                margin, below = _beside(token, env, _own_end(tokens, idx))
                env["below"].append(below)
                if token.type == "table_open":
                    lines = _lines(token)
                    token.attrSet("tabindex", "0")  # a wide one can be scrolled by keys
                    return f"<div{lines}>{margin}{super().renderToken(tokens, idx, options, env)}"
                return super().renderToken(tokens, idx, options, env) + margin
            drawn, below = super().renderToken(tokens, idx, options, env), env["below"].pop()
            if token.type == "list_item_close":
                return f"{below}{drawn}"
            return f"{drawn}</div>{below}" if token.type == "table_close" else f"{drawn}{below}"

        def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
            token = tokens[idx]
            margin, below = _beside(token, env, None)
            begins = (token.map[0] if token.map else 0) + env["first"] + (token.type == "fence")
            code = [
                h("span", line, data_part=_span(number))
                for number, line in enumerate(token.content.splitlines(keepends=True), start=begins)
            ]
            return f"<div{_lines(token)}>{margin}{h('pre', h('code', code), tabindex=0)}</div>{below}"

        code_block = fence

        def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
            return text(f"[image: {tokens[idx].content}]")

    parser = MarkdownIt("commonmark", {"html": False}, renderer_cls=Renderer).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: bool(_LINK.match(url))  # type: ignore[method-assign]
    return parser


_COMMENTED = ("heading", "paragraph", "list_item", "table")


def _own_end(tokens: Sequence[Token], idx: int) -> int | None:
    """Where an item's own words end, because the blocks in it name their own lines. None for other blocks."""
    if tokens[idx].type == "list_item_open":
        for at in range(idx + 1, len(tokens)):
            token = tokens[at]
            if token.map and not token.hidden and token.type != "inline":
                return token.map[0]
            if token.level <= tokens[idx].level:
                break
    return None


def _beside(token: Token, env: Any, end: int | None) -> tuple[Html, Html]:
    if not token.map or end == token.map[0]:
        return Html(), Html()
    last = max(token.map[0] + 1, token.map[1] if end is None else min(end, token.map[1]))
    first, last = token.map[0] + env["first"], last + env["first"] - 1
    token.attrSet("data-line", f"{first}-{last}")
    beside: tuple[Html, Html] = env["beside"](first, last)
    return beside


def _span(line: int) -> str:
    return f"{line}-{line}"


def _lines(token: Token) -> str:
    return f' class="block" data-line="{token.attrs.pop("data-line", "")}"'


def _make_plain(token: Token) -> None:
    """Nothing that our policy forbids, and no address that could do more than be followed."""
    if style := token.attrs.pop("style", None):
        token.attrs["class"] = str(style).removeprefix("text-align:")
    if token.type == "link_open":
        token.attrs = {"href": token.attrs.get("href", ""), "rel": "noopener noreferrer nofollow"}


# Differences


class Change(NamedTuple):
    """One row of a diff: the line before and after, with their numbers. None where there is none."""

    old: tuple[int, str] | None
    new: tuple[int, str] | None

    @property
    def same(self) -> bool:
        return bool(self.old and self.new and self.old[1] == self.new[1])


def changes(before: Sequence[str], after: Sequence[str]) -> Iterator[list[Change]]:
    """The changed places of two texts, each with a few lines around it."""
    for group in changed_places(before, after):
        rows = []
        for _, a, b, c, d in group:
            old, new = [*enumerate(before[a:b], a + 1)], [*enumerate(after[c:d], c + 1)]
            for nth in range(max(len(old), len(new))):
                rows.append(Change(old[nth] if nth < len(old) else None, new[nth] if nth < len(new) else None))
        yield rows


def diff(
    before: Sequence[str],
    after: Sequence[str],
    *,
    beside: bool,
    said: Mapping[int, Part] = _NOTHING,
    link: str = "",
) -> Html:
    """Two texts as a table: side by side, or one below the other. Of a very long one, the beginning.

    `said`: what stands below a line of the text before. `link`: where to comment on a line of the text after.
    """
    found = list(changes(before, after))
    if not found:
        return h("p", "Nothing changed between these two.")
    row, left, bodies = _side_by_side if beside else _inline, _MOST_ROWS, []
    for rows in found:
        drawn = [[row(change, link), _below(said, change)] for change in rows[:left]]
        bodies.append(h("tbody", drawn))
        left -= len(rows)
        if left < 0:
            break
    every = sum(map(len, found))
    cut = h("p", f"The first {_MOST_ROWS} of {every} lines of this difference. All: pi-marathon rounds TASK PHASE A B")
    table = h("table", bodies, class_="diff side" if beside else "diff")
    return text([cut if left < 0 else None, h("div", table, class_="wide", tabindex=0)])


def _below(said: Mapping[int, Part], change: Change) -> Html | None:
    found = said.get(change.old[0]) if change.old else None
    return h("tr", h("td", found, colspan=4)) if found else None


def _side_by_side(change: Change, link: str) -> Html:
    old, new = _marked(change)
    gone, came = "gone" if change.old and not change.same else None, "new" if change.new and not change.same else None
    before = [_number(change.old), h("td", old, class_=gone)]
    after = [_number(change.new, link), h("td", new, class_=came)]
    return h("tr", before, after, class_="same" if change.same else None)


def _inline(change: Change, link: str) -> Part:
    old, new = _marked(change)
    if change.same and change.old and change.new:
        return h("tr", _number(change.old), _number(change.new, link), h("td", new))
    gone = h("tr", _number(change.old), _number(None), h("td", "− ", old, class_="gone")) if change.old else None
    came = h("tr", _number(None), _number(change.new, link), h("td", "+ ", new, class_="new")) if change.new else None
    return [gone, came]


def _number(line: tuple[int, str] | None, link: str = "") -> Html:
    number = line[0] if line else ""
    if not link or not line:
        return h("td", number, class_="number")
    to = h("a", number, href=f"{link}{number}-{number}#say", aria_label=f"Comment on line {number}")
    return h("td", to, class_="number")


def _marked(change: Change) -> tuple[Html, Html]:
    """Both lines; where a line was replaced, with the changed words marked."""
    if not change.old or not change.new or change.same:
        return text(change.old[1] if change.old else ""), text(change.new[1] if change.new else "")
    old, new = change.old[1], change.new[1]
    if len(old) + len(new) > _LONGEST_WORDS:
        return text(old), text(new)
    then, now = _WORDS.findall(old), _WORDS.findall(new)
    codes = difflib.SequenceMatcher(None, then, now, autojunk=False).get_opcodes()
    return (
        text([_word("".join(then[a:b]), kind) for kind, a, b, _, _ in codes]),
        text([_word("".join(now[c:d]), kind) for kind, _, _, c, d in codes]),
    )


def _word(words: str, kind: str) -> Part:
    return words if kind == "equal" or not words else h("mark", words)


def patch(told: str) -> Html:
    """What git says about changed files, a section for each file."""
    top, *files = re.split(r"(?m)^(?=diff --git )", told)
    return text([h("pre", top.strip("\n"), tabindex=0) if top.strip() else None, *map(_file, files)])


def _file(told: str) -> Html:
    lines = told.rstrip("\n").split("\n")
    body = next((number for number, line in enumerate(lines) if line.startswith("@@")), len(lines))
    names = [line[4:].split("/", 1)[-1] for line in lines[:body] if line.startswith(("--- ", "+++ "))]
    name = next((each for each in reversed(names) if each != "dev/null"), lines[0].split(" b/")[-1])
    signs = [line[:1] for line in lines[body:]]
    counts = f"  +{signs.count('+')} −{signs.count('-')}"
    kinds = {"+": "new", "-": "gone", "@": "place"}
    shown = [h("span", line, "\n", class_=kinds.get(line[:1])) for line in lines[body:] or lines[1:]]
    return h("details", h("summary", name, h("small", counts)), h("pre", shown, class_="patch", tabindex=0), open=True)


def facts(rows: Mapping[str, Part]) -> Html:
    """Names and values, without those that are empty."""
    return h("dl", [[h("dt", name), h("dd", value)] for name, value in rows.items() if value])
