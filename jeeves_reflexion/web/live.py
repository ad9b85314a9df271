"""Server-sent events: a word to the browser when what it shows has changed. What it is, the browser asks for itself."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from typing import Final

import anyio
from starlette.responses import Response, StreamingResponse

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.web.library import Library, StoreGoneError
from vectorstores.base import VectorStoreError

_LOOK: Final = 0.5
_AGAIN: Final = 5.0


class LessonWatch:
    """Counts the changes of a library, whoever makes them: one watcher for all browsers."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.changes = 0

    async def run(self) -> None:
        """Watch until it is cancelled, also over times in which the store is away."""
        while True:
            # Of a store that is away the pages tell, which ask it themselves.
            with contextlib.suppress(LessonStoreError, VectorStoreError, StoreGoneError):
                store = await self._library.store()
                async with contextlib.aclosing(store.changes()) as told:
                    async for _ in told:
                        self.changes += 1
            await anyio.sleep(_AGAIN)


def live(look: Callable[[], Awaitable[Hashable]], stopping: Callable[[], bool]) -> Response:
    """Return the events of one browser: one whenever ``look`` returns something else, until the server stops."""

    async def events() -> AsyncIterator[str]:
        yield "retry: 2000\n\n"
        last = await look()
        while not stopping():
            await anyio.sleep(_LOOK)
            now = await look()
            if now != last:
                last = now
                yield "event: changed\ndata: -\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
