"""Server-sent events that tell the browser when a page has changed; the browser then fetches the page itself."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from typing import Final

import anyio
from starlette.responses import Response, StreamingResponse

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.web.library import Library, StoreGoneError
from vectorstores.base import VectorStoreError

_POLL_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 5.0


class LessonWatch:
    """Counts the changes of a library, whoever makes them. All browsers share one watch."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.changes = 0

    async def run(self) -> None:
        """Watch until cancelled, also while the store can't be reached."""
        while True:
            # The pages themselves report a store that can't be reached.
            with contextlib.suppress(LessonStoreError, VectorStoreError, StoreGoneError):
                store = await self._library.store()
                async with contextlib.aclosing(store.changes()) as changes:
                    async for _ in changes:
                        self.changes += 1
            await anyio.sleep(_RETRY_SECONDS)


def live(look: Callable[[], Awaitable[Hashable]], stopping: Callable[[], bool]) -> Response:
    """Return a stream with an event each time that ``look`` returns another value, until the server stops."""

    async def events() -> AsyncIterator[str]:
        yield "retry: 2000\n\n"
        last = await look()
        while not stopping():
            await anyio.sleep(_POLL_SECONDS)
            now = await look()
            if now != last:
                last = now
                yield "event: changed\ndata: -\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
