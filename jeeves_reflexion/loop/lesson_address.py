"""Opens a lesson store at an address, or at the default place."""

from __future__ import annotations

import os

import platformdirs

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.lessons.records import INDEXED
from jeeves_reflexion.lessons.settings import LessonSettings
from jeeves_reflexion.lessons.store import VectorLessonStore
from vectorstores import VectorStoreError, open_store
from vectorstores.base import Embedder


def default_place() -> str:
    """Return the place in ``JEEVES_LESSONS``, else a folder in the user's data directory."""
    named = os.environ.get("JEEVES_LESSONS")
    return named or str(platformdirs.user_data_path("jeeves-reflexion") / "lessons")


def open_lessons(
    place: str | os.PathLike[str] | None = None,
    *,
    namespace: str = "default",
    embedder: Embedder | None = None,
    settings: LessonSettings | None = None,
    create: bool = True,
) -> VectorLessonStore:
    """Open a lesson store.

    Args:
        place: A folder, ``postgresql://…``, ``memory://``, or None for the default place.
        namespace: The namespace of the lessons; namespaces never see each other's lessons.
        embedder: By default the embedder that made the store; for a new store, the best one that is installed.
        settings: How lessons are kept and picked.
        create: If False, a folder without a store stays as it is, and the first call raises an error.

    Raises:
        LessonStoreError: if it can't be opened.
    """
    place = os.fspath(place) if place is not None else default_place()
    try:
        store = open_store(place, embedder=embedder, namespace=namespace, create=create, indexed=INDEXED)
    except VectorStoreError as error:
        raise LessonStoreError(str(error)) from error
    return VectorLessonStore(store, settings=settings)
