"""The binary form of values in PostgreSQL, and values that it can't store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from pgvector import Vector
from pgvector.psycopg.vector import register_vector_info
from psycopg import adapters
from psycopg.adapt import AdaptersMap
from psycopg.types import TypeInfo
from psycopg.types.string import TextBinaryLoader

from vectorstores.base import InvalidChunkError

if TYPE_CHECKING:
    from psycopg.abc import AdaptContext

    from vectorstores._checks import RecordRow, Row

__all__ = ["Vector", "context_of", "holds_nul", "known", "refuse_records", "refuse_rows"]

# A b-tree entry holds some 2,700 bytes, so indexed texts are limited to these lengths, in UTF-8 bytes.
MAX_SCOPE: Final = 500
MAX_ID: Final = 1500


def context_of(vector_oids: tuple[int, int]) -> AdaptContext:
    """Return the adapters of this package's connections, without changing those of the process."""
    context: Any = SimpleNamespace(adapters=AdaptersMap(adapters), connection=None)
    register_vector_info(context, TypeInfo("vector", *vector_oids))
    # JSON is loaded as text and parsed later, so that an error can name the row.
    context.adapters.register_loader("json", TextBinaryLoader)
    found: AdaptContext = context
    return found


def known(texts: Iterable[str]) -> list[str]:
    """Return the texts that PostgreSQL can hold; nothing is stored under the others."""
    return [text for text in texts if "\0" not in text]


def refuse_rows(rows: Sequence[Row]) -> None:
    """Raise :class:`InvalidChunkError` for the first chunk that PostgreSQL can't hold."""
    for index, row in enumerate(rows):
        place = f"chunks[{index}] (id {row.id!r:.100})"
        _refuse_text(row.id, f"{place}: id", MAX_ID)
        _refuse_text(row.content, f"{place}: content")
        _refuse_text(row.embed_text or "", f"{place}: embed_text")
        _refuse_json(row.metadata, f"{place}: metadata")


def refuse_records(records: Sequence[RecordRow]) -> None:
    """Raise :class:`InvalidChunkError` for the first record that PostgreSQL can't hold."""
    for record in records:
        place = f"record {record.collection!r:.100}/{record.key!r:.100}"
        _refuse_text(record.collection, f"{place}: collection", MAX_SCOPE)
        _refuse_text(record.key, f"{place}: key", MAX_ID)
        _refuse_json(record.value, f"{place}: value")


def _refuse_text(text: str, place: str, limit: int | None = None) -> None:
    if "\0" in text:
        raise InvalidChunkError(
            f"{place}: PostgreSQL can't hold the character NUL (U+0000), found at {text.index(chr(0))}"
        )
    if limit is not None and len(text) * 4 > limit and len(text.encode()) > limit:
        raise InvalidChunkError(f"{place}: {len(text.encode())} bytes; in PostgreSQL at most {limit}")


def _refuse_json(text: str, place: str) -> None:
    """Raise for JSON with NUL in one of its texts."""
    # JSON writes NUL as \u0000; the same characters also stand for a backslash followed by u0000.
    if "\\u0000" in text and holds_nul(json.loads(text)):
        raise InvalidChunkError(f"{place}: PostgreSQL can't hold the character NUL (U+0000)")


def holds_nul(value: object) -> bool:
    """Whether the character NUL is in one of the texts of a JSON value."""
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(map(holds_nul, value.keys())) or any(map(holds_nul, value.values()))
    return isinstance(value, Sequence) and any(map(holds_nul, value))
