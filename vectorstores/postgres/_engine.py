"""The backend of a PostgreSQL store: each operation on chunks and records, with its SQL.

A read is one statement on a connection of the pool. A write is one transaction, which notifies those who listen for
changes of the namespace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from vectorstores._engine import Engine, Query, Write, conflict
from vectorstores._json import read_json
from vectorstores.base import Chunk, Page, Record, RecordPage
from vectorstores.postgres.chunks import (
    FIELDS,
    chunk_of,
    columns_of,
    count_chunks,
    delete_chunks,
    put,
    refuse_records,
    refuse_rows,
    require_vector,
)
from vectorstores.postgres.connection import About, Connection
from vectorstores.postgres.connection import rows as rows_of
from vectorstores.postgres.database import Database
from vectorstores.postgres.filters import compile_filter

if TYPE_CHECKING:
    from vectorstores._checks import RecordRow
    from vectorstores.base import SearchHit
    from vectorstores.filters import Node

# Rows in one statement: few, so that a large load stays within the time limit of a statement.
_SLICE: Final = 500
# More rows than these are prepared, or checked, in a thread, since they would block the event loop.
_INLINE: Final = 16
_INLINE_CHECKS: Final = 100
_RECORD: Final = b" WHERE namespace = %b AND collection = %b AND key = %b"


class PostgresEngine(Database, Engine):
    """Rows of all namespaces in one schema of a database."""

    # -- chunks

    async def write(self, namespace: str, write: Write) -> int:
        about, rows = self.known.about, write.rows
        await anyio.to_thread.run_sync(refuse_rows, rows) if len(rows) > _INLINE_CHECKS else refuse_rows(rows)
        refuse_records(write.records)

        async def work(connection: Connection) -> int:
            for start in range(0, len(rows), _SLICE):
                columns = partial(columns_of, rows[start : start + _SLICE], about)
                values = await anyio.to_thread.run_sync(columns) if len(rows) > _INLINE else columns()
                await connection.execute(put(about), (namespace, *values), prepare=True)
            gone = 0
            if ids := sorted(id for id in write.ids if "\0" not in id):
                gone += await delete_chunks(connection, namespace, ids, about)
            for collection, keys in write.dropped.items():
                if "\0" not in collection:
                    wanted = [key for key in keys if "\0" not in key]
                    gone += await _delete_records(connection, namespace, collection, wanted, about)
            written = await _write_records(connection, namespace, write.records)
            return written if write.counted else gone

        return await self.pool.write(
            work, channel=self.channel(namespace), size=len(rows), repeatable=write.is_repeatable
        )

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

    async def get_record(self, namespace: str, collection: str, key: str) -> Record | None:
        if "\0" in collection + key:
            return None
        statement = b"SELECT key, value, version FROM records" + _RECORD
        found = await self.pool.rows(statement, (namespace, collection, key))
        return _record(collection, *found[0]) if found else None

    async def scan_records(self, namespace: str, collection: str, after: int, limit: int) -> RecordPage:
        if "\0" in collection:
            return RecordPage((), None)
        statement = (
            b"SELECT number, key, value, version FROM records"
            b" WHERE namespace = %b AND collection = %b AND number > %b::bigint ORDER BY number LIMIT %b::bigint"
        )
        found = await self.pool.rows(statement, (namespace, collection, after, limit + 1))
        records = tuple(_record(collection, *fields) for _, *fields in found[:limit])
        return RecordPage(records, str(found[limit - 1][0]) if len(found) > limit else None)


async def _write_records(connection: Connection, namespace: str, records: Sequence[RecordRow]) -> int:
    """Write the records and return how many were written.

    Raises :class:`ConflictError` for one that does not have its expected version.
    """
    written = 0
    insert = (
        b"INSERT INTO records (namespace, collection, key, value, version) VALUES (%b, %b, %b, %b::text::json, 1)"
        b" ON CONFLICT (namespace, collection, key) DO NOTHING RETURNING 1"
    )
    for record in records:
        place = (namespace, record.collection, record.key)
        if not record.expected:
            made = await rows_of(connection, insert, (*place, record.value))
            written += len(made)
            if made or record.expected is None:
                continue
        statement = b"SELECT key, value, version FROM records" + _RECORD + b" FOR UPDATE"
        found = await rows_of(connection, statement, place)
        # The value is read too: what another program damaged must be reported and not overwritten.
        version = _record(record.collection, *found[0]).version if found else 0
        if not record.expected or version != record.expected:
            raise conflict(record, version)
        statement = b"UPDATE records SET value = %b::text::json, version = version + 1" + _RECORD
        await connection.execute(statement, (record.value, *place), prepare=True)
        written += 1
    return written


async def _delete_records(
    connection: Connection, namespace: str, collection: str, keys: Sequence[str], about: About
) -> int:
    statement = b"SELECT remove_records(%b::text, %b::text, %b::text[])"
    if about.deletes:
        own = b"namespace = %b AND collection = %b AND key = ANY(%b::text[])"
        statement = b"DELETE FROM records WHERE " + own + b" RETURNING 1"
    return len(await rows_of(connection, statement, (namespace, collection, keys)))


def _record(collection: str, key: str, value: str, version: int) -> Record:
    return Record(collection, key, read_json(value, f"the record {collection}/{key}"), version)
