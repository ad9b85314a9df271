"""The values that PostgreSQL can't store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from vectorstores.base import InvalidChunkError

if TYPE_CHECKING:
    from vectorstores._checks import RecordRow, Row

# A b-tree entry holds some 2,700 bytes, so indexed texts are limited to these lengths, in UTF-8 bytes.
MAX_SCOPE: Final = 500
MAX_ID: Final = 1500


def refuse_rows(rows: Sequence[Row]) -> None:
    """Raise :class:`InvalidChunkError` for the first chunk that PostgreSQL can't hold."""
    for index, row in enumerate(rows):
        place = f"chunks[{index}] (id {row.id!r:.100})"
        _refuse(f"{place}: id", row.id, limit=MAX_ID)
        _refuse(f"{place}: content", row.content)
        _refuse(f"{place}: embed_text", row.embed_text or "")
        _refuse(f"{place}: metadata", encoded=row.metadata)


def refuse_records(records: Sequence[RecordRow]) -> None:
    """Raise :class:`InvalidChunkError` for the first record that PostgreSQL can't hold."""
    for record in records:
        place = f"record {record.collection!r:.100}/{record.key!r:.100}"
        _refuse(f"{place}: collection", record.collection, limit=MAX_SCOPE)
        _refuse(f"{place}: key", record.key, limit=MAX_ID)
        _refuse(f"{place}: value", encoded=record.value)


def _refuse(place: str, text: str = "", *, encoded: str = "", limit: int | None = None) -> None:
    """Raise for a text, or for JSON, that PostgreSQL can't hold."""
    # JSON writes NUL as \u0000; the same characters also stand for a backslash followed by u0000.
    if "\0" in text or ("\\u0000" in encoded and holds_nul(json.loads(encoded))):
        found = f", found at {text.index(chr(0))}" if text else ""
        raise InvalidChunkError(f"{place}: PostgreSQL can't hold the character NUL (U+0000){found}")
    if limit is not None and len(text) * 4 > limit and len(text.encode()) > limit:
        raise InvalidChunkError(f"{place}: {len(text.encode())} bytes; in PostgreSQL at most {limit}")


def holds_nul(value: object) -> bool:
    """Whether the character NUL is in one of the texts of a JSON value."""
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(map(holds_nul, value.keys())) or any(map(holds_nul, value.values()))
    return isinstance(value, Sequence) and any(map(holds_nul, value))
