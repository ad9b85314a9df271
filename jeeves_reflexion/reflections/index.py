"""The vectors of reflections: one chunk beside each file, in a vector store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.reflections.folder import Stored
from jeeves_reflexion.reflections.syncing import Known, place
from vectorstores.base import JSON, Chunk, SearchHit, VectorStore, VectorStoreError

SCOPE: Final = "/reflections"
_PAGE: Final = 200


class ReflectionIndex:
    """One chunk for each reflection, under its id, in the namespace ``<the store's>/reflections``.

    What is embedded is the reflection's own text, without secrets. A failing store is a :class:`LessonStoreError`.
    """

    def __init__(self, store: VectorStore, folder: Path) -> None:
        self._folder = folder
        self.store = store.scoped(store.namespace + SCOPE)

    async def put(self, stored: Iterable[Stored]) -> None:
        """Keep the vectors of these reflections, in the place of what there was under their ids."""
        chunks = [_chunk(one, place(one.path, self._folder)) for one in stored]
        try:
            if chunks:
                await self.store.add(chunks)
        except VectorStoreError as error:
            raise LessonStoreError(f"could not keep the vectors of reflections: {error}") from error

    async def drop(self, ids: Sequence[str]) -> None:
        """Delete vectors."""
        try:
            if ids:
                await self.store.delete(ids)
        except VectorStoreError as error:
            raise LessonStoreError(f"could not delete the vectors of reflections: {error}") from error

    async def nearest(self, query: str, *, k: int, min_score: float) -> list[tuple[str, Path, SearchHit]]:
        """Return the ids and files of the ``k`` reflections that are nearest to a text, of whatever agent."""
        try:
            hits = await self.store.search(redact(query), k=k, min_score=min_score)
        except VectorStoreError as error:
            raise LessonStoreError(f"could not search reflections: {error}") from error
        return [(hit.chunk.id, self._folder / str(hit.chunk.metadata["path"]), hit) for hit in hits]

    async def known(self) -> dict[str, Known]:
        """Return what the vectors were made of, by id."""
        found: dict[str, Known] = {}
        after: str | None = None
        while True:
            try:
                page = await self.store.scan(after=after, limit=_PAGE)
            except VectorStoreError as error:
                raise LessonStoreError(f"could not list the vectors of reflections: {error}") from error
            for chunk in page.chunks:
                found[chunk.id] = Known(str(chunk.metadata["digest"]), str(chunk.metadata["path"]))
            if page.next is None:
                return found
            after = page.next


def _chunk(stored: Stored, path: str) -> Chunk:
    entry = stored.entry
    metadata: dict[str, JSON] = {
        "path": path,
        "digest": stored.digest,
        "agent": entry.agent,
        "kind": entry.task_kind,
        "tools": list(entry.tools),
        "outcome": entry.reflection.outcome,
        "date": entry.date.isoformat(),
    }
    return Chunk(redact(entry.body), id=stored.id, metadata=metadata)
