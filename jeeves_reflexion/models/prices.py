"""What models cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jeeves_reflexion.types import Usage


@dataclass(frozen=True, slots=True)
class Prices:
    """What a model costs, in US dollars per million tokens.

    ``cached_input`` is the price of input that was read from a cache, ``cache_write`` that of input that was written to
    one; without, either costs what other input does.
    """

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int | None = None) -> float:
        """Return the cost of a call in US dollars; ``cached_tokens`` are a part of ``input_tokens``."""
        cached = 0 if self.cached_input is None else min(cached_tokens or 0, input_tokens)
        of_cache = cached * (self.cached_input or 0.0)
        return ((input_tokens - cached) * self.input + of_cache + output_tokens * self.output) / 1_000_000


def priced(usage: Usage, prices: Prices | None, *, written: int = 0) -> Usage:
    """Return the usage of a call with its cost, which is unknown without prices or without counts.

    ``written`` counts the part of the input that was written to a cache.
    """
    if prices is None or usage.unreported:
        return replace(usage, cost_usd=None)
    cost = prices.cost(usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    if prices.cache_write is not None:
        cost += written * (prices.cache_write - prices.input) / 1_000_000
    return replace(usage, cost_usd=cost)


def reported(told: object, names: tuple[str, str], *, cached: object, reasoning: object) -> Usage:
    """Return the usage that an endpoint reports under the names of its input and output; unknown where it does not."""
    counts = [told.get(name) for name in names] if isinstance(told, dict) else []
    asked, said = (_count(each) for each in counts) if counts else (None, None)
    if asked is None or said is None:
        return Usage(calls=1, unreported=1, cost_usd=None)
    return Usage(
        1, asked, said, cost_usd=None, cached_tokens=_count(cached), reasoning_tokens=_count(reasoning)
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
