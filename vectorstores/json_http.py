"""The one HTTP client: it posts JSON to a service, over connections that are kept, again where that may help.

The embedders here and the chat models above them share it; each makes errors of its own of :class:`RequestError`.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, TypeVar

import anyio
import httpx
from anyio.lowlevel import RunVar
from httpx_sse import EventSource

from vectorstores.header_secrets import secrets_of, without
from vectorstores.service_address import is_loopback
from vectorstores.service_answers import (
    EXCERPT,
    RequestError,
    asked_wait,
    excerpt,
    is_passing,
    parsed,
    problem_of,
)

if TYPE_CHECKING:
    from vectorstores.base import JSON

T = TypeVar("T")

_MOVED: Final = frozenset({301, 302, 307, 308})
_MOST_REDIRECTS: Final = 5
_AFTER_END: Final = 2.0


class EventReader(Protocol):
    """Takes the events of a streamed answer as they come."""

    @property
    def ended(self) -> bool:
        """Whether the last event was the end of the answer, so that it is whole."""
        ...

    async def take(self, event: Mapping[str, Any]) -> None:
        """Read one event."""
        ...


class Timeouts(NamedTuple):
    """Seconds for a request as a whole, for its connection, and for a silence within a streamed answer."""

    total: float
    connect: float
    idle: float | None = None

    def of(self, *, streaming: bool) -> httpx.Timeout:
        """Return them as httpx has them, each at most the whole."""
        idle = self.total if self.idle is None or not streaming else self.idle
        return httpx.Timeout(self.total, connect=min(self.connect, self.total), read=min(idle, self.total))


class JsonService:
    """One address that takes JSON objects by POST.

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
        secrets: Sequence[str] = (),
        clean: Callable[[str], str] = str,
        concurrency: float = math.inf,
    ) -> None:
        self.url = url
        self._headers = {**headers, "Content-Type": "application/json"}
        self._secrets = (*secrets, *secrets_of(headers))
        self._timeouts = timeouts
        self._clean = clean
        self._concurrency = concurrency
        self._connections: RunVar[_Connections | None] = RunVar(f"jeeves-{uuid.uuid4()}", None)

    async def post(self, body: Mapping[str, JSON], reader: EventReader | None = None) -> httpx.Response:
        """Post an object, once, and return an answer that is a success; raises :class:`RequestError`.

        An error is one also where its status is 200. Redirects are followed on the same host alone. A stream of events
        is read by ``reader``, and one that stops before its end is an error; other answers are not its business.
        """
        connections = await self._open()
        try:
            async with connections.turns:
                with anyio.fail_after(self._timeouts.total):
                    response = await self._followed(connections.client, body, reader)
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout) as error:
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
        return response

    def _check(self, response: httpx.Response, content: bytes) -> None:
        """Raise :class:`RequestError` for an answer, or an event of one, that tells of an error."""
        status, code, problem = problem_of(response, content)
        if not problem:
            return
        text = content.decode(errors="replace")
        said = self.shown(text)
        raise RequestError(
            f"{self.url} answered {status}: {said}"
            if status != 200
            else f"{self.url} answered with an error: {said}",
            "refused",
            status=status,
            said=said,
            code=self.shown(code),
            passing=is_passing(response.headers, text, status, code),
            after=asked_wait(response.headers),
        )

    async def _followed(
        self, client: httpx.AsyncClient, body: Mapping[str, JSON], reader: EventReader | None
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
                if reader is not None and response.is_success and kind.startswith("text/event-stream"):
                    await self._read(response, reader)
                    return response
                await response.aread()
            target = _target(url, response)
            if target is None:
                break
            url = target
        self._check(response, response.content)
        return response

    async def _read(self, response: httpx.Response, reader: EventReader) -> None:
        """Read a stream to its end; raises :class:`RequestError` where that is not the end of the answer."""
        events = EventSource(response).aiter_sse()
        try:
            with anyio.CancelScope() as rest:
                async with contextlib.aclosing(events):
                    async for event in events:
                        await self._take(response, event.data, reader)
                        if reader.ended:
                            # What still comes is usage. A server that leaves its stream open is not waited for.
                            rest.deadline = min(rest.deadline, anyio.current_time() + _AFTER_END)
        except (httpx.ReadTimeout, httpx.ReadError, httpx.RemoteProtocolError) as error:
            if isinstance(error, httpx.ReadTimeout) and not reader.ended:
                raise
        if not reader.ended:
            raise RequestError(f"{self.url} broke off its answer in the middle", "unreachable", passing=True)

    async def _take(self, response: httpx.Response, data: str, reader: EventReader) -> None:
        if data.strip() in ("", "[DONE]"):
            return
        content = data.encode(errors="replace")
        value = parsed(content)
        if not isinstance(value, dict):
            raise RequestError(
                f"{self.url} sent an event that is no JSON object: {self.shown(data)}", "garbled"
            )
        self._check(response, content)
        await reader.take(value)

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


async def repeated(
    call: Callable[[], Awaitable[T]], *, retries: int, wait: Callable[[int], float], longest_wait: float
) -> T:
    """Make a call, again where its :class:`RequestError` is passing, ``retries`` times at most.

    ``wait`` gives the seconds before each, counted from 1, where the service names none.
    """
    asked = 0
    while True:
        asked += 1
        try:
            return await call()
        except RequestError as error:
            if error.handed_on or not error.passing:
                raise
            if error.after is not None and error.after > longest_wait:
                raise error.noted(
                    f"it asks to wait {error.after:.0f} s, more than longest_wait ({longest_wait:g} s)"
                ) from error.__cause__
            if asked > retries:
                raise (error.noted(f"asked {asked} times") if asked > 1 else error) from error.__cause__
            seconds = min(wait(asked), longest_wait) if error.after is None else error.after
        await anyio.sleep(seconds)


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
