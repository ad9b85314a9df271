"""What every embedder asks of its texts."""

from __future__ import annotations

from collections.abc import Sequence

from vectorstores._json import check_text
from vectorstores.base import EmbeddingError


def check_texts(texts: Sequence[str]) -> list[str]:
    """Return the texts as a list; any string has a vector, the empty one too.

    Raises :class:`EmbeddingError` naming the first item that is no string or no Unicode (a lone surrogate),
    and ``TypeError`` for one string instead of several.
    """
    if isinstance(texts, str):
        raise TypeError("embed() takes a sequence of texts, not one string")
    return [check_text(text, f"texts[{index}]", EmbeddingError) for index, text in enumerate(texts)]
