"""How lessons and recalls are written as chunks and records, and read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.types import JSON, Lesson, Outcome, Provenance, Recall, RecalledLesson
from vectorstores.base import Chunk, SearchHit

INDEXED = ("face", "task_id", "task_kind", "agent", "state")
"""The metadata that lessons are counted, listed and narrowed by: stores make filters on these quick."""


def chunk_of(lesson: Lesson, face: str, number: int) -> Chunk:
    """Return one face of a lesson: its text, found by ``face``. The faces share the lesson's id."""
    source = lesson.provenance
    metadata: dict[str, JSON] = {
        "lesson_id": lesson.id,
        "face": number,
        "task_id": lesson.task_id,
        "task_kind": lesson.task_kind,
        "task_excerpt": lesson.task_excerpt,
        "tools": list(lesson.tools),
        "outcome": lesson.outcome,
        "run_id": source.run_id,
        "attempt": source.attempt,
        "score": source.score,
        "model": source.model,
        "agent": source.agent,
        "created_at": source.created_at,
        "extra": dict(lesson.metadata),
    }
    return Chunk(lesson.text, id=f"{lesson.id}:{number}", metadata=metadata, embed_text=face)


def lesson_of(chunk: Chunk) -> Lesson:
    """Read a lesson back; a chunk that another program wrote without a lesson's fields is an error."""
    data = dict(chunk.metadata)
    try:
        return Lesson(
            id=cast("str", data["lesson_id"]),
            text=chunk.content,
            task_id=cast("str", data["task_id"]),
            task_excerpt=cast("str", data["task_excerpt"]),
            task_kind=cast("str | None", data["task_kind"]),
            tools=tuple(cast("Sequence[str]", data["tools"])),
            outcome=cast("Outcome", data["outcome"]),
            provenance=Provenance(
                run_id=cast("str", data["run_id"]),
                attempt=cast("int", data["attempt"]),
                score=cast("float | None", data["score"]),
                model=cast("str | None", data["model"]),
                agent=cast("str | None", data["agent"]),
                created_at=cast("float", data["created_at"]),
            ),
            metadata=cast("dict[str, JSON]", data["extra"]),
        )
    except (KeyError, TypeError) as error:
        raise LessonStoreError(
            f"chunk {chunk.id!r} is no lesson ({error} is missing or of another kind): keep lessons in a namespace "
            "of their own"
        ) from error


def one_each(hits: Sequence[SearchHit]) -> list[SearchHit]:
    """Keep the nearest face of each lesson, in order."""
    seen: set[JSON] = set()
    kept = []
    for hit in hits:
        lesson_id = cast("str", hit.chunk.metadata.get("lesson_id", hit.chunk.id))
        if lesson_id not in seen:
            seen.add(lesson_id)
            kept.append(hit)
    return kept


def ledger_entry(recall: Recall) -> JSON:
    """Return what the ledger keeps of a recall: ids and similarities, no text."""
    return {
        "task_id": recall.task_id,
        "offered": [_item(item) for item in recall.offered],
        "withheld": [_item(item) for item in recall.withheld],
    }


def _item(item: RecalledLesson) -> JSON:
    return {"lesson_id": item.lesson.id, "similarity": item.similarity, "reason": item.reason}
