"""Posts JSON to an embedding service: pooled connections, time limits, retries, errors without the key."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
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
    from vectorstores.embedders.http import HttpOptions

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


class _PassingError(EmbeddingError):
    """What may fare better later, ``after`` so many seconds if the service said so; ``status`` is 0 without answer."""

    def __init__(self, message: str, status: int = 0, after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.after = after


class Endpoint:
    """One address that takes JSON objects by POST, for one event loop; closed by :meth:`close` or at the end
    of the loop. What ``headers`` say is taken out of every error.
    """

    def __init__(self, url: httpx.URL, headers: Mapping[str, str], options: HttpOptions) -> None:
        self._url = url
        self._secrets = secrets_of(headers)
        self._options = options
        self._turns = anyio.Semaphore(options.concurrency)
        self._client = new_client(url, headers, total=options.timeout, connect=options.connect_timeout)
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
        before, longest = "", self._options.longest_wait
        for attempt in range(self._options.retries + 1):
            try:
                async with self._turns:
                    return await self._try(body)
            except _PassingError as error:
                failed = error
            # Some services run into an error of their own where a text is too long, and will again.
            if long and failed.status == 500 and str(failed) == before:
                raise RefusedSizeError(before, failed.status)
            before = str(failed)
            if failed.after is not None and failed.after > longest:
                raise EmbeddingError(
                    f"{failed} (it asks to wait {failed.after:.0f} s, more than longest_wait, {longest:g} s)"
                ) from failed
            if attempt < self._options.retries:
                wait = min(0.5 * 2.0**attempt, longest) * random.uniform(0.5, 1.0)  # noqa: S311
                await anyio.sleep(wait if failed.after is None else failed.after)
        raise EmbeddingError(f"{failed} (asked {attempt + 1} times)" if attempt else str(failed)) from failed

    async def _try(self, body: Mapping[str, JSON]) -> Mapping[str, JSON]:
        try:
            with anyio.fail_after(self._options.timeout):
                response = await self._client.post(self._url, content=json.dumps(body))
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout):
            raise EmbeddingError(f"{self._url} gave no answer within {self._options.timeout:g} s") from None
        except httpx.DecodingError as error:
            raise EmbeddingError(f"{self._url} sent what can't be unpacked: {error}") from None
        except httpx.TransportError as error:
            reason = self._clean(f"{type(error).__name__}: {error}")
            problem = f"can't talk to {self._url} ({reason}): is the address right, is it running?"
            if isinstance(error, httpx.UnsupportedProtocol):
                raise EmbeddingError(problem) from None
            raise _PassingError(problem) from None
        content, value = response.content, None
        if response.is_success:
            large = len(content) > _INLINE_BYTES
            value = await anyio.to_thread.run_sync(parsed, content) if large else parsed(content)
        if isinstance(value, dict):
            return value
        raise self._refusal(response)

    def _refusal(self, response: httpx.Response) -> EmbeddingError:
        """Return the error for an answer that is no JSON object, or no success."""
        status, said = response.status_code, self._clean(response.text)
        if status in {401, 403}:
            hint = "check OPENAI_API_KEY, or the api_key you passed"
            return EmbeddingError(f"{self._url} refused the key ({status}): {hint}. It said: {said}")
        if response.is_success:
            return RefusedError(f"{self._url} answered with something that is no JSON object: {said}")
        said = f"{self._url} answered {status}: {said}"
        if status in _REFUSALS:
            return RefusedSizeError(said, status)
        if is_retried(status):
            return _PassingError(said, status, retry_after(response.headers.get("retry-after")))
        return EmbeddingError(said)

    def _clean(self, text: str) -> str:
        return excerpt(without(self._secrets, text)[: 20 * EXCERPT])
