"""What one run carries down to everything it calls: its id, memory blocks, budget, deadline and event sink.

A session is frozen; each attempt gets its own with :meth:`Session.for_attempt`, so two runs, or two attempts, never
see each other's blocks. The one thing that they share is :class:`Spend`, which only grows.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import math
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias, TypeVar, get_args

import anyio

from jeeves_reflexion import telemetry
from jeeves_reflexion.errors import BudgetExceededError, ConfigurationError, hopeless
from jeeves_reflexion.events import Event
from jeeves_reflexion.types import NO_USAGE, UNKNOWN_USAGE, Role, Usage
from jeeves_reflexion.values import is_number, plain_number

T = TypeVar("T")

STORE_GRACE = 10.0
"""Seconds beyond the deadline that storing a lesson may take: what was learned is worth a moment."""

Listener: TypeAlias = Callable[[Event], Awaitable[None] | None]

# No NullHandler: where nobody set up logging, warnings go to stderr, for a mistake that is not shown is not found.
logger = logging.getLogger("jeeves_reflexion")


@dataclass(frozen=True, slots=True)
class Budget:
    """What one run may use: tokens, US dollars, seconds of wall clock. ``None`` is no limit.

    Attempts are limited by ``max_attempts`` of the loop. The limits are checked before each model call, so the call
    that crosses one is the last; the time limit also cancels a call that hangs. A call that may pass the cost is not
    made: what it may cost is known of models with prices, by its texts and its ``max_tokens``, and without a bound of
    tokens by its texts alone. A limit on what an endpoint does not
    report (tokens, or a price) can't be kept and ends the run with a :class:`ConfigurationError`; nor do a text that a
    wrapped function returns without asking a model of this package.
    """

    max_tokens: int | None = None
    max_cost_usd: float | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_cost_usd", "max_seconds"):
            given = getattr(self, name)
            value = plain_number(given)
            if value is not None and not (is_number(value) and value > 0):
                raise ConfigurationError(f"Budget.{name} must be above 0 or None, not {given!r}")
            object.__setattr__(self, name, value)


_NO_BUDGET = Budget()
_UNUSED: Mapping[Role, Usage] = dict.fromkeys(get_args(Role), NO_USAGE)


class Spend:
    """What a run has used so far, by role; grows as models answer."""

    # Of all spends together: a sync agent asks models in its own thread, and an experiment adds up several runs.
    lock = threading.RLock()

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or _NO_BUDGET
        self._by_role = dict(_UNUSED)
        self._reserved = 0.0
        self._started = time.monotonic()

    def charge(self, role: Role, usage: Usage) -> None:
        """Add the usage of a call made on behalf of ``role``."""
        with self.lock:
            self._by_role[role] += usage

    @contextlib.contextmanager
    def reserving(self, cost: float) -> Iterator[None]:
        """Set aside what a call may cost in US dollars while it is made.

        So calls at the same time can't pass the budget together. Raises :class:`BudgetExceededError` if this one may.
        """
        limit = self.budget.max_cost_usd
        with self.lock:
            used = self.total.cost_usd
            if cost > 0 and limit is not None and used is not None and used + self._reserved + cost > limit:
                under_way = (
                    f", {self._reserved:.4f} are set aside for calls under way" if self._reserved else ""
                )
                raise BudgetExceededError(
                    "cost",
                    f"{used:.4f} of {limit} USD are used{under_way}, and the next call may cost {cost:.4f}: raise the"
                    " budget, or lower max_tokens",
                )
            self._reserved += cost
        try:
            yield
        finally:
            with self.lock:
                self._reserved -= cost

    def of(self, role: Role) -> Usage:
        """Return what was used on behalf of ``role``."""
        return self._by_role[role]

    def by_role(self) -> Mapping[Role, Usage]:
        """Return a copy of the usage by role."""
        return MappingProxyType(dict(self._by_role))

    def since(self, before: Mapping[Role, Usage]) -> dict[Role, Usage]:
        """Return what each role has used since :meth:`by_role` returned ``before``."""
        return {role: used.beyond(before[role]) for role, used in self._by_role.items()}

    @property
    def total(self) -> Usage:
        """Usage of all roles together."""
        return sum(self._by_role.values(), NO_USAGE)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline, or None where there is none."""
        if self.budget.max_seconds is None:
            return None
        return self.budget.max_seconds - (time.monotonic() - self._started)

    def check(self) -> None:
        """Raise :class:`BudgetExceededError` if a limit is reached, naming it."""
        budget = self.budget
        if budget is _NO_BUDGET:
            return
        total = self.total
        if budget.max_tokens is not None:
            if total.unreported:
                raise ConfigurationError(
                    f"a token budget needs reported usage, and {total.unreported} calls reported none: use an endpoint "
                    "that reports tokens, have your own agent or reflector return an Attempt or a Reflection with its "
                    "usage instead of a text, or drop the budget"
                )
            if total.tokens >= budget.max_tokens:
                raise BudgetExceededError("tokens", f"{total.tokens} of {budget.max_tokens} tokens are used")
        if budget.max_cost_usd is not None:
            if total.cost_usd is None:
                raise ConfigurationError(
                    "a cost budget needs known prices: give the model its prices, have your own agent or reflector "
                    "return an Attempt or a Reflection with its usage instead of a text, or drop it"
                )
            if total.cost_usd >= budget.max_cost_usd:
                raise BudgetExceededError(
                    "cost", f"{total.cost_usd:.4f} of {budget.max_cost_usd} USD are used"
                )
        left = self.seconds_left
        if left is not None and left <= 0:
            raise self.too_late()

    def over(self) -> str:
        """Return which limit is reached, in words; empty where none is."""
        try:
            self.check()
        except BudgetExceededError as error:
            return str(error)
        return ""

    def too_late(self) -> BudgetExceededError:
        """Return the error that says that the time is over."""
        return BudgetExceededError("time", f"the {self.budget.max_seconds} s of the run are over")


