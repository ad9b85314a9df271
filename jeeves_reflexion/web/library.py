"""The lessons that the page shows: one open store, opened again where it went away."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import anyio
import anyio.to_thread

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.types import Lesson
from vectorstores.base import (
    EmbedderMismatchError,
    StoreClosedError,
    StoreCorruptError,
    StoreUnavailableError,
    VectorStoreError,
)

_GONE: Final = (StoreUnavailableError, StoreClosedError, StoreCorruptError, EmbedderMismatchError)


class StoreGoneError(Exception):
    """The lessons can't be reached now; asking again later may help."""


class Library:
    """Lessons at one address. ``turn`` is held by whoever changes one, so that changes of two tabs see each other."""

    def __init__(self, open_store: Callable[[], VectorLessonStore]) -> None:
        self._open_store = open_store
        self._opening = anyio.Lock()
        self._store: VectorLessonStore | None = None
        self.turn = anyio.Lock()

    async def store(self) -> VectorLessonStore:
        """Return the open store; raises :class:`StoreGoneError` where there is none."""
        async with self._opening:
            if self._store is None:
                try:
                    self._store = await anyio.to_thread.run_sync(self._open_store)
                except (ConfigurationError, LessonStoreError) as error:
                    raise StoreGoneError(str(error)) from error
            return self._store

    async def lost(self, error: Exception) -> bool:
        """Say whether an error means that the store went away; if so it is opened again at the next need."""
        if not isinstance(error.__cause__ if isinstance(error, LessonStoreError) else error, _GONE):
            return False
        await self.close()
        return True

    async def close(self) -> None:
        """Close the store."""
        store, self._store = self._store, None
        if store is not None:
            with suppress(VectorStoreError, OSError):  # what it lay on is gone
                await store.close()


def mark_of(lesson: Lesson) -> str:
    """Return what tells whether somebody changed a lesson since it was shown: a digest of words and state."""
    seen = [lesson.text, lesson.state, lesson.state_reason]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:16]
