"""What a session used: tokens, money, turns."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a session used, as far as its agent tells."""

    input: int = 0
    output: int = 0
    cacheRead: int = 0
    cacheWrite: int = 0
    cost: float = 0
    turns: int = 0
    toolCalls: int = 0
    model: str = ""

    @property
    def tokens(self) -> int:
        return self.input + self.output + self.cacheRead + self.cacheWrite

    def plus(self, other: Usage) -> Usage:
        """Both together; the model is the later one's."""
        counted = [each.name for each in fields(self) if each.name != "model"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in counted}
        return Usage(**sums, model=other.model or self.model)
