"""Opens the lesson store that a command line means, with the embedder that it was made with."""

from __future__ import annotations

from collections.abc import Callable

from jeeves_reflexion.cli.options import EmbedderChoice
from jeeves_reflexion.errors import ConfigurationError, LessonStoreError, MissingDependencyError
from jeeves_reflexion.lessons import LessonSettings, VectorLessonStore
from jeeves_reflexion.loop.lesson_address import open_lessons
from jeeves_reflexion.redaction import redact
from vectorstores import (
    AbsentEmbedder,
    Embedder,
    HashingEmbedder,
    Origin,
    Reembedding,
    ReembeddingEstimate,
    VectorStoreError,
    estimate_reembedding,
    origin_of,
    reembed,
)
from vectorstores import MissingDependencyError as MissingForStores
from vectorstores.embedders import default_embedder, embedder_or_default


def open_for_run(
    place: str, namespace: str, choice: EmbedderChoice, settings: LessonSettings | None = None
) -> VectorLessonStore:
    """Open a store to recall from and write to; a new one is made where there is none."""
    embedder = embedder_for(choice, _origin(place), place)
    return open_lessons(place, namespace=namespace, embedder=embedder, settings=settings)


def open_for_search(place: str, namespace: str, choice: EmbedderChoice) -> VectorLessonStore:
    """Open an existing store to search in."""
    embedder = embedder_for(choice, existing(place), place)
    return open_lessons(place, namespace=namespace, embedder=embedder, create=False)


def open_for_reading(place: str, namespace: str) -> VectorLessonStore:
    """Open an existing store to list, show, count or forget: no embedder is needed, and none is loaded."""
    embedder = AbsentEmbedder(existing(place))
    return open_lessons(place, namespace=namespace, embedder=embedder, create=False)


async def move_to(
    place: str, choice: EmbedderChoice, on_progress: Callable[[Reembedding], None]
) -> Reembedding:
    """Embed everything in an existing store with another embedder."""
    existing(place)
    embedder = embedder_for(choice, None, place)
    try:
        return await reembed(place, embedder=embedder, on_progress=on_progress)
    except VectorStoreError as error:
        raise LessonStoreError(str(error)) from error


async def estimate_move(place: str, choice: EmbedderChoice) -> ReembeddingEstimate:
    """Say what :func:`move_to` would take, and change nothing."""
    existing(place)
    try:
        return await estimate_reembedding(place, embedder=embedder_for(choice, None, place))
    except VectorStoreError as error:
        raise LessonStoreError(str(error)) from error


def existing(place: str) -> Origin:
    """Return what the store at a place was made with; one that is not there is an error."""
    origin = _origin(place)
    if origin is None:
        raise ConfigurationError(
            f"no lesson store at {redact(place)}: name one with --lessons or JEEVES_LESSONS, or let a run make it"
        )
    return origin


def _origin(place: str) -> Origin | None:
    try:
        return origin_of(place)
    except VectorStoreError as error:
        raise LessonStoreError(str(error)) from error


def embedder_for(choice: EmbedderChoice, origin: Origin | None, place: str) -> Embedder:
    """Return the embedder that was chosen, by default the one that the store was made with.

    A new store gets what is installed, with a warning where that is no model.
    """
    if choice == "hashing":
        return HashingEmbedder()
    if choice == "auto" and origin is not None:
        # Its id ends in its length, so any length that a store was made with can be made again.
        hashing = HashingEmbedder(max(origin.dim, 8))
        if hashing.id == origin.embedder_id:
            return hashing
    if choice == "auto" and origin is None:
        return embedder_or_default(None)
    try:
        return default_embedder()
    except MissingForStores as error:
        if origin is None or choice == "minilm":
            feature = "the embedder minilm (--embedder hashing needs none)"
        else:
            feature = f"the lesson store {redact(place)}, made with {origin.embedder_name},"
        raise MissingDependencyError(feature, "minilm") from error
