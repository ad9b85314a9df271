"""The backend of a PostgreSQL store: each operation on chunks and records, with its SQL.

A read is one statement on a connection of the pool. A write is one transaction, which notifies those who listen for
changes of the namespace.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from vectorstores._engine import Engine, Query, conflict_message, taken_message
from vectorstores._json import read_json
from vectorstores.base import Chunk, ConflictError, Page, Record, RecordPage
from vectorstores.postgres.chunks import (
    DELETE,
    FIELDS,
    chunk_of,
    columns_of,
    count_chunks,
    put,
    refuse_records,
    refuse_rows,
    require_vector,
)
from vectorstores.postgres.connection import Connection
from vectorstores.postgres.connection import rows as rows_of
from vectorstores.postgres.database import Database
from vectorstores.postgres.filters import compile_filter

if TYPE_CHECKING:
    from vectorstores._checks import RecordRow, Row
    from vectorstores.base import FloatArray, SearchHit
    from vectorstores.filters import Node

_MAX: Final = 2**31 - 1
# Rows in one statement: few, so that a large load stays within the time limit of a statement.
_SLICE: Final = 500
# More rows than these are prepared, or checked, in a thread, since they would block the event loop.
_INLINE: Final = 16
_INLINE_CHECKS: Final = 100
_RECORD: Final = b" WHERE namespace = %b AND collection = %b AND key = %b"


class PostgresEngine(Database, Engine):
    """Rows of all namespaces in one schema of a database."""

    # -- chunks

    async def write(
        self,
        namespace: str,
        rows: Sequence[Row],
        records: Sequence[RecordRow],
        embeddings: Mapping[bytes, FloatArray],
    ) -> None:
        about = self.known.about
        await anyio.to_thread.run_sync(refuse_rows, rows) if len(rows) > _INLINE_CHECKS else refuse_rows(rows)
        refuse_records(records)

        async def work(connection: Connection) -> None:
            for start in range(0, len(rows), _SLICE):
                columns = partial(columns_of, rows[start : start + _SLICE], about)
                values = await anyio.to_thread.run_sync(columns) if len(rows) > _INLINE else columns()
                await connection.execute(put(about), (namespace, *values), prepare=True)
            await _append(connection, namespace, records)

        repeatable = not any(record.must_be_new for record in records)
        channel = self.channel(namespace)
        await self.pool.write(work, channel=channel, size=len(rows), repeatable=repeatable)
        await self.remember(embeddings)

    async def delete(self, namespace: str, ids: Sequence[str], records: Sequence[RecordRow]) -> int:
        refuse_records(records)
        wanted = sorted(id for id in ids if "\0" not in id)
        removed = b"SELECT remove_chunks(%b::text, %b::text[])", (namespace, wanted)
        deleted = DELETE, (wanted, namespace, namespace)
        statement, parameters = deleted if self.known.about.deletes else removed

        async def work(connection: Connection) -> int:
            gone = await rows_of(connection, statement, parameters) if wanted else ()
            await _append(connection, namespace, records)
            return len(gone)

        return await self.pool.write(work, channel=self.channel(namespace))

    async def search(self, namespace: str, query: Query) -> list[SearchHit]:
        about = self.known.about
        where = compile_filter(query.where, about.columns)
        return await self.pool.read(
            lambda connection: self.searches.search(connection, about, namespace, query, where)
        )

    async def get(self, namespace: str, ids: Sequence[str], *, vectors: bool = False) -> list[Chunk]:
        vector = self.known.about.column if vectors else "NULL"
        statement = f"SELECT {FIELDS}, {vector} FROM chunks WHERE namespace = %b AND id = ANY(%b::text[])"  # noqa: S608
        parameters = (namespace, [id for id in ids if "\0" not in id])
        by_id = {each[1]: each for each in await self.pool.rows(statement.encode(), parameters)}
        found = [by_id[id] for id in ids if id in by_id]
        chunks = [chunk_of(fields) for fields in found]
        if not vectors:
            return chunks
        for fields in found:
            require_vector(fields[1], fields[5])
        return [replace(chunk, vector=each[5].to_numpy()) for chunk, each in zip(chunks, found, strict=True)]

    async def count(self, namespace: str, where: Node | None) -> int:
        admitted = compile_filter(where, self.known.about.columns)
        return await self.pool.read(lambda connection: count_chunks(connection, namespace, admitted))

    async def scan(self, namespace: str, where: Node | None, after: int, limit: int) -> Page:
        limit = min(limit, _MAX)
        admitted = compile_filter(where, self.known.about.columns)
        statement = (
            f"SELECT {FIELDS} FROM chunks WHERE namespace = %b AND number > %b::bigint"  # noqa: S608
            f" AND {admitted.sql.decode()} ORDER BY number LIMIT %b::bigint"
        )
        parameters = (namespace, after, *admitted.parameters, limit + 1)
        found = await self.pool.rows(statement.encode(), parameters)
        chunks = await anyio.to_thread.run_sync(lambda: tuple(map(chunk_of, found[:limit])))
        return Page(chunks, str(found[limit - 1][0]) if len(found) > limit else None)

    # -- records

    async def append_once(self, namespace: str, record: RecordRow) -> bool:
        refuse_records([record])
        work = partial(_append, namespace=namespace, records=[record])
        return bool(await self.pool.write(work, channel=self.channel(namespace)))

    async def get_record(self, namespace: str, collection: str, key: str) -> Record | None:
        if "\0" in collection + key:
            return None
        statement = b"SELECT key, value, version FROM records" + _RECORD
        found = await self.pool.rows(statement, (namespace, collection, key))
        return _record(collection, *found[0]) if found else None

    async def swap_record(self, namespace: str, record: RecordRow, version: int | None) -> Record:
        refuse_records([record])
        place = (namespace, record.collection, record.key)

        async def work(connection: Connection) -> int:
            if version is None and await _append(connection, namespace, [record]):
                return 1
            statement = b"SELECT key, value, version FROM records" + _RECORD + b" FOR UPDATE"
            found = await rows_of(connection, statement, place)
            # The value is read too: what another program damaged must be reported and not overwritten.
            now = _record(record.collection, *found[0]).version if found else None
            if version is None or now != version:
                raise ConflictError(conflict_message(record, version, now))
            statement = b"UPDATE records SET value = %b::text::json, version = version + 1" + _RECORD
            await connection.execute(statement, (record.value, *place), prepare=True)
            return version + 1

        new = await self.pool.write(work, channel=self.channel(namespace))
        return Record(record.collection, record.key, json.loads(record.value), new)

    async def scan_records(self, namespace: str, collection: str, after: int, limit: int) -> RecordPage:
        if "\0" in collection:
            return RecordPage((), None)
        limit = min(limit, _MAX)
        statement = (
            b"SELECT number, key, value, version FROM records"
            b" WHERE namespace = %b AND collection = %b AND number > %b::bigint ORDER BY number LIMIT %b::bigint"
        )
        found = await self.pool.rows(statement, (namespace, collection, after, limit + 1))
        records = tuple(_record(collection, *fields) for _, *fields in found[:limit])
        return RecordPage(records, str(found[limit - 1][0]) if len(found) > limit else None)

    async def delete_records(self, namespace: str, collection: str, keys: Sequence[str]) -> int:
        if "\0" in collection:
            return 0
        statement = b"SELECT remove_records(%b::text, %b::text, %b::text[])"
        if self.known.about.deletes:
            own = b"namespace = %b AND collection = %b AND key = ANY(%b::text[])"
            statement = b"DELETE FROM records WHERE " + own + b" RETURNING 1"
        parameters = (namespace, collection, [key for key in keys if "\0" not in key])
        work = partial(rows_of, statement=statement, parameters=parameters)
        return len(await self.pool.write(work, channel=self.channel(namespace)))


async def _append(connection: Connection, namespace: str, records: Sequence[RecordRow]) -> int:
    """Write the records whose keys don't exist, and return how many; ``must_be_new`` makes an existing one an error."""
    statement = (
        b"INSERT INTO records (namespace, collection, key, value, version) VALUES (%b, %b, %b, %b::text::json, 1)"
        b" ON CONFLICT (namespace, collection, key) DO NOTHING RETURNING 1"
    )
    written = 0
    for record in records:
        parameters = (namespace, record.collection, record.key, record.value)
        made = len(await rows_of(connection, statement, parameters))
        if not made and record.must_be_new:
            raise ConflictError(taken_message(record))
        written += made
    return written


def _record(collection: str, key: str, value: str, version: int) -> Record:
    return Record(collection, key, read_json(value, f"the record {collection}/{key}"), version)
