"""Posts JSON to an embedding service: pooled connections, time limits, retries, errors without the key."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import httpx

from vectorstores.base import EmbeddingError
from vectorstores.json_http import (
    EXCERPT,
    close_at_end_of_loop,
    excerpt,
    is_retried,
    new_client,
    parsed,
    retry_after,
    secrets_of,
    without,
)

if TYPE_CHECKING:
    from vectorstores.base import JSON

_REFUSALS: Final = frozenset({400, 413, 422})
# Taking more than this apart would be felt on the event loop.
_INLINE_BYTES: Final = 50_000


class RefusedError(EmbeddingError):
    """The service would not embed these texts; others may fare better."""


class RefusedSizeError(RefusedError):
    """The service refused the texts as it would if they were too long, or too many; ``status`` is its answer's."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds for a request and for its connection; how often it is repeated, and after how long at most."""

    timeout: float
    connect_timeout: float
    retries: int
    longest_wait: float


@dataclass(frozen=True, slots=True)
class _Answer:
    body: Mapping[str, JSON] = field(default_factory=dict)
    error: EmbeddingError | None = None
    status: int = 0
    again: bool = False
    after: float | None = None


class Endpoint:
    """One address that takes JSON objects by POST, for one event loop; closed by :meth:`close` or at the end
    of the loop. What ``headers`` say is taken out of every error.
    """

    def __init__(self, url: httpx.URL, *, headers: Mapping[str, str], patience: Patience) -> None:
        self.url = url
        self._secrets = secrets_of(headers)
        self._patience = patience
        self._client = new_client(url, headers, total=patience.timeout, connect=patience.connect_timeout)
        self._holder = close_at_end_of_loop(self._client)

    async def open(self) -> None:
        """Have the connections closed when the event loop ends."""
        await anext(self._holder)

    async def close(self) -> None:
        """Close the connections."""
        await self._holder.aclose()

    async def post(self, body: Mapping[str, JSON], *, long: bool = False) -> Mapping[str, JSON]:
        """Post an object and return the object that answers.

        Repeats on 408, 409, 429, 5xx and broken connections with growing waits, or after the ``Retry-After``
        of the service. Raises :class:`RefusedSizeError` for 400, 413 and 422, and where what is ``long`` was answered
        with the same 500 twice; else :class:`EmbeddingError`.
        """
        patience = self._patience
        before = ""
        for attempt in range(patience.retries + 1):
            answer = await self._try(body)
            if answer.error is None:
                return answer.body
            # Some services run into an error of their own where a text is too long, and will again.
            if long and answer.status == 500 and str(answer.error) == before:
                raise RefusedSizeError(before, answer.status)
            before = str(answer.error)
            longest = patience.longest_wait
            if answer.after is not None and answer.after > longest:
                raise EmbeddingError(
                    f"{answer.error} (it asks to wait {answer.after:.0f} s, more than longest_wait, {longest:g} s)"
                ) from answer.error
            if not answer.again or attempt == patience.retries:
                if attempt == 0 or isinstance(answer.error, RefusedError):
                    raise answer.error
                raise EmbeddingError(f"{answer.error} (asked {attempt + 1} times)") from answer.error
            wait = min(0.5 * 2.0**attempt, longest) * random.uniform(0.5, 1.0)  # noqa: S311
            await anyio.sleep(wait if answer.after is None else answer.after)
        raise AssertionError("unreachable: the last try returns or raises")

    async def _try(self, body: Mapping[str, JSON]) -> _Answer:
        try:
            with anyio.fail_after(self._patience.timeout):
                response = await self._client.post(self.url, content=json.dumps(body))
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout):
            return _Answer(
                error=EmbeddingError(f"{self.url} gave no answer within {self._patience.timeout:g} s")
            )
        except httpx.DecodingError as error:
            return _Answer(error=EmbeddingError(f"{self.url} sent what can't be unpacked: {error}"))
        except httpx.TransportError as error:
            reason = self._clean(f"{type(error).__name__}: {error}")
            problem = f"can't talk to {self.url} ({reason}): is the address right, is it running?"
            again = not isinstance(error, httpx.UnsupportedProtocol)
            return _Answer(error=EmbeddingError(problem), again=again)
        return await self._read(response)

    async def _read(self, response: httpx.Response) -> _Answer:
        status, content = response.status_code, response.content
        value: object = None
        if response.is_success:
            long = len(content) > _INLINE_BYTES
            value = await anyio.to_thread.run_sync(parsed, content) if long else parsed(content)
        if isinstance(value, dict):
            return _Answer(value)
        said = self._clean(response.text)
        if status in {401, 403}:
            hint = "check OPENAI_API_KEY, or the api_key you passed"
            return _Answer(
                error=EmbeddingError(f"{self.url} refused the key ({status}): {hint}. It said: {said}")
            )
        if response.is_success:
            return _Answer(
                error=RefusedError(f"{self.url} answered with something that is no JSON object: {said}")
            )
        said = f"{self.url} answered {status}: {said}"
        refused = status in _REFUSALS
        return _Answer(
            error=RefusedSizeError(said, status) if refused else EmbeddingError(said),
            status=status,
            again=is_retried(status),
            after=retry_after(response.headers.get("retry-after")),
        )

    def _clean(self, text: str) -> str:
        return excerpt(without(self._secrets, text)[: 20 * EXCERPT])
