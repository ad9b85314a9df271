"""Embedders: texts to unit vectors. Importing this package loads no model and no library for one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vectorstores.base import Embedder
    from vectorstores.embedders.cached import CachedEmbedder
    from vectorstores.embedders.hashing import HashingEmbedder
    from vectorstores.embedders.sentence_transformers import SentenceTransformerEmbedder

__all__ = ["CachedEmbedder", "HashingEmbedder", "SentenceTransformerEmbedder", "default_embedder"]

_HOMES = {
    "CachedEmbedder": "vectorstores.embedders.cached",
    "HashingEmbedder": "vectorstores.embedders.hashing",
    "SentenceTransformerEmbedder": "vectorstores.embedders.sentence_transformers",
}


def default_embedder() -> Embedder:
    """Return the embedder that stores take when they are given none: all-MiniLM-L6-v2, run on this machine.

    Raises :class:`~vectorstores.MissingDependencyError` if sentence-transformers is not installed.
    """
    embedder: Embedder = __getattr__("SentenceTransformerEmbedder")()
    return embedder


def __getattr__(name: str) -> type:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: type = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
