"""Calls of many threads, carried out together by one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class Failure:
    """What a call gets instead of a result: the error to raise in its thread."""

    error: BaseException


@dataclass(slots=True)
class _Call(Generic[T, R]):
    item: T
    outcome: R | Failure | None = None
    done: bool = False


class Combiner(Generic[T, R]):
    """Collects the items of calls that arrive while an earlier batch is at work, and works on them at once.

    The thread that gets the turn does the work of all that wait, so one commit, or one pass of a model,
    serves them. ``work`` is never run by two threads at a time; it returns an outcome for each item, in
    order.
    """

    def __init__(self, work: Callable[[Sequence[T]], Sequence[R | Failure]], *, limit: int = 256) -> None:
        self._work = work
        self._limit = limit
        self._guard = threading.Lock()
        self._turn = threading.Lock()
        self._waiting: list[_Call[T, R]] = []

    def __call__(self, item: T) -> R:
        """Have an item worked on, and return its result or raise its error. Blocks the thread."""
        call: _Call[T, R] = _Call(item)
        with self._guard:
            self._waiting.append(call)
        with self._turn:
            while not call.done:
                self._serve()
        outcome = call.outcome
        if isinstance(outcome, Failure):
            raise outcome.error
        return outcome  # type: ignore[return-value]  # a done call has an outcome, which may be None itself

    def _serve(self) -> None:
        with self._guard:
            batch, self._waiting = self._waiting[: self._limit], self._waiting[self._limit :]
        try:
            outcomes = self._work([call.item for call in batch])
        except BaseException as error:
            outcomes = [Failure(error)] * len(batch)
            if not isinstance(error, Exception):
                raise
        finally:
            for call, outcome in zip(batch, outcomes, strict=True):
                call.outcome, call.done = outcome, True
