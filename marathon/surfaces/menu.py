"""The keys of a gate: those that are always in sight, and the rest behind `?`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import fill
from typing import Literal, NamedTuple

from marathon.core.gates import Offer, agrees, is_rare
from marathon.core.text import clean, wrapped
from marathon.surfaces.base import GateView, Sight
from marathon.surfaces.gate_text import describe, fit, fitted, pages, parts
from marathon.surfaces.paint import ASKS_TWICE, YES, paint

_BESIDE = "  "  # between keys on one row


class Key(NamedTuple):
    """A key that belongs to the terminal and answers nothing."""

    key: str
    label: str
    shown: Literal["always", "more"] = "always"


Option = Offer | Sight | Key
Options = Mapping[str, Option]


def options_of(view: GateView) -> dict[str, Option]:
    """Every key that acts, in the order of the menu."""
    keys = [Key("c", "comment")] if view.commenting else []
    keys += [Key("e", "edit")] if view.at_hand else []
    keys += [Key("u", "put back")] if view.put_back else []
    keys.append(Key("w", "browser"))
    leave = [Key("b", "leave it in the background", "more")] if view.leave else []
    found: list[Option] = [*view.offers, *view.sights, *keys, *leave]
    return {option.key: option for option in found}


def in_sight(view: GateView) -> list[Option]:
    """Those that the menu shows without `?`."""
    return [
        each
        for each in options_of(view).values()
        if (not is_rare(each, view.gate) if isinstance(each, Offer) else each.shown == "always")
    ]


def gate_pages(view: GateView, columns: int, rows: int) -> list[str]:
    """The gate as it is shown on a terminal. Only what is agreed to or answered may need several pages."""
    below = _menu(view, columns)
    room = rows - 2 - below.count("\n")  # the cursor has a row of its own
    *earlier, last = pages(fit(parts(view, columns), columns, room), columns, rows - 2, room)
    return [*earlier, f"{last}\n{below}"]


def with_all_keys(view: GateView, columns: int, rows: int) -> str:
    """All keys, below the gate in full if something of it was shortened."""
    full, options = describe(view), options_of(view).values()
    room = rows - 2 - _menu(view, columns).count("\n")
    above = fitted("\n".join(full), columns) + "\n" if fit(parts(view, columns), columns, room) != full else ""
    offers = [each for each in options if isinstance(each, Offer) and each.key != "q"]
    usual, rare = ([each for each in offers if is_rare(each, view.gate) is such] for such in (False, True))
    keys = [_short(each) for each in options if not isinstance(each, Offer) and each.shown != "never"]
    lines = [*_answers(usual, columns), _row(keys, columns), *_answers([*rare, view.offers[-1]], columns)]
    return above + "\n".join(lines)


def _menu(view: GateView, columns: int) -> str:
    """A row for each answer, and one for the keys that only show or note something."""
    shown = in_sight(view)
    keys = [*(_short(each) for each in shown if not isinstance(each, Offer)), "[?] more"]
    answers = [each for each in shown if isinstance(each, Offer)]
    if agrees(view.gate):
        return paint(_row([f"{answers[0].label}? [y/n]", "[q] quit", *keys], columns, ""), YES)
    return "\n".join([*_answers(answers, columns), _row(keys, columns)])


def key_name(key: str) -> str:
    return {"enter": "Enter", " ": "Space"}.get(key, key)


def _answers(offers: Iterable[Offer], columns: int) -> list[str]:
    """The phases to go to share a row, because a workflow may have many."""
    rows: list[str] = []
    phases: list[str] = []
    for offer in offers:
        style = YES if offer.key in ("enter", "y") else ASKS_TWICE if offer.heavy else ""
        if offer.key.isdigit():
            phases.append(_short(offer))
            continue
        rows += [paint(_row(phases, columns), ASKS_TWICE)] if phases else []
        phases = []
        line = f"  [{key_name(offer.key)}]".ljust(11) + clean(offer.label)
        rows.append(paint(fill(line, max(20, columns), subsequent_indent=" " * 11), style))
    return [*rows, *([paint(_row(phases, columns), ASKS_TWICE)] if phases else [])]


def _short(option: Option) -> str:
    return f"[{key_name(option.key)}] {clean(option.label)}"


def _row(keys: Iterable[str], columns: int, indent: str = "  ") -> str:
    """Keys beside each other, none of them broken where it fits."""
    whole = [key.replace(" ", "\xa0") for key in keys]
    return wrapped(indent + _BESIDE.join(whole), columns, "  ").replace("\xa0", " ")
