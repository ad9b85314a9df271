"""An embedder with a cache: measurements embed the same texts in every arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from vectorstores import Embedder

if TYPE_CHECKING:
    from vectorstores.base import FloatArray


@dataclass
class Remembering:
    """An embedder that computes each text once."""

    embedder: Embedder
    known: dict[str, FloatArray] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The id of the embedder."""
        return self.embedder.id

    @property
    def dim(self) -> int:
        """The dimension of the embedder."""
        return self.embedder.dim

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return the vectors; only new texts are embedded."""
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        if new:
            self.known.update(zip(new, await self.embedder.embed(new), strict=True))
        return (
            np.stack([self.known[text] for text in texts]) if texts else np.empty((0, self.dim), np.float32)
        )
