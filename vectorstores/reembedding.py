"""What a backend has to do so that its vectors can be replaced by those of another embedder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from vectorstores._engine import Opened
    from vectorstores.base import FloatArray


@dataclass(frozen=True, slots=True)
class Reembedding:
    """How far a move is: ``done`` of ``total`` chunks have their new vector, in all namespaces."""

    done: int
    total: int


class Move(Protocol):
    """A store whose vectors are being replaced."""

    async def begin(self, opened: Opened) -> bool:
        """Make room for new vectors, or take up a move to the same embedder; False if there is nothing to do."""
        ...

    async def progress(self) -> Reembedding:
        """Count."""
        ...

    async def pending(self, limit: int) -> list[tuple[int, str]]:
        """Return rows without a new vector, with the text to embed."""
        ...

    async def keep(self, rows: Sequence[tuple[int, str]], vectors: FloatArray) -> None:
        """Keep the new vectors of the rows whose text is still the same."""
        ...

    async def finish(self) -> bool:
        """Let the new vectors take the place of the old ones; False if some are missing after all."""
        ...

    async def close(self) -> None:
        """Let go of the store."""
        ...
