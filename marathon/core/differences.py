"""What changed between two texts, as lines that a person and an agent can read."""

from __future__ import annotations

from marathon.core.text import clean

LONGEST_DIFF = 6000


def difference(before: str, after: str, old: str, new: str) -> str:
    """A unified diff without anything that a terminal would act on. Empty if nothing changed."""
    import difflib

    then, now = clean(before).splitlines(), clean(after).splitlines()
    return "\n".join(difflib.unified_diff(then, now, old, new, lineterm=""))


def shortened(diff: str, longest: int = LONGEST_DIFF) -> str:
    """The beginning of a long diff, in whole lines, with a line that says so."""
    if len(diff) <= longest:
        return diff
    kept = diff[:longest].rsplit("\n", 1)[0]
    left = diff.count("\n") - kept.count("\n")
    return f"{kept}\n(cut here: {left} more line{'s' if left > 1 else ''})"
