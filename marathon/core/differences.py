"""What changed between two texts, as lines that a person and an agent can read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from marathon.core.text import clean

LONGEST_DIFF = 6000
_CONTEXT = 3
_MOST_WORK = 8_000_000  # lines times changes, which difflib compares in about a second

Group = list[tuple[str, int, int, int, int]]


def changed_places(before: Sequence[str], after: Sequence[str]) -> Iterable[Group]:
    """The changes with a few lines around them, as difflib groups them.

    Between long and very different texts everything from the first change to the last counts as replaced.
    """
    import difflib
    from collections import Counter
    from itertools import pairwise

    pairs = [Counter(pairwise(text)) for text in (before, after)]
    if len(before) * max((pairs[0] - pairs[1]).total(), (pairs[1] - pairs[0]).total()) < _MOST_WORK:
        return difflib.SequenceMatcher(None, before, after).get_grouped_opcodes(_CONTEXT)
    room = min(len(before), len(after))
    top = next((at for at in range(room) if before[at] != after[at]), room)
    low = next((at for at in range(room - top) if before[-1 - at] != after[-1 - at]), room - top)
    a, b, lead, tail = len(before) - low, len(after) - low, min(top, _CONTEXT), min(low, _CONTEXT)
    around = [("equal", top - lead, top, top - lead, top), ("equal", a, a + tail, b, b + tail)]
    return [[around[0], ("replace", top, a, top, b), around[1]]]


def difference(before: str, after: str, old: str, new: str) -> str:
    """A unified diff without anything that a terminal would act on. Empty if nothing changed."""
    then, now = clean(before).splitlines(), clean(after).splitlines()
    lines: list[str] = []
    for group in changed_places(then, now):
        (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
        lines.append(f"@@ -{_span(a, b)} +{_span(c, d)} @@")
        for kind, a, b, c, d in group:
            same = kind == "equal"
            lines += [f"{' ' if same else '-'}{line}" for line in then[a:b]]
            lines += [] if same else [f"+{line}" for line in now[c:d]]
    return "\n".join([f"--- {old}", f"+++ {new}", *lines]) if lines else ""


def _span(first: int, end: int) -> str:
    """As unified diffs count: 12, or 12,3, or 11,0 for no line after line 11."""
    return f"{end}" if end - first == 1 else f"{first + (end > first)},{end - first}"


def shortened(diff: str, longest: int = LONGEST_DIFF) -> str:
    """The beginning of a long diff, in whole lines, with a line that says so."""
    if len(diff) <= longest:
        return diff
    kept = diff[:longest].rsplit("\n", 1)[0]
    left = diff.count("\n") - kept.count("\n")
    return f"{kept}\n(cut here: {left} more line{'s' if left > 1 else ''})"
