"""Texts with metadata, kept and found again by meaning: in memory, on disk with FAISS, or in PostgreSQL.

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
    from vectorstores._move import Reembedding
    from vectorstores.embedders.cached import CachedEmbedder
    from vectorstores.embedders.hashing import HashingEmbedder
    from vectorstores.embedders.http import HttpEmbedder, HttpOptions
    from vectorstores.embedders.onnx import OnnxEmbedder
    from vectorstores.embedders.sentence_transformers import SentenceTransformerEmbedder
    from vectorstores.estimating import ReembeddingEstimate, estimate_reembedding
    from vectorstores.faiss import FaissVectorStore
    from vectorstores.memory import InMemoryVectorStore
    from vectorstores.opening import open_store
    from vectorstores.origin import AbsentEmbedder, Origin, origin_of
    from vectorstores.postgres import PostgresOptions, PostgresVectorStore
    from vectorstores.reembedding import reembed
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
    "HttpEmbedder",
    "HttpOptions",
    "InMemoryVectorStore",
    "InvalidChunkError",
    "InvalidFilterError",
    "MissingDependencyError",
    "OnnxEmbedder",
    "Origin",
    "Page",
    "PostgresOptions",
    "PostgresVectorStore",
    "Record",
    "RecordPage",
    "RecordStore",
    "RecordWrite",
    "Reembedding",
    "ReembeddingEstimate",
    "SearchHit",
    "SentenceTransformerEmbedder",
    "Store",
    "StoreClosedError",
    "StoreCorruptError",
    "StoreUnavailableError",
    "VectorStore",
    "VectorStoreError",
    "estimate_reembedding",
    "new_id",
    "open_store",
    "origin_of",
    "reembed",
]

_HOMES = {
    "AbsentEmbedder": "vectorstores.origin",
    "CachedEmbedder": "vectorstores.embedders.cached",
    "FaissVectorStore": "vectorstores.faiss",
    "HashingEmbedder": "vectorstores.embedders.hashing",
    "HttpEmbedder": "vectorstores.embedders.http",
    "HttpOptions": "vectorstores.embedders.http",
    "InMemoryVectorStore": "vectorstores.memory",
    "OnnxEmbedder": "vectorstores.embedders.onnx",
    "Origin": "vectorstores.origin",
    "PostgresOptions": "vectorstores.postgres",
    "PostgresVectorStore": "vectorstores.postgres",
    "Reembedding": "vectorstores._move",
    "ReembeddingEstimate": "vectorstores.estimating",
    "SentenceTransformerEmbedder": "vectorstores.embedders.sentence_transformers",
    "Store": "vectorstores.store",
    "estimate_reembedding": "vectorstores.estimating",
    "open_store": "vectorstores.opening",
    "origin_of": "vectorstores.origin",
    "reembed": "vectorstores.reembedding",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
