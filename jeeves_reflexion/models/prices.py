"""What models cost."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import UNKNOWN_USAGE, Usage
from jeeves_reflexion.values import checked_settings, is_number

# The columns of LiteLLM's table, in US dollars per token.
_PER_TOKEN: Final = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cached_input": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
}


@dataclass(frozen=True, slots=True)
@checked_settings
class Prices:
    """What a model costs, in US dollars per million tokens.

    ``cached_input`` is the price of input read from a cache, ``cache_write`` that of input written to one; None means
    the price of other input. Raises :class:`ConfigurationError` for an invalid price.
    """

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        for name in _PER_TOKEN:
            price = getattr(self, name)
            if not 0 <= (price or 0.0) < float("inf"):
                raise ConfigurationError(f"Prices.{name} must be US dollars of at least 0, not {price!r}")

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int | None = None) -> float:
        """Return the cost of a call in US dollars; ``cached_tokens`` are part of ``input_tokens``."""
        cached = 0 if self.cached_input is None else min(cached_tokens or 0, input_tokens)
        of_cache = cached * (self.cached_input or 0.0)
        return ((input_tokens - cached) * self.input + of_cache + output_tokens * self.output) / 1_000_000


def read_prices(path: str | os.PathLike[str]) -> dict[str, Prices]:
    """Read prices from a JSON file, as a dict by the name of the model.

    ::

        {"gpt-4o-mini": {"input": 0.15, "output": 0.6, "cached_input": 0.075}}

    in US dollars per million tokens, or a table as LiteLLM publishes it; its models without a price for text are left
    out. Raises :class:`ConfigurationError` for a file that can't be read and for an invalid price.
    """
    try:
        table = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"the prices {path} can't be read: {error}") from error
    if not isinstance(table, dict):
        raise ConfigurationError(f"the prices {path} must be a JSON object of prices by model")
    found: dict[str, Prices] = {}
    for name, row in table.items():
        if not isinstance(row, dict):
            raise ConfigurationError(f"the prices {path}: {name!r} must be an object with input and output")
        own = "input" in row or "output" in row
        given = {name: row.get(name if own else column) for name, column in _PER_TOKEN.items()}
        if own:
            prices = {name: price for name, price in given.items() if price is not None}
        else:
            prices = {name: price * 1_000_000 for name, price in given.items() if is_number(price)}
        if prices.keys() >= {"input", "output"}:
            if not all(is_number(price) and 0 <= price < float("inf") for price in prices.values()):
                raise ConfigurationError(f"the prices {path}: {name!r} must be US dollars of at least 0")
            found[name] = Prices(**prices)
        elif own:
            raise ConfigurationError(f"the prices {path}: {name!r} needs both input and output")
    return found


def priced(usage: Usage, prices: Prices | None, *, written: int = 0) -> Usage:
    """Return the usage of a call with its cost, which is unknown without prices or without token counts.

    ``written`` is the number of input tokens that were written to a cache.
    """
    if prices is None or usage.unreported:
        return replace(usage, cost_usd=None)
    cost = prices.cost(usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    if prices.cache_write is not None:
        cost += written * (prices.cache_write - prices.input) / 1_000_000
    return replace(usage, cost_usd=cost)


def reported(usage: object, input_name: str, output_name: str) -> Usage:
    """Return the usage that an endpoint reports under these names; unknown if it reports none."""
    counts = usage if isinstance(usage, dict) else {}
    asked, answered = (_count(counts.get(name)) for name in (input_name, output_name))
    if asked is None or answered is None:
        return UNKNOWN_USAGE
    of_input, of_output = (counts.get(f"{name}_details") for name in (input_name, output_name))
    # OpenAI, DeepSeek and Anthropic each have a name of their own for tokens read from a cache.
    cached = of_input.get("cached_tokens") if isinstance(of_input, dict) else None
    known = (cached, counts.get("prompt_cache_hit_tokens"), counts.get("cache_read_input_tokens"))
    return Usage(
        1,
        asked,
        answered,
        cost_usd=None,
        cached_tokens=next((count for each in known if (count := _count(each)) is not None), None),
        reasoning_tokens=_count(of_output.get("reasoning_tokens")) if isinstance(of_output, dict) else None,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
