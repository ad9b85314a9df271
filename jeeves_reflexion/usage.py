"""What model calls cost: tokens and money, where unknown is not zero."""

from __future__ import annotations

from dataclasses import dataclass

from jeeves_reflexion.values import checked


@dataclass(frozen=True, slots=True)
@checked
class Usage:
    """What model calls cost. ``unreported`` counts calls whose endpoint gave no token counts.

    ``cost_usd`` is ``None`` as soon as one call has no known price: unknown is not free.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    unreported: int = 0

    @property
    def tokens(self) -> int:
        """Input and output tokens together, of the calls that reported them."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        if self is NO_USAGE:
            return other
        if other is NO_USAGE:
            return self
        cost = None if self.cost_usd is None or other.cost_usd is None else self.cost_usd + other.cost_usd
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            cost,
            self.unreported + other.unreported,
        )

    def beyond(self, other: Usage) -> Usage:
        """Return by how much this usage exceeds another, part by part, never below zero.

        The cost of an excess is ``None`` where this usage's cost is, unless there is no excess at all.
        """
        if other is NO_USAGE:
            return self
        if self == other:
            return NO_USAGE
        cost = None if self.cost_usd is None else max(self.cost_usd - (other.cost_usd or 0.0), 0.0)
        if cost is None and self.calls <= other.calls and self.tokens <= other.tokens:
            cost = 0.0
        return Usage(
            max(self.calls - other.calls, 0),
            max(self.input_tokens - other.input_tokens, 0),
            max(self.output_tokens - other.output_tokens, 0),
            cost,
            max(self.unreported - other.unreported, 0),
        )


NO_USAGE = Usage()
UNKNOWN_USAGE = Usage(calls=1, cost_usd=None, unreported=1)
