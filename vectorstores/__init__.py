"""Texts with metadata, kept and found again by meaning: in memory or on disk with FAISS.

Importing this package loads none of its backends: each name brings its own when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from vectorstores.base import (
    JSON,
    Chunk,
    ConflictError,
    Embedder,
    EmbedderMismatchError,
    EmbeddingError,
    Filter,
    FormatVersionError,
    InvalidChunkError,
    InvalidFilterError,
    MissingDependencyError,
    Page,
    Record,
    RecordPage,
    RecordStore,
    RecordWrite,
    SearchHit,
    StoreClosedError,
    StoreCorruptError,
    StoreUnavailableError,
    VectorStore,
    VectorStoreError,
    new_id,
)

if TYPE_CHECKING:
    from vectorstores.embedders.cached import CachedEmbedder
    from vectorstores.embedders.hashing import HashingEmbedder
    from vectorstores.embedders.sentence_transformers import SentenceTransformerEmbedder
    from vectorstores.faiss import FaissVectorStore
    from vectorstores.memory import InMemoryVectorStore
    from vectorstores.opening import open_store
    from vectorstores.origin import AbsentEmbedder, Origin, origin_of
    from vectorstores.store import Store

__all__ = [
    "JSON",
    "AbsentEmbedder",
    "CachedEmbedder",
    "Chunk",
    "ConflictError",
    "Embedder",
    "EmbedderMismatchError",
    "EmbeddingError",
    "FaissVectorStore",
    "Filter",
    "FormatVersionError",
    "HashingEmbedder",
    "InMemoryVectorStore",
    "InvalidChunkError",
    "InvalidFilterError",
    "MissingDependencyError",
    "Origin",
    "Page",
    "Record",
    "RecordPage",
    "RecordStore",
    "RecordWrite",
    "SearchHit",
    "SentenceTransformerEmbedder",
    "Store",
    "StoreClosedError",
    "StoreCorruptError",
    "StoreUnavailableError",
    "VectorStore",
    "VectorStoreError",
    "new_id",
    "open_store",
    "origin_of",
]

_HOMES = {
    "AbsentEmbedder": "vectorstores.origin",
    "CachedEmbedder": "vectorstores.embedders.cached",
    "FaissVectorStore": "vectorstores.faiss",
    "HashingEmbedder": "vectorstores.embedders.hashing",
    "InMemoryVectorStore": "vectorstores.memory",
    "Origin": "vectorstores.origin",
    "SentenceTransformerEmbedder": "vectorstores.embedders.sentence_transformers",
    "Store": "vectorstores.store",
    "open_store": "vectorstores.opening",
    "origin_of": "vectorstores.origin",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
