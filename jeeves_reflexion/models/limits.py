"""Rate limits for models, shared by all runs of a process."""

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
# Seconds between two looks. A finished call can't wake the next one, which may be in another event loop.
_LOOK_AGAIN: Final = 0.02


@dataclass(eq=False, slots=True)
class _Call:
    tokens: int
    began: float = 0.0


class Limits:
    """Bounds on the requests and tokens of models in any minute, and on the calls at a time.

    They hold for all calls of the models that share one object, in all runs and threads of this process. A call that
    would exceed a bound waits for its turn, first come, first served. Tokens are estimated before a call, from its
    texts and the ``max_tokens`` of its sampling, and corrected afterwards if they are reported. A call and its retries
    (:class:`~jeeves_reflexion.models.Retry`) count as one request. A call larger than the bound is made once no other
    call was made for a minute. Raises :class:`ConfigurationError` for a bound below 1.
    """

    def __init__(
        self,
        *,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        concurrency: int | None = None,
    ) -> None:
        bounds = {
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
            "concurrency": concurrency,
        }
        self._bounds = {
            name: None if bound is None else check_whole(f"Limits.{name}", bound)
            for name, bound in bounds.items()
        }
        self._lock = threading.Lock()
        self._waiting: list[_Call] = []
        self._under_way: set[_Call] = set()
        self._recent: deque[_Call] = deque()

    @contextlib.asynccontextmanager
    async def turn(self, tokens: int) -> AsyncIterator[_Call]:
        """Wait until a call of about this many tokens may be made, and hold its place until the block ends."""
        call = _Call(tokens)
        with self._lock:
            self._waiting.append(call)
        try:
            while (seconds := self._seconds_to_wait(call)) is not None:  # noqa: ASYNC110 - the other calls may be in another event loop
                await anyio.sleep(seconds)
            yield call
        finally:
            with self._lock:
                self._under_way.discard(call)
                if call in self._waiting:
                    self._waiting.remove(call)

    def _seconds_to_wait(self, call: _Call) -> float | None:
        """Return in how many seconds to ask again; None if the call may be made now, in which case it has begun."""
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
                # The calls under way may turn out smaller than estimated.
                return min(self._recent[0].began + _MINUTE - now, 1.0)
            self._waiting.pop(0)
            call.began = now
            self._recent.append(call)
            self._under_way.add(call)
        return None


class LimitedModel(WrappedModel):
    """A model whose calls keep to :class:`Limits`."""

    def __init__(self, model: ChatModel, limits: Limits) -> None:
        super().__init__(model)
        self._limits = limits

    async def complete(self, messages: Sequence[Message], **settings: Any) -> Completion:  # noqa: ANN401 - of ``ChatModel``
        """Wait for a turn, then ask the model."""
        sampling: Sampling | None = settings.get("sampling")
        bound = (sampling.max_tokens if sampling else None) or 0
        async with self._limits.turn(expected_tokens(messages, **settings) + bound) as call:
            completion = await super().complete(messages, **settings)
            if not completion.usage.unreported:
                call.tokens = completion.usage.tokens
            return completion
