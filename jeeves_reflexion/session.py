"""What a run passes to everything it calls: its id, memory blocks, budget, deadline and event listener.

A session is frozen. Each attempt gets its own with :meth:`Session.for_attempt`, so runs and attempts never see each
other's blocks. The attempts of a run share one :class:`Spend`, which only grows.
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
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias, TypeVar, get_args

import anyio
import anyio.to_thread

from jeeves_reflexion import telemetry
from jeeves_reflexion.callables import LONG, aside
from jeeves_reflexion.errors import BudgetExceededError, ConfigurationError, hopeless
from jeeves_reflexion.events import Event
from jeeves_reflexion.redaction import redact, redact_record
from jeeves_reflexion.types import NO_USAGE, UNKNOWN_USAGE, Role, Usage
from jeeves_reflexion.values import is_number, plain_number

T = TypeVar("T")

STORE_GRACE = 10.0
"""How many seconds beyond the deadline storing a lesson may take, so that it is not lost."""

Listener: TypeAlias = Callable[[Event], Awaitable[None] | None]

# No NullHandler: if logging is not set up, warnings go to stderr, where someone sees them.
logger = logging.getLogger("jeeves_reflexion")


@dataclass(frozen=True, slots=True)
class Budget:
    """What one run may use: tokens, US dollars, seconds of wall clock. ``None`` is no limit.

    The loop's ``max_attempts`` limits attempts. The limits are checked before each model call, so the call that crosses
    one is the last; the time limit also cancels a call that hangs. A call that could exceed the cost limit is not made:
    for a model with prices, its cost is estimated from its texts and its ``max_tokens``, if given. If an endpoint does
    not report tokens, or a model has no price, a limit on it can't be kept, and the run ends with a
    :class:`ConfigurationError`. The same holds for a wrapped function that returns a text without asking a model of
    this package.
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
    """What a run has used so far, by role; grows as models answer.

    With ``within`` it counts what a part of a run uses, charges it to the run too, and keeps the limits of the run.
    """

    # One lock for all: a sync agent asks models in its own thread, and an experiment adds up several runs.
    lock = threading.RLock()

    def __init__(self, budget: Budget | None = None, *, within: Spend | None = None) -> None:
        self._within = within
        self.budget: Budget = within.budget if within is not None else budget or _NO_BUDGET
        self._by_role = dict(_UNUSED)
        self._reserved = 0.0
        self._started = time.monotonic()

    def charge(self, role: Role, usage: Usage) -> None:
        """Add the usage of a call made on behalf of ``role``."""
        with self.lock:
            self._by_role[role] += usage
            if self._within is not None:
                self._within.charge(role, usage)

    @contextlib.contextmanager
    def reserving(self, cost: float) -> Iterator[None]:
        """Reserve the US dollars that a call may cost while it is made, so that concurrent calls keep the budget.

        Raises :class:`BudgetExceededError` if the call could exceed the budget.
        """
        if self._within is not None:
            with self._within.reserving(cost):
                yield
            return
        limit = self.budget.max_cost_usd
        with self.lock:
            used = self.total.cost_usd
            if cost > 0 and limit is not None and used is not None and used + self._reserved + cost > limit:
                under_way = (
                    f", {self._reserved:.4f} are reserved for calls under way" if self._reserved else ""
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
        """Return the usage of ``role``."""
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
        """Seconds until the deadline, or None if there is none."""
        if self._within is not None:
            return self._within.seconds_left
        if self.budget.max_seconds is None:
            return None
        return self.budget.max_seconds - (time.monotonic() - self._started)

    def check(self) -> None:
        """Raise :class:`BudgetExceededError` if a limit is reached, naming it."""
        if self._within is not None:
            self._within.check()
            return
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
        """Return which limit is reached, in words; empty if none is."""
        try:
            self.check()
        except BudgetExceededError as error:
            return str(error)
        return ""

    def too_late(self) -> BudgetExceededError:
        """Return the error for a run whose time is over."""
        return BudgetExceededError("time", f"the {self.budget.max_seconds} s of the run are over")


class Inbox:
    """Advice for a running agent, from whoever watches its steps."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def put(self, text: str) -> None:
        """Leave a text for the agent's next step."""
        self._texts.append(text)

    def take(self) -> str:
        """Return the texts left since the last call, and remove them."""
        texts, self._texts = self._texts, []
        return "\n".join(texts)


@dataclass(frozen=True, slots=True)
class Session:
    """What a run passes to its agent.

    ``blocks`` are the named memory blocks of this attempt, which include the recalled lessons. The inner loop leaves
    its critique of the steps so far in ``inbox``; an agent takes it before each step and shows it to its model as data.
    """

    id: str = field(default_factory=lambda: os.urandom(16).hex())
    attempt: int = 0
    blocks: Mapping[str, str] = field(default_factory=dict)
    spend: Spend = field(default_factory=Spend, repr=False)
    listener: Listener | None = field(default=None, repr=False)
    inbox: Inbox = field(default_factory=Inbox, repr=False)

    def for_attempt(self, number: int, blocks: Mapping[str, str]) -> Session:
        """Return the session of one attempt, with its own blocks added to those of the run."""
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
        """Whether there is a listener, or the program exports spans."""
        return self.listener is not None or telemetry.tracer() is not None

    async def tell(self, kind: Callable[..., Event], **values: object) -> None:
        """Emit an event of this run and attempt; it is only made if somebody listens."""
        if self.heard:
            await self.emit(kind(**{"run_id": self.id, "attempt": self.attempt, **values}))

    async def emit(self, event: Event) -> None:
        """Pass an event to the listener. If the listener raises, the error is logged and the run goes on."""
        telemetry.told(event)
        await relay(self, event)

    async def in_time(self, call: Callable[[], Awaitable[T]], *, grace: float = 0.0) -> T:
        """Make a call, which is cancelled ``grace`` seconds after the run's deadline.

        Raises :class:`BudgetExceededError` then.
        """
        left = self.spend.seconds_left
        if left is None:
            return await call()
        with anyio.move_on_after(max(left, 0.0) + grace):
            return await call()
        raise self.spend.too_late()

    async def spending(self, role: Role, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call in time on behalf of ``role``, and charge the usage that it reports beyond what was metered."""
        before = self.spend.of(role)
        with self.acting_as(role), telemetry.acting(role, self.attempt):
            try:
                value = await self.in_time(call)
            except anyio.get_cancelled_exc_class() as error:
                if is_cancelled():
                    raise
                raise RuntimeError("a cancellation that nobody asked for came out of the call") from error
            except ExceptionGroup as group:
                # Concurrent tasks raise in a group; an error that ends the run is raised as itself.
                if (ending := hopeless(group)) is None:
                    raise
                raise ending from group
        reported: Usage = getattr(value, "usage", NO_USAGE)
        beyond = reported.beyond(self.spend.of(role).beyond(before))
        if beyond is not NO_USAGE:
            self.spend.charge(role, beyond)
        return value

    @contextlib.contextmanager
    def acting_as(self, role: Role) -> Iterator[None]:
        """Within the block, check model calls against this run's budget and charge them to ``role``."""
        token = _scope.set((self, role, threading.get_ident()))
        try:
            yield
        finally:
            _scope.reset(token)


async def relay(session: Session, event: Event) -> None:
    """Pass on an event that another session has emitted, and has added to its span already."""
    if session.listener is None:
        return
    try:
        waiting = session.listener(event)
        if inspect.isawaitable(waiting):
            await waiting
    except Exception as error:  # noqa: BLE001 - a listener of the user's own
        await log_failure(error, "a listener failed on %s of run %s", event.kind, session.id)


async def log_failure(error: Exception, message: str, *values: object) -> None:
    """Log an error of the user's own code with its traceback, in which secrets are redacted."""
    trace = await aside(redact, "".join(traceback.format_exception(error)).rstrip())
    logger.error(f"{message}\n%s", *values, trace)


def redacting(session: Session) -> Session:
    """Return the session with a listener that hears no secrets; the same session if it has one already."""
    if session.listener is None or isinstance(session.listener, _Redacting):
        return session
    return session.listening(_Redacting(session.listener))


class _Redacting:
    """Redacts each event before the listener hears it; a long one in a worker thread."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def __call__(self, event: Event) -> Awaitable[None] | None:
        async def hear() -> None:
            waiting = self._listener(await anyio.to_thread.run_sync(redact_record, event))
            if waiting is not None:
                await waiting

        return hear() if len(repr(event)) > LONG else self._listener(redact_record(event))


def is_cancelled() -> bool:
    """Whether the current task is being cancelled, by a cancel scope or by asyncio's own ``cancel``."""
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

    In another thread, where a sync agent may run its own event loop, the session has no listener.
    """
    scope = _scope.get()
    if scope is None:
        return None
    session, role, home = scope
    return (session if home == threading.get_ident() else session.listening(None)), role


class Meter:
    """Measures what the caller's role uses in the current run from now on, with metered models."""

    def __init__(self) -> None:
        scope = current_scope()
        self._spend = scope[0].spend if scope else Spend()
        self._role: Role = scope[1] if scope else "agent"
        self._before = self._spend.of(self._role)

    def usage(self) -> Usage:
        """Return what was used. Without a metered call it is unknown: a callable may have asked other models."""
        used = self._spend.of(self._role).beyond(self._before)
        return used if used.calls else UNKNOWN_USAGE

    def charge_unknown(self) -> None:
        """Charge a call of unknown usage for a callable that failed, unless its calls were metered."""
        if not self._spend.of(self._role).beyond(self._before).calls:
            self._spend.charge(self._role, UNKNOWN_USAGE)
