"""Posts JSON to an embedding service: pooled connections, time limits, retries, errors without the key."""

from __future__ import annotations

import json
import random
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import httpx

from vectorstores.base import EmbeddingError

if TYPE_CHECKING:
    from vectorstores.base import JSON

_RETRIED: Final = frozenset({408, 409, 429})
_REFUSALS: Final = frozenset({400, 413, 422})
_EXCERPT: Final = 300
# Taking more than this apart would be felt on the event loop.
_INLINE_BYTES: Final = 50_000


class RefusedError(EmbeddingError):
    """The service would not embed these texts; others may fare better."""


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
    again: bool = False
    after: float | None = None


def parse_address(text: str) -> httpx.URL:
    """Return the address of a service. Raises ``ValueError``, without the text where it may hold a secret."""
    try:
        url = httpx.URL(text.strip())
    except httpx.InvalidURL as error:
        raise ValueError(f"base_url can't be read as an address: {error}") from error
    if url.userinfo or url.query:
        raise ValueError("base_url must hold neither credentials nor a query: pass api_key instead")
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError(f"base_url must begin with http:// or https:// and name a host, not {text!r}")
    return url


def is_loopback(host: str) -> bool:
    """Whether the host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


class Endpoint:
    """One address that takes JSON objects by POST, for one event loop; closed by :meth:`close` or at the end
    of the loop. ``secret`` is taken out of every error.
    """

    def __init__(
        self, url: httpx.URL, *, headers: Mapping[str, str], secret: str, patience: Patience
    ) -> None:
        self.url = url
        self._secret = secret
        self._patience = patience
        self._client = httpx.AsyncClient(
            headers={**headers, "Content-Type": "application/json"},
            timeout=httpx.Timeout(patience.timeout, connect=min(patience.connect_timeout, patience.timeout)),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            # A proxy of the environment can't reach our own machine.
            trust_env=not is_loopback(url.host),
        )
        self._holder = _close_at_end_of_loop(self._client)

    async def open(self) -> None:
        """Have the connections closed when the event loop ends."""
        await anext(self._holder)

    async def close(self) -> None:
        """Close the connections."""
        await self._holder.aclose()

    async def post(self, body: Mapping[str, JSON]) -> Mapping[str, JSON]:
        """Post an object and return the object that answers.

        Repeats on 408, 409, 429, 5xx and broken connections with growing waits, or after the ``Retry-After``
        of the service. Raises :class:`RefusedError` for 400, 413 and 422, else :class:`EmbeddingError`.
        """
        patience = self._patience
        for attempt in range(patience.retries + 1):
            answer = await self._try(body)
            if answer.error is None:
                return answer.body
            longest = patience.longest_wait
            if answer.after is not None and answer.after > longest:
                raise EmbeddingError(
                    f"{answer.error} (it asks to wait {answer.after:.0f} s, more than longest_wait, {longest:g} s)"
                ) from answer.error
            if not answer.again or attempt == patience.retries:
                if attempt == 0:
                    raise answer.error
                raise type(answer.error)(f"{answer.error} (asked {attempt + 1} times)") from answer.error
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
            value = await anyio.to_thread.run_sync(_parsed, content) if long else _parsed(content)
        if isinstance(value, dict):
            return _Answer(value)
        said = self._clean(response.text[: 20 * _EXCERPT])
        if status in {401, 403}:
            hint = "check OPENAI_API_KEY, or the api_key you passed"
            return _Answer(
                error=EmbeddingError(f"{self.url} refused the key ({status}): {hint}. It said: {said}")
            )
        if response.is_success:
            return _Answer(
                error=RefusedError(f"{self.url} answered with something that is no JSON object: {said}")
            )
        kind = RefusedError if status in _REFUSALS else EmbeddingError
        return _Answer(
            error=kind(f"{self.url} answered {status}: {said}"),
            again=status in _RETRIED or status >= 500,
            after=_retry_after(response.headers.get("retry-after")),
        )

    def _clean(self, text: str) -> str:
        if len(self._secret) >= 4:  # a shorter one is a placeholder, and its letters are everywhere
            text = text.replace(self._secret, "[REDACTED:api_key]")
        text = " ".join(text.split())
        return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}..."


async def _close_at_end_of_loop(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    # Both asyncio and trio close suspended async generators when their loop ends.
    try:
        yield
    finally:
        await client.aclose()


def _parsed(content: bytes) -> object:
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value


def _retry_after(value: str | None) -> float | None:
    """Read seconds or an HTTP date as seconds from now; ``None`` if unreadable."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(seconds, 0.0) if seconds == seconds else None  # noqa: PLR0124 - nan
