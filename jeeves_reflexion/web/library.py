"""The lessons that the pages show: one open store, which is opened again after a failure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Final

import anyio
import anyio.to_thread

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons import VectorLessonStore
from vectorstores.base import (
    EmbedderMismatchError,
    StoreClosedError,
    StoreCorruptError,
    StoreUnavailableError,
    VectorStoreError,
)

_GONE: Final = (StoreUnavailableError, StoreClosedError, StoreCorruptError, EmbedderMismatchError)
_RETRY_SECONDS: Final = 5.0


class StoreGoneError(Exception):
    """The lessons can't be reached now; asking again later may help."""


class Library:
    """The lessons at one address. A change holds ``turn``, so that two tabs can't overwrite each other."""

    def __init__(self, open_store: Callable[[], VectorLessonStore]) -> None:
        self._open_store = open_store
        self._opening = anyio.Lock()
        self._store: VectorLessonStore | None = None
        self.turn = anyio.Lock()
        self.changes = 0
        """How often the lessons were changed, by whomever, since the start of :meth:`watch`."""

    async def store(self) -> VectorLessonStore:
        """Return the open store. Raises :class:`StoreGoneError` if it can't be opened."""
        async with self._opening:
            if self._store is None:
                try:
                    self._store = await anyio.to_thread.run_sync(self._open_store)
                except (ConfigurationError, LessonStoreError) as error:
                    raise StoreGoneError(str(error)) from error
            return self._store

    async def watch(self) -> None:
        """Count changes until cancelled, also while the store can't be reached."""
        while True:
            # The pages themselves report a store that can't be reached.
            with suppress(LessonStoreError, VectorStoreError, StoreGoneError):
                store = await self.store()
                async with aclosing(store.changes()) as changes:
                    async for _ in changes:
                        self.changes += 1
            await anyio.sleep(_RETRY_SECONDS)

    async def lost(self, error: Exception) -> bool:
        """Return whether an error means that the store is gone. If so, close it: the next use opens it again."""
        if not isinstance(error.__cause__ if isinstance(error, LessonStoreError) else error, _GONE):
            return False
        await self.close()
        return True

    async def close(self) -> None:
        """Close the store."""
        store, self._store = self._store, None
        if store is not None:
            with suppress(VectorStoreError, OSError):  # its folder or server may be gone already
                await store.close()
