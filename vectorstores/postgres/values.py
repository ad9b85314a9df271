"""Values as PostgreSQL sends and takes them in binary, and what it can't hold."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pgvector
from psycopg import adapters
from psycopg.abc import AdaptContext
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format
from psycopg.types.string import ByteaBinaryLoader, TextBinaryLoader

from vectorstores.base import InvalidChunkError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from psycopg import AsyncConnection

    from vectorstores._checks import RecordRow, Row
    from vectorstores.base import FloatArray

# A b-tree entry holds some 2,700 bytes. What is in an index is refused beyond these lengths, in UTF-8 bytes.
MAX_SCOPE: Final = 500
MAX_ID: Final = 1500


class Vector:
    """A vector on its way to the server, in pgvector's binary form."""

    __slots__ = ("data",)

    def __init__(self, vector: FloatArray) -> None:
        self.data = pgvector.Vector(vector).to_binary()


class Vectors:
    """Many vectors on their way to the server: PostgreSQL's binary form of an array."""

    __slots__ = ("data",)

    def __init__(self, vectors: Sequence[FloatArray], oid: int) -> None:
        parts = [struct.pack(">iiiii", 1, 0, oid, len(vectors), 1)]
        for vector in vectors:
            data = Vector(vector).data
            parts += (struct.pack(">i", len(data)), data)
        self.data = b"".join(parts)


def vectors_of(found: Sequence[bytes], dim: int) -> FloatArray:
    """Return the vectors of pgvector's binary forms, of shape ``(len(found), dim)``."""
    # Four bytes are the header's.
    joined = np.frombuffer(b"".join(each[4:] for each in found), dtype=">f4")
    rows: NDArray[np.float32] = joined.reshape(len(found), dim).astype(np.float32)
    return rows


class Context(AdaptContext):
    """Adapters of this package's connections; the process-wide ones stay as they are."""

    def __init__(self, vector_oids: tuple[int, int]) -> None:
        self._adapters = AdaptersMap(adapters)
        for kind, oid in zip((Vector, Vectors), vector_oids, strict=True):
            form = {"format": Format.BINARY, "oid": oid, "dump": lambda _, value: value.data}
            self._adapters.register_dumper(kind, type(f"{kind.__name__}Dumper", (Dumper,), form))
        self._adapters.register_loader(vector_oids[0], ByteaBinaryLoader)
        # JSON is kept as text: what is damaged is then found where its row is known.
        self._adapters.register_loader("json", TextBinaryLoader)

    @property
    def adapters(self) -> AdaptersMap:
        """See :class:`psycopg.abc.AdaptContext`."""
        return self._adapters

    @property
    def connection(self) -> AsyncConnection[Any] | None:
        """None: these adapters belong to no one connection."""
        return None


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