class Inbox:
    """Advice to an agent at work, from whoever watches its steps."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def put(self, text: str) -> None:
        """Leave a text for the agent's next step."""
        self._texts.append(text)

    def take(self) -> str:
        """Return what was left since the last call, and forget it."""
        texts, self._texts = self._texts, []
        return "\n".join(texts)


@dataclass(frozen=True, slots=True)
class Session:
    """What a run hands to its agent.

    ``blocks`` are the named memory blocks of this attempt, the recalled lessons among them. ``inbox`` is where the
    inner loop leaves its critique of the steps so far: an agent takes it before each of its steps and shows it to its
    model as data.
    """

    id: str = field(default_factory=lambda: os.urandom(16).hex())
    attempt: int = 0
    blocks: Mapping[str, str] = field(default_factory=dict)
    spend: Spend = field(default_factory=Spend, repr=False)
    listener: Listener | None = field(default=None, repr=False)
    inbox: Inbox = field(default_factory=Inbox, repr=False)

    def for_attempt(self, number: int, blocks: Mapping[str, str]) -> Session:
        """Return the session of one attempt, with blocks of its own beside those of the run."""
        merged = MappingProxyType({**self.blocks, **blocks})
        return Session(self.id, number, merged, self.spend, self.listener)

    def at(self, attempt: int) -> Session:
        """Return the session with the number of an attempt."""
        return self if attempt == self.attempt else replace(self, attempt=attempt)

    def listening(self, listener: Listener | None) -> Session:
        """Return the session with another listener."""
        return replace(self, listener=listener)

    @property
    def heard(self) -> bool:
        """Whether anybody listens to the session, or exports spans."""
        return self.listener is not None or telemetry.tracer() is not None

    async def tell(self, kind: Callable[..., Event], **values: object) -> None:
        """Emit an event of this run and attempt; it is made only where somebody listens."""
        if self.heard:
            await self.emit(kind(**{"run_id": self.id, "attempt": self.attempt, **values}))

    async def emit(self, event: Event) -> None:
        """Hand an event to the listener. A listener that raises is reported in the log and loses nothing."""
        telemetry.told(event)
        await relay(self, event)

    async def in_time(self, call: Callable[[], Awaitable[T]], *, grace: float = 0.0) -> T:
        """Make a call that the run's deadline, ``grace`` seconds later, cancels.

        Raises :class:`BudgetExceededError` then.
        """
        left = self.spend.seconds_left
        if left is None:
            return await call()
        with anyio.move_on_after(max(left, 0.0) + grace):
            return await call()
        raise self.spend.too_late()

    async def spending(self, role: Role, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call on behalf of ``role`` in time, and charge the usage it reports beyond what was metered."""
        return await self.in_time(lambda: self._metered(role, call))

    async def _metered(self, role: Role, call: Callable[[], Awaitable[T]]) -> T:
        before = self.spend.of(role)
        with self.acting_as(role), telemetry.acting(role, self.attempt):
            try:
                value = await call()
            except anyio.get_cancelled_exc_class() as error:
                if is_cancelled():
                    raise
                raise RuntimeError("a cancellation that nobody asked for came out of the call") from error
            except ExceptionGroup as group:
                # Tasks side by side raise in a group: what ends the run must be seen as itself.
                if (found := hopeless(group)) is None:
                    raise
                raise found from group
        reported: Usage = getattr(value, "usage", NO_USAGE)
        beyond = reported.beyond(self.spend.of(role).beyond(before))
        if beyond is not NO_USAGE:
            self.spend.charge(role, beyond)
        return value

    @contextlib.contextmanager
    def acting_as(self, role: Role) -> Iterator[None]:
        """Have model calls within the block checked against this run's budget and charged to ``role``."""
        token = _scope.set((self, role, threading.get_ident()))
        try:
            yield
        finally:
            _scope.reset(token)


async def relay(session: Session, event: Event) -> None:
    """Hand an event to a session's listener that another session has emitted: spans have been told of it."""
    if session.listener is None:
        return
    try:
        waiting = session.listener(event)
        if inspect.isawaitable(waiting):
            await waiting
    except Exception:
        logger.exception("a listener failed on %s of run %s", event.kind, session.id)


def is_cancelled() -> bool:
    """Whether the current task is being cancelled: by a scope around it, or by asyncio's own ``cancel``."""
    if anyio.current_effective_deadline() == -math.inf:
        return True
    try:
        task = asyncio.current_task()
    except RuntimeError:  # another kind of event loop
        return False
    return task is not None and task.cancelling() > 0


_scope: ContextVar[tuple[Session, Role, int] | None] = ContextVar("jeeves_reflexion_scope", default=None)


def current_scope() -> tuple[Session, Role] | None:
    """Return the session and the role on whose behalf the caller acts, or None outside of a run.

    In another thread, where a sync agent may have an event loop of its own, nobody listens to the session.
    """
    scope = _scope.get()
    if scope is None:
        return None
    session, role, home = scope
    return (session if home == threading.get_ident() else session.listening(None)), role


class Meter:
    """What the caller's role uses up in the current run from now on, by models that are metered."""

    def __init__(self) -> None:
        self._scope = current_scope()
        self._before = self._spent()

    def _spent(self) -> Usage:
        return NO_USAGE if self._scope is None else self._scope[0].spend.of(self._scope[1])

    def usage(self) -> Usage:
        """Return what was used, which is unknown where no call was metered: a callable may have asked elsewhere."""
        used = self._spent().beyond(self._before)
        return used if used.calls else UNKNOWN_USAGE

    def charge_unknown(self) -> None:
        """Charge a call of unknown usage, for a callable that failed, unless its calls were metered."""
        if self._scope is not None and not self._spent().beyond(self._before).calls:
            session, role = self._scope
            session.spend.charge(role, UNKNOWN_USAGE)
