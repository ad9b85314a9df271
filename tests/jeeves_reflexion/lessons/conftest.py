"""Lesson stores in memory and on disk, with an embedder that needs no model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jeeves_reflexion import LessonSettings, VectorLessonStore
from vectorstores import FaissVectorStore, HashingEmbedder, InMemoryVectorStore, VectorStore

Maker = Callable[..., VectorLessonStore]


@pytest.fixture
def anyio_backend() -> str:
    """Lessons call nothing of an event loop but what the stores' contract is tested for on each."""
    return "asyncio"


@pytest.fixture
def kind() -> str:
    """The kind of store; a module that is about what is written for good has one of its own, for a folder too."""
    return "memory"


@pytest.fixture
def make(kind: str, tmp_path) -> Maker:
    """A function that makes a lesson store over an empty store; the same store again when it is called again."""
    shared = InMemoryVectorStore(HashingEmbedder(), namespace="tests") if kind == "memory" else None

    def under(namespace: str) -> VectorStore:
        if shared is not None:
            return shared.scoped(namespace)
        return FaissVectorStore(tmp_path / "store", embedder=HashingEmbedder(), namespace=namespace)

    def make(namespace: str = "tests", **settings) -> VectorLessonStore:
        return VectorLessonStore(under(namespace), settings=LessonSettings(**settings))

    return make
