"""What one run carries down to everything it calls: its id, memory blocks, budget, deadline and event sink.

A session is frozen; each attempt gets its own with :meth:`Session.for_attempt`, so two runs, or two attempts, never
see each other's blocks. The one thing that they share is :class:`Spend`, which only grows.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from jeeves_reflexion.errors import BudgetExceededError, ConfigurationError
from jeeves_reflexion.events import Event
from jeeves_reflexion.types import Role, Usage

Listener: TypeAlias = Callable[[Event], Awaitable[None] | None]

logger = logging.getLogger("jeeves_reflexion")
logger.addHandler(logging.NullHandler())  # a library leaves it to its user where warnings go


@dataclass(frozen=True, slots=True)
class Budget:
    """What one run may use: tokens, US dollars, seconds of wall clock. ``None`` is no limit.

    Attempts are limited by ``max_attempts`` of the loop. The limits are checked before each model call, so the call
    that crosses one is the last; the time limit also cancels a call that hangs.
    """

    max_tokens: int | None = None
    max_cost_usd: float | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_cost_usd", "max_seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigurationError(f"Budget.{name} must be above 0 or None, not {value!r}")


_UNLIMITED = Budget()
_NOTHING = Usage()


class Spend:
    """What a run has used so far, by role; grows as models answer."""

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or _UNLIMITED
        self._by_role: dict[Role, Usage] = {}
        self._started = time.monotonic()

    def charge(self, role: Role, usage: Usage) -> None:
        """Add the usage of a call made on behalf of ``role``."""
        self._by_role[role] = self.of(role) + usage

    def of(self, role: Role) -> Usage:
        """Return what was used on behalf of ``role``."""
        return self._by_role.get(role, _NOTHING)

    def by_role(self) -> Mapping[Role, Usage]:
        """Return a copy of the usage by role."""
        return MappingProxyType(dict(self._by_role))

    @property
    def total(self) -> Usage:
        """Usage of all roles together."""
        return sum(self._by_role.values(), Usage())

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline, or None where there is none."""
        if self.budget.max_seconds is None:
            return None
        return self.budget.max_seconds - (time.monotonic() - self._started)

    def check(self) -> None:
        """Raise :class:`BudgetExceededError` if a limit is reached, naming it."""
        budget = self.budget
        if budget == _UNLIMITED:
            return
        total = self.total
        if budget.max_tokens is not None and total.tokens >= budget.max_tokens:
            raise BudgetExceededError("tokens", f"{total.tokens} of {budget.max_tokens} tokens are used")
        if budget.max_cost_usd is not None:
            if total.cost_usd is None:
                raise ConfigurationError("a cost budget needs known prices: give the model its prices, or drop it")
            if total.cost_usd >= budget.max_cost_usd:
                raise BudgetExceededError("cost", f"{total.cost_usd:.4f} of {budget.max_cost_usd} USD are used")
        left = self.seconds_left
        if left is not None and left <= 0:
            raise BudgetExceededError("time", f"the {budget.max_seconds} s of the run are over")


@dataclass(frozen=True, slots=True)
class Session:
    """What a run hands to its agent.

    ``blocks`` are the named memory blocks of this attempt, the recalled lessons among them.
    """

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    attempt: int = 0
    blocks: Mapping[str, str] = field(default_factory=dict)
    spend: Spend = field(default_factory=Spend, repr=False)
    listener: Listener | None = field(default=None, repr=False)

    def for_attempt(self, number: int, blocks: Mapping[str, str]) -> Session:
        """Return the session of one attempt, with blocks of its own beside those of the run."""
        return replace(self, attempt=number, blocks=MappingProxyType({**self.blocks, **blocks}))

    def listening(self, listener: Listener | None) -> Session:
        """Return the session with another listener."""
        return replace(self, listener=listener)

    async def emit(self, event: Event) -> None:
        """Hand an event to the listener. A listener that raises is reported in the log and loses nothing."""
        if self.listener is None:
            return
        try:
            waiting = self.listener(event)
            if inspect.isawaitable(waiting):
                await waiting
        except Exception:
            logger.exception("a listener failed on %s of run %s", event.kind, self.id)

    @contextlib.contextmanager
    def acting_as(self, role: Role) -> Iterator[None]:
        """Have model calls within the block checked against this run's budget and charged to ``role``."""
        token = _scope.set((self, role))
        try:
            yield
        finally:
            _scope.reset(token)


_scope: ContextVar[tuple[Session, Role] | None] = ContextVar("jeeves_reflexion_scope", default=None)


def current_scope() -> tuple[Session, Role] | None:
    """Return the session and the role on whose behalf the caller acts, or None outside of a run."""
    return _scope.get()
