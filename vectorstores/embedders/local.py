"""What embedders share that run a model on this machine: found once, loaded once, many callers at a time."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio
import anyio.lowlevel
import anyio.to_thread
import numpy as np

from vectorstores.embedders import check_texts
from vectorstores.embedders.combiner import Combiner, Failure
from vectorstores.embedders.model_folder import dimension, find_model, identity

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

    Encode: TypeAlias = Callable[[Sequence[str]], FloatArray]
    Together: TypeAlias = Combiner[Sequence[str], FloatArray]

_log: Final = logging.getLogger("vectorstores")

# So many texts are computed before the next caller has a turn, or a cancel is noticed.
_SLICE: Final = 32
_REQUESTS: Final = 64
# Callers that wait for a model take no threads from those who wait for a disk or a database.
_THREADS: Final = 64


class LocalEmbedder(ABC):
    """Unit vectors by the model in a folder, loaded at the first text and shared by the whole process."""

    def __init__(self, model: str) -> None:
        self._model = model
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
        """Return a float32 array of shape ``(len(texts), dim)`` with rows of unit length, in the order of the
        texts.

        Requests that arrive together are computed together, in a worker thread. A cancelled caller does not
        wait. Raises :class:`~vectorstores.EmbeddingError` for a text that is no Unicode, or a model that
        can't be loaded.
        """
        checked = check_texts(texts)
        gone = threading.Event()
        try:
            # A computation without a reader harms nobody, so a cancel need not wait for a model to load.
            return await anyio.to_thread.run_sync(
                partial(self._embed, checked, gone), abandon_on_cancel=True, limiter=_limiter()
            )
        finally:
            gone.set()

    def _embed(self, texts: list[str], gone: threading.Event) -> FloatArray:
        folder, _, dim = self._locate()
        if not texts:
            return np.empty((0, dim), dtype=np.float32)
        together = _loaded(self._key(folder), partial(self._load, folder))
        # Neighbours in length share a batch, so that little is spent on padding.
        order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        vectors = np.empty((len(texts), dim), dtype=np.float32)
        for start in range(0, len(texts), _SLICE):
            if gone.is_set():
                break
            part = order[start : start + _SLICE]
            vectors[part] = together([texts[index] for index in part])
        return vectors

    def _key(self, folder: Path) -> tuple[str, ...]:
        """Name the model and runtime; embedders with the same key share one."""
        return (type(self).__qualname__, str(folder.resolve()))

    @abstractmethod
    def _load(self, folder: Path) -> Encode:
        """Load the model; runs once, in a worker thread, as does what is returned."""


class CutNotice:
    """Says once that a text is longer than a model takes, so that its beginning alone is embedded."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        """The most tokens that the model takes, marks of beginning and end included; None if it does not say."""
        self.said = False

    def __call__(self) -> None:
        """Say it, unless it was said."""
        if not self.said:
            self.said = True
            _log.warning(
                "a text is longer than the %d tokens that the embedder takes: it is embedded by its beginning, as"
                " others that are too long will be",
                self.most,
            )


_LOADING: Final = threading.Lock()
_LOADED: Final[dict[tuple[str, ...], Together]] = {}


def _loaded(key: tuple[str, ...], load: Callable[[], Encode]) -> Together:
    with _LOADING:
        if key not in _LOADED:
            _LOADED[key] = Combiner(partial(_encode_together, load()), limit=_REQUESTS)
    return _LOADED[key]


def _encode_together(encode: Encode, requests: Sequence[Sequence[str]]) -> list[FloatArray | Failure]:
    try:
        vectors = encode([text for request in requests for text in request])
    except Exception as error:  # noqa: BLE001 - raised by the calls it belongs to
        if len(requests) == 1:
            return [Failure(error)]
        # What one of them can't have must not take it from the others.
        return [_encode_together(encode, [request])[0] for request in requests]
    ends = np.cumsum([len(request) for request in requests])
    return [*np.split(vectors, ends[:-1])]


_LIMITER: Final = anyio.lowlevel.RunVar[anyio.CapacityLimiter]("vectorstores-embedding-threads")


def _limiter() -> anyio.CapacityLimiter:
    """Return the event loop's own limit of threads that wait for a model."""
    try:
        return _LIMITER.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(_THREADS)
        _LIMITER.set(limiter)
        return limiter
