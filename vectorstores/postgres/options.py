"""How long a PostgreSQL store waits, and how much it takes of the server."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """Bounds of a store's connections; times in seconds.

    ``pool_size`` connections are opened at most, per event loop; further calls wait ``checkout_timeout`` for
    one. ``statement_timeout`` bounds each statement on the server. ``retry_for`` is how long a call is tried
    again while the server restarts or the connection is lost. ``ef_search`` is how many candidates a walk
    through the index keeps: more find more, and take longer; None goes by the size of the table. A search for
    more than half as many keeps twice what it wants, 1,000 at most. ``exact_below`` is up to how many admitted
    chunks a search may compare one by one instead, where they are a small part of the table.
    """

    pool_size: int = 10
    connect_timeout: float = 10.0
    checkout_timeout: float = 30.0
    statement_timeout: float = 60.0
    retry_for: float = 30.0
    ef_search: int | None = None
    exact_below: int = 150_000

    def __post_init__(self) -> None:
        for name in ("pool_size", "exact_below", "ef_search"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise TypeError(f"{name} must be a whole number, got {value!r}")
        for name in ("pool_size", "connect_timeout", "checkout_timeout", "statement_timeout", "exact_below"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)!r}")
        if not 0 <= self.retry_for < math.inf:
            raise ValueError(f"retry_for must not be negative, got {self.retry_for!r}")
        if self.ef_search is not None and not 1 <= self.ef_search <= 1000:
            raise ValueError(f"ef_search must be between 1 and 1000, got {self.ef_search!r}")
