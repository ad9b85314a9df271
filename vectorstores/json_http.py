"""The HTTP client: posts JSON to a service over persistent connections, and retries where that may help.

The embedders here and the chat models share it; each turns :class:`RequestError` into errors of its own.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import random
import ssl
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import anyio
import anyio.to_thread
import httpx
from anyio.lowlevel import RunVar
from httpx_sse import EventSource

from vectorstores.header_secrets import secrets_of, without
from vectorstores.service_address import is_loopback
from vectorstores.service_answers import EXCERPT, RequestError, check_answer, excerpt, parsed

if TYPE_CHECKING:
    from vectorstores.base import JSON

_MOVED: Final = frozenset({301, 302, 307, 308})
_MOST_REDIRECTS: Final = 5
_AFTER_END: Final = 2.0
# Longer answers, such as the vectors of many texts, are parsed in a thread.
_LONG: Final = 50_000


class AnswerStream(ABC):
    """Takes the events of one answer as they arrive, and assembles them into ``body``, the answer as an object.

    ``ended`` says that the answer is complete, ``handed_on`` that a part of it is in use, so that it can't be retried.
    """

    handed_on = False

    def begin(self) -> None:
        """Discard what arrived of an answer that broke off."""
        self.ended = False
        self.body: dict[str, Any] = {}

    @abstractmethod
    async def take(self, event: Mapping[str, Any]) -> None:
        """Read one event."""


class Timeouts(NamedTuple):
    """Seconds for a whole request, for connecting, and for a silence within a streamed answer."""

    total: float
    connect: float
    idle: float | None = None


class Waits(NamedTuple):
    """How often a request is retried, and the seconds before the first retry and at most before any."""

    retries: int
    first: float = 0.5
    longest: float = 60.0

    def before(self, retry: int) -> float:
        """Return the seconds to wait before a retry, counted from 1, if the service does not say."""
        wait = min(self.first * 2.0 ** min(retry - 1, 1_000), self.longest)
        return wait * random.uniform(0.5, 1.0)  # noqa: S311


class JsonService:
    """One address that takes JSON objects by POST and answers with JSON objects.

    Error messages never contain the values of ``headers`` or ``secrets``, and pass through ``clean``. Each event loop
    has its own connections, which :meth:`aclose` or the end of the loop closes; at most ``concurrency`` requests use
    them at once.
    """

    def __init__(
        self,
        url: httpx.URL,
        headers: Mapping[str, str],
        *,
        timeouts: Timeouts,
        waits: Waits,
        secrets: Sequence[str] = (),
        clean: Callable[[str], str] = str,
        concurrency: float = math.inf,
    ) -> None:
        self.url = url
        self._headers = httpx.Headers(headers)
        self._headers["Content-Type"] = "application/json"  # replaces a user's own
        self._secrets = (*secrets, *secrets_of(headers))
        self._timeouts = timeouts
        self._waits = waits
        self._clean = clean
        self._concurrency = concurrency
        self._connections: RunVar[_Connections | None] = RunVar(f"jeeves-{uuid.uuid4()}", None)

    async def post(self, body: Mapping[str, JSON], stream: AnswerStream | None = None) -> dict[str, Any]:
        """Post an object and return the answer, or the ``body`` of ``stream`` if the service streams it.

        Raises :class:`RequestError`, also for an error in an answer with status 200. Passing errors are retried as
        ``waits`` says, unless the stream has handed something on. Redirects are followed on the same host only. A
        stream that stops before its end is an error; an answer that is not streamed does not reach ``stream``.
        """
        asked = 0
        while True:
            asked += 1
            if stream is not None:
                stream.begin()
            try:
                return await self._posted(body, stream)
            except RequestError as error:
                longest = self._waits.longest
                if not error.passing or (stream is not None and stream.handed_on):
                    raise
                if error.after is not None and error.after > longest:
                    note = f"it asks to wait {error.after:.0f} s, more than longest_wait ({longest:g} s)"
                    raise error.noted(note) from error.__cause__
                if asked > self._waits.retries:
                    raise (error.noted(f"asked {asked} times") if asked > 1 else error) from error.__cause__
                seconds = self._waits.before(asked) if error.after is None else error.after
            await anyio.sleep(seconds)

    async def _posted(self, body: Mapping[str, JSON], stream: AnswerStream | None) -> dict[str, Any]:
        connections = await self._open()
        response = None
        try:
            async with connections.turns:
                with anyio.fail_after(self._timeouts.total):
                    response = await self._followed(connections.client, body, stream)
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout) as error:
            if stream is None or not stream.ended:  # else the answer is whole, though its stream stayed open
                total, idle = self._timeouts.total, self._timeouts.idle
                silent = idle is not None and isinstance(error, httpx.ReadTimeout)
                said = f"sent nothing for {idle:g} s" if silent else f"gave no answer within {total:g} s"
                raise RequestError(f"{self.url} {said}", "late") from None
        except httpx.DecodingError as error:
            said = f"{self.url} sent an answer that can't be unpacked: {error}"
            raise RequestError(said, "garbled") from error
        except httpx.TransportError as error:
            said = f"{type(error).__name__}: {error}"
            reason = self.shown(said)
            raise RequestError(
                f"can't talk to {self.url} ({reason}): is the address right, is it running?",
                "unreachable",
                passing=not isinstance(error, httpx.UnsupportedProtocol),
            ) from (error if reason == excerpt(said) else None)  # a traceback would show the secret
        if response is None or (stream is not None and stream.ended):
            assert stream is not None  # noqa: S101 - the stream has ended
            return stream.body
        content = response.content
        long = len(content) > _LONG
        value = await anyio.to_thread.run_sync(parsed, content) if long else parsed(content)
        if isinstance(value, dict):
            return value
        kind = self.shown(response.headers.get("content-type", "no content type"))
        said = self.shown(response.text)
        message = f"{self.url} answered with something that is no JSON object ({kind}): {said}"
        raise RequestError(message, "garbled", status=response.status_code, said=said)

    async def _followed(
        self, client: httpx.AsyncClient, body: Mapping[str, JSON], stream: AnswerStream | None
    ) -> httpx.Response:
        """Post to the address, and follow redirects on the same host: no other host may receive the key."""
        url = self.url
        content, (total, connect, idle) = json.dumps(body), self._timeouts
        read = idle if idle is not None and body.get("stream") else total
        limits = httpx.Timeout(total, connect=min(connect, total), read=min(read, total))
        for _ in range(_MOST_REDIRECTS):
            async with client.stream("POST", url, content=content, timeout=limits) as response:
                # JSON is UTF-8, perhaps after a byte order mark. The charset that a service names can't be trusted: it
                # may be one of Python's codecs that don't decode to text, such as "hex".
                response.encoding = "utf-8-sig"
                kind = response.headers.get("content-type", "")
                if stream is not None and response.is_success and kind.startswith("text/event-stream"):
                    await self._read(response, stream)
                    return response
                await response.aread()
            target = _target(url, response)
            if target is None:
                break
            url = target
        check_answer(self.url, response, response.content, self.shown)
        return response

    async def _read(self, response: httpx.Response, stream: AnswerStream) -> None:
        """Read a stream to its end. Raises :class:`RequestError` if the answer is not complete then."""
        events = EventSource(response).aiter_sse()
        try:
            with anyio.CancelScope() as rest:
                async with contextlib.aclosing(events):
                    async for event in events:
                        if event.data.strip() in ("", "[DONE]"):
                            continue
                        content = event.data.encode(errors="replace")
                        value = parsed(content)
                        if not isinstance(value, dict):
                            said = (
                                f"{self.url} sent an event that is no JSON object: {self.shown(event.data)}"
                            )
                            raise RequestError(said, "garbled")
                        check_answer(self.url, response, content, self.shown)
                        await stream.take(value)
                        if stream.ended:
                            # Usage may follow. A server may leave its stream open, so the wait is limited.
                            rest.deadline = min(rest.deadline, anyio.current_time() + _AFTER_END)
        except (httpx.ReadTimeout, httpx.ReadError, httpx.RemoteProtocolError) as error:
            if isinstance(error, httpx.ReadTimeout) and not stream.ended:
                raise
        if not stream.ended:
            raise RequestError(f"{self.url} broke off its answer in the middle", "unreachable", passing=True)

    def at(self, url: httpx.URL) -> Self:
        """Return the service at another address of the same host, with the same connections."""
        other = copy.copy(self)
        other.url = url
        return other

    def shown(self, text: str) -> str:
        """Return the beginning of a service's text, on one line and without secrets."""
        return excerpt(self._clean(without(self._secrets, text)[: 20 * EXCERPT]))

    async def _open(self) -> _Connections:
        connections = self._connections.get()
        if connections is None:
            # A proxy from the environment can't reach this machine.
            trust_env = not is_loopback(self.url.host)
            client = httpx.AsyncClient(
                headers=self._headers,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
                verify=_certificates(trust_env=trust_env),
                trust_env=trust_env,
            )
            turns = anyio.CapacityLimiter(self._concurrency)
            connections = _Connections(client, _close_at_end_of_loop(client), turns)
            self._connections.set(connections)
            await anext(connections.holder)
        return connections

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next request opens new ones."""
        connections = self._connections.get()
        self._connections.set(None)
        if connections is not None:
            await connections.holder.aclose()


@cache
def _certificates(*, trust_env: bool) -> ssl.SSLContext:
    """Return the certificates to trust, read once per process: each client would take 30 ms to read them again."""
    return httpx.create_ssl_context(trust_env=trust_env)


class _Connections(NamedTuple):
    """The connections of one event loop."""

    client: httpx.AsyncClient
    holder: AsyncGenerator[None, None]
    turns: anyio.CapacityLimiter


async def _close_at_end_of_loop(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    """Close a client when the generator is closed, or when the event loop ends; start it with ``anext``."""
    # Both asyncio and trio close suspended async generators when their loop ends. So connections that nobody closes
    # don't outlive their loop, for example those of a model that is used in several calls of run_sync.
    try:
        yield
    finally:
        await client.aclose()


def _target(url: httpx.URL, response: httpx.Response) -> httpx.URL | None:
    """Return the target of a redirect if it is the same service: the same host, and the same port or its HTTPS."""
    if response.status_code not in _MOVED or "location" not in response.headers:
        return None
    try:
        target = url.join(response.headers["location"])
    except httpx.InvalidURL:
        return None
    secured = url.scheme == "http" and target.scheme == "https" and target.port is None and url.port is None
    same = (url.scheme, url.port) == (target.scheme, target.port)
    return target if url.host == target.host and not target.userinfo and (same or secured) else None
