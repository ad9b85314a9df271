"""The lesson stores that options name, and their embedders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError, MissingDependencyError
from jeeves_reflexion.lessons import Credit, LessonSettings, VectorLessonStore, Withholding
from jeeves_reflexion.loop.lesson_address import open_lessons
from jeeves_reflexion.redaction import redact
from vectorstores import (
    AbsentEmbedder,
    Embedder,
    EmbeddingError,
    HashingEmbedder,
    VectorStoreError,
    origin_of,
)
from vectorstores import MissingDependencyError as MissingForStores
from vectorstores.embedders import default_embedder, embedder_or_default

if TYPE_CHECKING:
    from vectorstores.base import FloatArray


class LateEmbedder(AbsentEmbedder):
    """Takes the place of a store's embedder, and calls ``make`` for it when the first text is embedded."""

    def __init__(self, origin: AbsentEmbedder, make: Callable[[], Embedder]) -> None:
        super().__init__(origin.id, origin.name, origin.dim)
        self._make = make
        self._made: Embedder | None = None

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return embeddings of shape ``(n, dim)``; raises :class:`EmbeddingError` if ``make`` gave another embedder."""
        if self._made is None:
            made = await anyio.to_thread.run_sync(self._make)
            if made.id != self.id:
                raise EmbeddingError(
                    f"the store was made with {self!r}, but the embedder here is {made!r}: name the first one"
                )
            self._made = made
        return await self._made.embed(texts)


def open_or_make(
    address: str, namespace: str, choice: str, settings: LessonSettings | None = None
) -> VectorLessonStore:
    """Open a store to recall from and write to; create it if it does not exist."""
    embedder = embedder_for(choice, origin_at(address), address)
    return open_lessons(address, namespace=namespace, embedder=embedder, settings=settings)


def open_existing(address: str, namespace: str, choice: str = "auto") -> VectorLessonStore:
    """Open an existing store, and make its embedder only when a text is embedded.

    So a machine without the embedder can still list, retire and merge lessons.
    """
    origin = existing(address)
    embedder = LateEmbedder(origin, lambda: embedder_for(choice, origin, address))
    return open_lessons(address, namespace=namespace, embedder=embedder, create=False)


def existing(address: str) -> AbsentEmbedder:
    """Return the embedder that the store at an address was made with.

    Raises :class:`ConfigurationError` if the store does not exist.
    """
    origin = origin_at(address)
    if origin is None:
        raise ConfigurationError(
            f"no lesson store at {redact(address)}: name one with --lessons or JEEVES_LESSONS. A run creates one, and"
            " so do add and import with --create"
        )
    return origin


def origin_at(address: str) -> AbsentEmbedder | None:
    """Return the embedder that the store at an address was made with; None if a store can be created there."""
    if Path(address).is_file():
        raise ConfigurationError(f"{redact(address)} is a file, not the folder of a lesson store")
    try:
        return origin_of(address)
    except VectorStoreError as error:
        raise LessonStoreError(str(error)) from error


def embedder_for(choice: str, origin: AbsentEmbedder | None, address: str) -> Embedder:
    """Return the chosen embedder; ``auto`` is the one that the store was made with.

    A new store gets the one that is installed, with a warning if that is only :class:`HashingEmbedder`.
    """
    if choice == "hashing":
        return HashingEmbedder()
    if "://" in choice:
        from vectorstores import HttpEmbedder  # noqa: PLC0415 - loads an HTTP client, which few commands need

        try:
            return HttpEmbedder.at(choice)
        except ValueError as error:
            raise ConfigurationError(f"--embedder: {error}") from error
    if choice == "auto" and origin is None:
        return embedder_or_default(None)
    if choice == "auto" and origin is not None:
        # Its id ends with its dimension, so any dimension can be restored.
        hashing = HashingEmbedder(max(origin.dim, 8))
        if hashing.id == origin.id:
            return hashing
        if origin.name.startswith("HttpEmbedder("):
            raise ConfigurationError(
                f"the lesson store {redact(address)} was made with {origin.name}: name that one with"
                " --embedder 'https://HOST/v1?model=NAME&dim=N'"
            )
    try:
        return default_embedder()
    except MissingForStores as error:
        feature = "the embedder minilm (--embedder hashing needs none)"
        if origin is not None and choice == "auto":
            feature = f"the lesson store {redact(address)}, made with {origin.name},"
        raise MissingDependencyError(feature, "minilm") from error


def credit_of(*, asked: bool, withhold: float = 0.0) -> Credit | None:
    """Return the settings of ``--credit``; None without it. ``--withhold`` implies it."""
    return Credit(withholding=Withholding(withhold)) if asked or withhold else None
