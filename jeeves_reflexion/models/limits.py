"""How often models may be asked by all runs of a process together."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import anyio

from jeeves_reflexion.models.ask import expected_tokens
from jeeves_reflexion.models.wrapped import WrappedModel
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling
from jeeves_reflexion.values import check_whole

_MINUTE: Final = 60.0
# Seconds: who waits may be in another event loop than who is done, so nobody is woken.
_LOOK_AGAIN: Final = 0.02


@dataclass(eq=False, slots=True)
class _Call:
    tokens: int
    began: float = 0.0


class Limits:
    """Bounds on the calls of models: in any minute so many requests and so many tokens, and so many calls at a time.

    They hold for all calls of the models that share one object, in all runs and threads of this process; a call that
    would pass a bound waits for its turn, first come, first served. Tokens are estimated before a call, by its texts
    and the ``max_tokens`` of its sampling, and counted after it where they are reported. What a model repeats by itself
    (:class:`~jeeves_reflexion.models.Retry`) counts as one request. A single call that is larger
    than the bound goes when nothing else did for a minute. Raises :class:`ConfigurationError` for a bound below 1.
    """

    def __init__(
        self,
        *,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        concurrency: int | None = None,
    ) -> None:
        self._bounds = {
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
            "concurrency": concurrency,
        }
        for name, bound in self._bounds.items():
            if bound is not None:
                check_whole(f"Limits.{name}", bound)
        self._lock = threading.Lock()
        self._waiting: list[_Call] = []
        self._under_way: set[_Call] = set()
        self._recent: deque[_Call] = deque()

    @contextlib.asynccontextmanager
    async def turn(self, tokens: int) -> AsyncIterator[_Call]:
        """Wait until a call of about so many tokens may be made, and hold its place until the block ends."""
        call = _Call(tokens)
        with self._lock:
            self._waiting.append(call)
        try:
            while (seconds := self._seconds_to_wait(call)) is not None:  # noqa: ASYNC110 - who waits may be in another event loop
                await anyio.sleep(seconds)
            yield call
        finally:
            with self._lock:
                self._under_way.discard(call)
                if call in self._waiting:
                    self._waiting.remove(call)

    def _seconds_to_wait(self, call: _Call) -> float | None:
        """Return when to ask again for a call; None where it has begun, since it may be made now."""
        now = time.monotonic()
        with self._lock:
            if place := self._waiting.index(call):
                return _LOOK_AGAIN * (1 + place / 10)
            while self._recent and self._recent[0].began + _MINUTE <= now:
                self._recent.popleft()
            requests, tokens, at_once = self._bounds.values()
            if at_once is not None and len(self._under_way) >= at_once:
                return _LOOK_AGAIN
            full = requests is not None and len(self._recent) >= requests
            if tokens is not None and self._recent:
                full = full or sum(each.tokens for each in self._recent) + call.tokens > tokens
            if full:
                # Counts may yet turn out smaller than they were expected.
                return min(self._recent[0].began + _MINUTE - now, 1.0)
            self._waiting.pop(0)
            call.began = now
            self._recent.append(call)
            self._under_way.add(call)
        return None


class LimitedModel(WrappedModel):
    """A model that is asked within :class:`Limits`."""

    def __init__(self, model: ChatModel, limits: Limits) -> None:
        super().__init__(model)
        self._limits = limits

    async def complete(self, messages: Sequence[Message], **settings: Any) -> Completion:  # noqa: ANN401 - as above
        """Wait for a turn, and ask the model."""
        sampling: Sampling | None = settings.get("sampling")
        bound = (sampling.max_tokens if sampling else None) or 0
        async with self._limits.turn(expected_tokens(messages, **settings) + bound) as call:
            completion = await super().complete(messages, **settings)
            if not completion.usage.unreported:
                call.tokens = completion.usage.tokens
            return completion
