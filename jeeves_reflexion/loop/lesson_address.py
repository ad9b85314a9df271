"""Where lessons are kept unless a place is named."""

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
    """Return the place named by ``JEEVES_LESSONS``, else a folder among the user's data."""
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
        namespace: Whose lessons; namespaces never see each other's.
        embedder: What finds lessons; by default what made the store, and for a new one what is installed.
        settings: How lessons are kept and picked.
        create: With False a folder that holds no store is an error at the first call, and is left as it is.

    Raises:
        LessonStoreError: where it can't be opened.
    """
    place = os.fspath(place) if place is not None else default_place()
    try:
        store = open_store(place, embedder=embedder, namespace=namespace, create=create, indexed=INDEXED)
    except VectorStoreError as error:
        raise LessonStoreError(str(error)) from error
    return VectorLessonStore(store, settings=settings)
