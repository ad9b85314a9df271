"""Opens a lesson store to change what is in it: its embedder is made when a text is new, and not before.

Most changes write texts back whose embeddings the store still has. So lessons can be reviewed, retired and merged on
a machine without the embedder, and in a store whose embedder this command can't name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio.to_thread

from jeeves_reflexion.cli.options import EmbedderChoice
from jeeves_reflexion.cli.stores import embedder_for, existing
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.loop.lesson_address import open_lessons
from vectorstores import AbsentEmbedder, Embedder, EmbeddingError, Origin

if TYPE_CHECKING:
    from vectorstores.base import FloatArray


def open_for_changes(place: str, namespace: str, choice: EmbedderChoice = "auto") -> VectorLessonStore:
    """Open an existing store to change lessons that are in it."""
    origin = existing(place)
    embedder = LateEmbedder(origin, lambda: embedder_for(choice, origin, place))
    return open_lessons(place, namespace=namespace, embedder=embedder, create=False)


class LateEmbedder(AbsentEmbedder):
    """Stands for the embedder of a store until a text has to be embedded, and asks ``make`` for it then."""

    def __init__(self, origin: Origin, make: Callable[[], Embedder]) -> None:
        super().__init__(origin)
        self._make = make
        self._made: Embedder | None = None

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return embeddings of shape ``(n, dim)``; raises :class:`EmbeddingError` if the embedder made is another."""
        if self._made is None:
            made = await anyio.to_thread.run_sync(self._make)
            if made.id != self.id:
                raise EmbeddingError(
                    f"a new text has to be embedded by {self!r}, which made the store; the embedder here is {made!r}"
                )
            self._made = made
        return await self._made.embed(texts)
