"""Posts JSON to a model's endpoint: pooled connections, time limits, retries, errors without secrets."""

from __future__ import annotations

import json
import random
import re
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.lowlevel
import httpx

from jeeves_reflexion.errors import (
    ConfigurationError,
    ModelAuthError,
    ModelConnectionError,
    ModelError,
    ModelRequestError,
    ModelResponseError,
    ModelTimeoutError,
)
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import JSON
from jeeves_reflexion.values import checked_settings, is_number
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

_TOO_LARGE: Final = 413
# A refusal that may be due to this one conversation: it is too long, or a filter dislikes it.
_ABOUT_TEXTS: Final = re.compile(
    r"context|exceed|too long|too many|length|content|polic|safety|moderat", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
@checked_settings
class Retry:
    """How often and how patiently a failed call is repeated.

    The n-th wait is ``first_wait * 2**(n-1)`` seconds, at most ``longest_wait``, times a random factor in
    [0.5, 1]; a ``Retry-After`` of the server replaces it, and ends the call if it asks for more than
    ``longest_wait``.
    """

    retries: int = 4
    first_wait: float = 0.5
    longest_wait: float = 60.0

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise ConfigurationError(f"Retry.retries must be at least 0, not {self.retries}")
        if not 0 <= self.first_wait <= self.longest_wait:
            raise ConfigurationError("Retry needs 0 <= first_wait <= longest_wait")

    def wait(self, retry: int) -> float:
        """Return the seconds to wait before the given retry, counted from 1, where the server names none."""
        wait = min(self.first_wait * 2.0 ** min(retry - 1, 1_000), self.longest_wait)
        return wait * random.uniform(0.5, 1.0)  # noqa: S311


class JsonEndpoint:
    """One address that takes JSON objects by POST and answers with JSON objects.

    What ``headers`` say, and ``secrets``, is taken out of every error. ``auth_hint`` says what to do when the endpoint
    refuses the key; ``timeout`` is the seconds for one request, ``connect_timeout`` those for its connection. Each
    event loop gets a connection pool of its own, closed by :meth:`aclose` or at the end of the loop.
    """

    def __init__(
        self,
        url: httpx.URL,
        *,
        headers: Mapping[str, str],
        secrets: Sequence[str] = (),
        auth_hint: str,
        timeout: float,
        connect_timeout: float,
        retry: Retry,
    ) -> None:
        for name, seconds in (("total", timeout), ("connect", connect_timeout)):
            if not is_number(seconds) or seconds <= 0:
                raise ConfigurationError(f"the {name} timeout must be above 0 seconds, not {seconds!r}")
        self.url = url
        self._headers = dict(headers)
        self._secrets = (*secrets, *secrets_of(headers))
        self._auth_hint = auth_hint
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._retry = retry
        self._pool: anyio.lowlevel.RunVar[tuple[httpx.AsyncClient, AsyncGenerator[None, None]] | None]
        self._pool = anyio.lowlevel.RunVar(f"jeeves_reflexion-{uuid.uuid4()}", None)

    async def post(self, body: Mapping[str, JSON]) -> Mapping[str, JSON]:
        """Post an object and return the object that answers.

        Repeats on 408, 409, 429, 5xx and broken connections, as ``Retry`` says. Raises :class:`ModelAuthError` (401,
        403), :class:`ModelRequestError` (400, 404 and their like, unless it is about the texts that were sent),
        :class:`ModelTimeoutError` (no whole answer in time; not repeated, for the endpoint may be at work),
        :class:`ModelConnectionError` and :class:`ModelResponseError`.
        """
        longest = self._retry.longest_wait
        asked = 0
        while True:
            asked += 1
            try:
                return await self._try(body)
            except _PassingError as passing:
                error, after = passing.error, passing.after
            if after is not None and after > longest:
                note = f"it asks to wait {after:.0f} s, more than longest_wait ({longest:g} s)"
                raise _noted(error, note) from error.__cause__
            if asked > self._retry.retries:
                raise (_noted(error, f"asked {asked} times") if asked > 1 else error) from error.__cause__
            await anyio.sleep(self._retry.wait(asked) if after is None else after)

    async def _try(self, body: Mapping[str, JSON]) -> Mapping[str, JSON]:
        client = await self._open()
        try:
            with anyio.fail_after(self._timeout):
                response = await client.post(self.url, content=json.dumps(body))
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout):
            raise ModelTimeoutError(f"{self.url} gave no answer within {self._timeout:g} s") from None
        except httpx.DecodingError as error:
            raise ModelResponseError(f"{self.url} sent an answer that can't be unpacked: {error}") from error
        except httpx.TransportError as error:
            said = f"{type(error).__name__}: {error}"
            reason = self._clean(said)
            problem = ModelConnectionError(
                f"can't talk to {self.url} ({reason}): is the address right, is it running?"
            )
            # A traceback shows the cause as it is.
            problem.__cause__ = error if reason == excerpt(said) else None
            if isinstance(error, httpx.UnsupportedProtocol):
                raise problem from problem.__cause__
            raise _PassingError(problem) from None
        value = parsed(response.content) if response.is_success else None
        if isinstance(value, dict):
            return value
        raise self._refusal(response)

    def _refusal(self, response: httpx.Response) -> Exception:
        """Return the error for an answer that is no JSON object, or no success."""
        status, said = response.status_code, self._clean(response.text)
        if status in {401, 403}:
            return ModelAuthError(
                f"{self.url} refused the request ({status}): {self._auth_hint}. It said: {said}"
            )
        if response.is_success:
            kind = response.headers.get("content-type", "no content type")
            message = f"{self.url} answered with something that is no JSON object ({kind}): {said}"
            return ModelResponseError(message, status=status, said=said)
        message = f"{self.url} answered {status}: {said}"
        if is_retried(status):
            error = ModelResponseError(message, status=status, said=said)
            return _PassingError(error, retry_after(response.headers.get("retry-after")))
        if 400 <= status < 500 and status != _TOO_LARGE and not _ABOUT_TEXTS.search(said):
            return ModelRequestError(message, status=status, said=said)
        return ModelResponseError(message, status=status, said=said)

    def _clean(self, text: str) -> str:
        """Return the beginning of a text, on one line, without the secret or anything that looks like one."""
        return excerpt(redact(without(self._secrets, text)[: 20 * EXCERPT]))

    def unusable(self, what: str, body: Mapping[str, JSON]) -> ModelResponseError:
        """Return the error for an answer that is JSON but not what was asked for."""
        said = self._clean(json.dumps(body, ensure_ascii=False))
        return ModelResponseError(f"{self.url} answered without {what}: {said}", status=200, said=said)

    async def _open(self) -> httpx.AsyncClient:
        pool = self._pool.get()
        if pool is None:
            client = new_client(self.url, self._headers, total=self._timeout, connect=self._connect_timeout)
            pool = client, close_at_end_of_loop(client)
            self._pool.set(pool)
            await anext(pool[1])
        return pool[0]

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next call opens new ones."""
        pool = self._pool.get()
        self._pool.set(None)
        if pool is not None:
            await pool[1].aclose()


class _PassingError(Exception):
    """An error that may not come again, ``after`` so many seconds if the endpoint said so."""

    def __init__(self, error: ModelError, after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.after = after


def _noted(error: ModelError, note: str) -> ModelError:
    error.args = (f"{error} ({note})",)
    return error
