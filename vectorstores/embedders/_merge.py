"""Calls of many tasks, sent together by one of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import anyio

from vectorstores._combine import Failure

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True, eq=False)
class _Call(Generic[T, R]):
    items: Sequence[T]
    woken: anyio.Event = field(default_factory=anyio.Event)
    leads: bool = False
    gone: bool = False
    outcome: R | Failure | None = None


class Merger(Generic[T, R]):
    """Sends at most ``lanes`` requests at a time; calls that wait for a lane go into one request, up to
    ``most`` items.

    For one event loop. ``send`` gets the items of each call and returns an outcome for each. The first of the
    waiting calls does the sending; if it is cancelled, the next one sends for the others.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Sequence[T]]], Awaitable[Sequence[R | Failure]]],
        *,
        lanes: int,
        most: int,
    ) -> None:
        self._send = send
        self._free = lanes
        self._most = most
        self._waiting: deque[_Call[T, R]] = deque()

    async def __call__(self, items: Sequence[T]) -> R:
        """Return the outcome for these items, or raise its error."""
        call: _Call[T, R] = _Call(items)
        if self._free:
            self._free -= 1
            call.leads = True
        else:
            self._waiting.append(call)
            await self._wait(call)
        if call.leads:
            await self._lead(call)
        if isinstance(call.outcome, Failure):
            raise call.outcome.error
        return call.outcome  # type: ignore[return-value]  # a call that was served has an outcome

    async def _wait(self, call: _Call[T, R]) -> None:
        try:
            await call.woken.wait()
        except BaseException:
            call.gone = True
            if call in self._waiting:
                self._waiting.remove(call)
            elif call.leads:
                self._pass_on()
            raise

    async def _lead(self, call: _Call[T, R]) -> None:
        batch, size = [call], len(call.items)
        while self._waiting and size + len(self._waiting[0].items) <= self._most:
            batch.append(self._waiting.popleft())
            size += len(batch[-1].items)
        try:
            outcomes = await self._send([each.items for each in batch])
            for each, outcome in zip(batch, outcomes, strict=True):
                each.outcome = outcome
        except Exception as error:  # noqa: BLE001 - raised by each of the calls it belongs to
            for each in batch:
                each.outcome = Failure(error)
        except BaseException:
            self._waiting.extendleft(each for each in reversed(batch[1:]) if not each.gone)
            batch = []
            raise
        finally:
            for each in batch[1:]:
                each.woken.set()
            self._pass_on()

    def _pass_on(self) -> None:
        if self._waiting:
            call = self._waiting.popleft()
            call.leads = True
            call.woken.set()
        else:
            self._free += 1
