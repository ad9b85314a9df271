"""Posts JSON to a model's endpoint: pooled connections, time limits, retries, errors without secrets."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
import httpx

from jeeves_reflexion.errors import (
    ConfigurationError,
    ModelAuthError,
    ModelConnectionError,
    ModelError,
    ModelResponseError,
    ModelTimeoutError,
)
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import JSON
from jeeves_reflexion.values import checked_settings
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


@dataclass(frozen=True, slots=True)
@checked_settings
class Limits:
    """Seconds for one request: ``total`` for all of it, ``connect`` for the connection."""

    total: float = 60.0
    connect: float = 10.0

    def __post_init__(self) -> None:
        for name in ("total", "connect"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(
                    f"the {name} timeout must be above 0 seconds, not {getattr(self, name)}"
                )


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request came to: an object, or an error and how it may be repeated."""

    body: Mapping[str, JSON] = field(default_factory=dict)
    error: ModelError | None = None
    again: bool = False
    after: float | None = None


class JsonEndpoint:
    """One address that takes JSON objects by POST and answers with JSON objects.

    What ``headers`` say, and ``secrets``, is taken out of every error. ``auth_hint`` says what to do when the endpoint
    refuses the key. Each event loop gets a connection pool of its own, closed by :meth:`aclose` or at the end of the
    loop.
    """

    def __init__(
        self,
        url: httpx.URL,
        *,
        headers: Mapping[str, str],
        secrets: Sequence[str] = (),
        auth_hint: str,
        limits: Limits,
        retry: Retry,
    ) -> None:
        self.url = url
        self._headers = dict(headers)
        self._secrets = (*secrets, *secrets_of(headers))
        self._auth_hint = auth_hint
        self._limits = limits
        self._retry = retry
        self._pool: anyio.lowlevel.RunVar[_Pool | None]
        self._pool = anyio.lowlevel.RunVar(f"jeeves_reflexion-{uuid.uuid4()}", None)

    async def post(self, body: Mapping[str, JSON]) -> Mapping[str, JSON]:
        """Post an object and return the object that answers.

        Repeats on 408, 409, 429, 5xx and broken connections, as ``Retry`` says. Raises
        :class:`ModelAuthError` (401, 403), :class:`ModelTimeoutError` (no whole answer in time; not repeated,
        for the endpoint may be at work), :class:`ModelConnectionError` and :class:`ModelResponseError`.
        """
        for retry in range(1, self._retry.retries + 2):
            answer = await self._try(body)
            if answer.error is None:
                return answer.body
            if not answer.again:
                raise answer.error
            longest = self._retry.longest_wait
            if answer.after is not None and answer.after > longest:
                raise _noted(
                    answer.error,
                    f"it asks to wait {answer.after:.0f} s, more than longest_wait ({longest:g} s)",
                )
            if retry > self._retry.retries:
                raise _noted(answer.error, f"asked {retry} times") if retry > 1 else answer.error
            await anyio.sleep(self._retry.wait(retry) if answer.after is None else answer.after)
        raise AssertionError("unreachable: the last try returns or raises")

    async def _try(self, body: Mapping[str, JSON]) -> Answer:
        client = await self._open()
        try:
            with anyio.fail_after(self._limits.total):
                response = await client.post(self.url, content=json.dumps(body))
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout):
            late = ModelTimeoutError(f"{self.url} gave no answer within {self._limits.total:g} s")
            return Answer(error=late)
        except httpx.DecodingError as error:
            garbled = ModelResponseError(f"{self.url} sent an answer that can't be unpacked: {error}")
            garbled.__cause__ = error
            return Answer(error=garbled)
        except httpx.TransportError as error:
            said = f"{type(error).__name__}: {error}"
            reason = self._clean(said)
            problem = ModelConnectionError(
                f"can't talk to {self.url} ({reason}): is the address right, is it running?"
            )
            problem.__cause__ = error if reason == excerpt(said) else None  # a traceback shows it as it is
            return Answer(error=problem, again=not isinstance(error, httpx.UnsupportedProtocol))
        return self._read(response)

    def _read(self, response: httpx.Response) -> Answer:
        status = response.status_code
        value = parsed(response.content) if response.is_success else None
        if isinstance(value, dict):
            return Answer(value)
        said = self._clean(response.text)
        if status in {401, 403}:
            problem = f"{self.url} refused the request ({status}): {self._auth_hint}. It said: {said}"
            return Answer(error=ModelAuthError(problem))
        if not response.is_success:
            error = ModelResponseError(f"{self.url} answered {status}: {said}", status=status, said=said)
            again = is_retried(status)
            return Answer(error=error, again=again, after=retry_after(response.headers.get("retry-after")))
        kind = response.headers.get("content-type", "no content type")
        message = f"{self.url} answered with something that is no JSON object ({kind}): {said}"
        return Answer(error=ModelResponseError(message, status=status, said=said))

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
            total, connect = self._limits.total, self._limits.connect
            client = new_client(self.url, self._headers, total=total, connect=connect)
            pool = _Pool(client, close_at_end_of_loop(client))
            self._pool.set(pool)
            await anext(pool.holder)
        return pool.client

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next call opens new ones."""
        pool = self._pool.get()
        self._pool.set(None)
        if pool is not None:
            await pool.holder.aclose()


@dataclass(frozen=True, slots=True)
class _Pool:
    client: httpx.AsyncClient
    holder: AsyncGenerator[None, None]


def _noted(error: ModelError, note: str) -> ModelError:
    error.args = (f"{error} ({note})",)
    return error
