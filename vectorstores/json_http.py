"""The one HTTP client: it posts JSON to a service, over connections that are kept, again where that may help.

The embedders here and the chat models above them share it; each makes errors of its own of :class:`RequestError`.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import random
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
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
# Bytes of an answer, such as the vectors of many texts, that take a moment to read.
_LONG: Final = 50_000


class AnswerStream(ABC):
    """Takes the events of one answer as they come, and puts them together to ``body``, the answer as an object.

    ``ended`` says that it is whole, ``handed_on`` that a part of it is in use, so that it must not be asked for again.
    """

    handed_on = False

    def begin(self) -> None:
        """Forget what came of an answer that broke off."""
        self.ended = False
        self.body: dict[str, Any] = {}

    @abstractmethod
    async def take(self, event: Mapping[str, Any]) -> None:
        """Read one event."""


class Timeouts(NamedTuple):
    """Seconds for a request as a whole, for its connection, and for a silence within a streamed answer."""

    total: float
    connect: float
    idle: float | None = None

    def of(self, *, streaming: bool) -> httpx.Timeout:
        """Return them as httpx has them, each at most the whole."""
        idle = self.total if self.idle is None or not streaming else self.idle
        return httpx.Timeout(self.total, connect=min(self.connect, self.total), read=min(idle, self.total))


class Waits(NamedTuple):
    """How often a request is repeated, and the seconds before the first time and before any time at most."""

    retries: int
    first: float = 0.5
    longest: float = 60.0

    def before(self, retry: int) -> float:
        """Return the seconds to wait before a retry, counted from 1, where the service names none."""
        wait = min(self.first * 2.0 ** min(retry - 1, 1_000), self.longest)
        return wait * random.uniform(0.5, 1.0)  # noqa: S311


class JsonService:
    """One address that takes JSON objects by POST and answers with JSON objects.

    What ``headers`` say, and ``secrets``, is taken out of every error, and what ``clean`` takes out. Each event loop
    has connections of its own, closed by :meth:`aclose` or at the end of the loop; ``concurrency`` requests at once use
    them.
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
        self._headers["Content-Type"] = "application/json"  # once, also where a user names it
        self._secrets = (*secrets, *secrets_of(headers))
        self._timeouts = timeouts
        self._waits = waits
        self._clean = clean
        self._concurrency = concurrency
        self._connections: RunVar[_Connections | None] = RunVar(f"jeeves-{uuid.uuid4()}", None)

    async def post(self, body: Mapping[str, JSON], stream: AnswerStream | None = None) -> dict[str, Any]:
        """Post an object, again where that may help, and return the one that answers, or that ``stream`` comes to.

        Raises :class:`RequestError`, also for an error in an answer with status 200. Asked again is what is passing,
        as ``waits`` say, and not once its stream has handed something on. Redirects are followed on the same host
        alone. A stream that stops before its end is an error; an answer that is none is not the stream's business.
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
            ) from (error if reason == excerpt(said) else None)  # a traceback shows it as it is
        if response is None or (stream is not None and stream.ended):
            assert stream is not None  # noqa: S101 - it has ended
            return stream.body
        return await self._object(response)

    async def _object(self, response: httpx.Response) -> dict[str, Any]:
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
        """Post to the address, and on to where it has moved on its host: the key goes to no other one."""
        url = self.url
        content, limits = json.dumps(body), self._timeouts.of(streaming=bool(body.get("stream")))
        for _ in range(_MOST_REDIRECTS):
            async with client.stream("POST", url, content=content, timeout=limits) as response:
                # JSON is UTF-8, and a byte order mark is no part of it. A charset that a service names is no help:
                # Python's "hex" is one, and none of texts.
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
        """Read a stream to its end; raises :class:`RequestError` where that is not the end of the answer."""
        events = EventSource(response).aiter_sse()
        try:
            with anyio.CancelScope() as rest:
                async with contextlib.aclosing(events):
                    async for event in events:
                        await self._take(response, event.data, stream)
                        if stream.ended:
                            # What still comes is usage. A server that leaves its stream open is not waited for.
                            rest.deadline = min(rest.deadline, anyio.current_time() + _AFTER_END)
        except (httpx.ReadTimeout, httpx.ReadError, httpx.RemoteProtocolError) as error:
            if isinstance(error, httpx.ReadTimeout) and not stream.ended:
                raise
        if not stream.ended:
            raise RequestError(f"{self.url} broke off its answer in the middle", "unreachable", passing=True)

    async def _take(self, response: httpx.Response, data: str, stream: AnswerStream) -> None:
        if data.strip() in ("", "[DONE]"):
            return
        content = data.encode(errors="replace")
        value = parsed(content)
        if not isinstance(value, dict):
            raise RequestError(
                f"{self.url} sent an event that is no JSON object: {self.shown(data)}", "garbled"
            )
        check_answer(self.url, response, content, self.shown)
        await stream.take(value)

    def at(self, url: httpx.URL) -> Self:
        """Return the service at another address of the same host, over the same connections."""
        other = copy.copy(self)
        other.url = url
        return other

    def shown(self, text: str) -> str:
        """Return the beginning of a text of the service, on one line and without secrets."""
        return excerpt(self._clean(without(self._secrets, text)[: 20 * EXCERPT]))

    async def _open(self) -> _Connections:
        connections = self._connections.get()
        if connections is None:
            client = httpx.AsyncClient(
                headers=self._headers,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
                # A proxy of the environment can't reach our own machine.
                trust_env=not is_loopback(self.url.host),
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


class _Connections(NamedTuple):
    """Those of one event loop."""

    client: httpx.AsyncClient
    holder: AsyncGenerator[None, None]
    turns: anyio.CapacityLimiter


async def _close_at_end_of_loop(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    """Close a client when the generator is closed, or when the event loop ends; begin it with ``anext``."""
    # Both asyncio and trio close suspended async generators when their loop ends. So connections don't
    # outlive the loop they belong to where nobody closes them: a model used in several run_sync, for
    # instance.
    try:
        yield
    finally:
        await client.aclose()


def _target(url: httpx.URL, response: httpx.Response) -> httpx.URL | None:
    """Return where a request is to be sent again, if that is the same service: its host and port, or its TLS."""
    if response.status_code not in _MOVED or "location" not in response.headers:
        return None
    try:
        target = url.join(response.headers["location"])
    except httpx.InvalidURL:
        return None
    secured = url.scheme == "http" and target.scheme == "https" and target.port is None and url.port is None
    same = (url.scheme, url.port) == (target.scheme, target.port)
    return target if url.host == target.host and not target.userinfo and (same or secured) else None
