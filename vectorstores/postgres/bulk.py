"""Many rows at once, by binary COPY."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from vectorstores.postgres.facts import column_json, facts_json
from vectorstores.postgres.values import vector_bytes

if TYPE_CHECKING:
    from vectorstores._checks import Row
    from vectorstores.base import JSON
    from vectorstores.postgres.pool import Connection
    from vectorstores.postgres.session import About

# Rows of one COPY: few enough that a statement's time limit is none of a load's.
SLICE: Final = 1000
# Rows encoded at a time, off the event loop.
_PART: Final = 200
_HEAD: Final = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_TAIL: Final = struct.pack(">h", -1)
_COUNT: Final = struct.Struct(">h")
_NULL: Final = struct.pack(">i", -1)
_LENGTH: Final = struct.Struct(">i")
_JSONB_VERSION: Final = b"\x01"


async def copy(connection: Connection, namespace: str, rows: Sequence[Row], about: About) -> None:
    """Insert rows, none of which may be there yet, in their order."""
    columns = (
        "namespace",
        "id",
        "content",
        "embed_text",
        "metadata",
        "facts",
        *about.columns.values(),
        about.column,
    )
    statement = f"COPY chunks ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)".encode()
    for start in range(0, len(rows), SLICE):
        async with connection.cursor().copy(statement) as sink:
            await sink.write(_HEAD)
            for part in range(start, min(start + SLICE, len(rows)), _PART):
                some = rows[part : min(part + _PART, start + SLICE)]
                await sink.write(await anyio.to_thread.run_sync(encode, namespace, some, about))
            await sink.write(_TAIL)


def facts_of(metadata: Mapping[str, JSON], about: About) -> list[str | None]:
    """Return what filters read of metadata: the column ``facts``, and one for each indexed key."""
    columns = (column_json(metadata[key]) if key in metadata else None for key in about.columns)
    return [facts_json(metadata), *columns]


def encode(namespace: str, rows: Sequence[Row], about: About) -> bytes:
    """Return rows as PostgreSQL's binary COPY takes them."""
    count = _COUNT.pack(7 + len(about.columns))
    scope = _field(namespace.encode())
    parts: list[bytes] = []
    for row in rows:
        if row.vector is None:
            raise ValueError(f"chunk {row.id!r} has no vector")
        parts += [
            count,
            scope,
            _field(row.id.encode()),
            _field(row.content.encode()),
            _NULL if row.embed_text is None else _field(row.embed_text.encode()),
            _field(row.metadata.encode()),
            *(
                _NULL if fact is None else _field(_JSONB_VERSION + fact.encode())
                for fact in facts_of(json.loads(row.metadata), about)
            ),
            _field(vector_bytes(row.vector)),
        ]
    return b"".join(parts)


def _field(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data
