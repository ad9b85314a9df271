"""Search: exact if the filter admits few chunks, by a walk through the HNSW index if it admits many.

Both ways apply the filter and the namespace before they take the best. The admitted chunks are counted, up to the
bound between few and many, and the answer is reused for some seconds. A walk that finds too few is followed by an
exact search.

The bound depends on the size of the table: a walk misses results if few of the chunks around the query are admitted.
Measured on clustered vectors, recall@5 of the index, at 100,000 and at 300,000 rows (with ``ef_search`` 40 and 100),
was 1.00 unfiltered, 1.00 with 20 % admitted, 0.95 and 0.94 with 10 %, 0.86 and 0.79 with 5 %. An ``ef_search`` of 400
added 0.02 and a longer walk nothing, so below 15 % all are compared, at some 2 us each: half of that is reading the
page of each row. At a million rows (with 200) it was 0.989 unfiltered, 0.986 with 25 % or 18 % admitted, and 0.89 with
10 %. A denser graph (``m`` 24, ``ef_construction`` 200, four times as long to build) found 0.978 of 10 % at 100,000
rows; to reach 0.99 it took as long as comparing all.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from pgvector import Vector

from vectorstores.base import SearchHit
from vectorstores.postgres.chunks import chunk_of, count_chunks, require_vector
from vectorstores.postgres.connection import About, Connection
from vectorstores.postgres.connection import rows as rows_of
from vectorstores.postgres.filters import EVERYTHING
from vectorstores.postgres.schema import INLINE_DIM, MAX_HALF_DIM, MAX_INDEXED_DIM

if TYPE_CHECKING:
    from vectorstores._engine import Query
    from vectorstores.postgres.filters import Where

Found = Sequence[tuple[Any, ...]]

# Seconds. Deletes may make the count wrong meanwhile, and a walk among few chunks finds fewer of the nearest.
_BELIEVED_FOR: Final = 10.0
_SIZED_FOR: Final = 30.0
# Up to this share of the table, chunks are compared one by one: always up to _ALWAYS, never above _EXACT_BELOW.
_SHARE: Final = 0.15
_ALWAYS: Final = 1000
_EXACT_BELOW: Final = 150_000
# The candidates (``ef_search``) of a walk for a recall@5 of at least 0.98: 40 up to 100,000 rows, 260 at a million. The
# build is random: in three indexes of a million rows, 200 candidates found 0.979 to 0.989, and 100 found 0.967.
_LEAST, _LEAST_UP_TO, _GROWTH = 40, 100_000, 0.813
# The least number of candidates for each result: a walk with one for each finds fewer of the nearest.
_PER_RESULT: Final = 2
# A walk with a filter finds this many times the wanted number, up to _MOST_SPARE more: if the filter depends on what
# the vectors mean, the first admitted chunks are not the nearest. Where 20 % of the table were admitted, all from one
# corner of it, recall@5 was 0.957 without this and 0.983 with it.
_SPREAD: Final = 4
_MOST_SPARE: Final = 60
_MOST: Final = 1000
# The rough size in bytes of a row without its vector, for a table that the server has never analysed.
_ROW: Final = 500
_SIZE: Final = (
    b"SELECT pg_relation_size(oid), reltuples, relpages, current_setting('block_size')::int FROM pg_class"
    b" WHERE oid = 'chunks'::regclass"
)
_KEPT: Final = 2048
_FIELDS: Final = "c.number, c.id, c.content, c.embed_text, c.metadata"


class Searches:
    """The searches of a store, with what they learned about the size of the table and of filters."""

    def __init__(self) -> None:
        # By namespace and filter: whether many chunks are admitted, and until when to believe that.
        self._beliefs: dict[tuple[object, ...], tuple[bool, float]] = {}
        self._bound, self._effort, self._sized_until = 0, 0, 0.0

    async def search(
        self, connection: Connection, about: About, namespace: str, query: Query, where: Where
    ) -> list[SearchHit]:
        """Return the chunks nearest to the query."""
        found: Found = ()
        if about.dim <= MAX_HALF_DIM and await self._admits_many(connection, about, namespace, where):
            found = await self._walk(connection, about, namespace, query, where)
        if len(found) < query.k:
            # Few are admitted, or the walk ended too early, or there are no more: only comparing all can tell.
            # The materialised part keeps the planner from walking the HNSW index. It holds numbers and distances only;
            # the texts are fetched for the best alone.
            statement = (
                f"WITH picked AS MATERIALIZED (SELECT number, {about.column} <#> %b AS distance FROM chunks"  # noqa: S608
                f" WHERE namespace = %b AND {where.sql.decode()}), best AS MATERIALIZED"
                " (SELECT number, distance FROM picked ORDER BY distance, number LIMIT %b::bigint)"
                f" SELECT {_FIELDS}, best.distance FROM best"
                " JOIN chunks c ON c.namespace = %b AND c.number = best.number"
            )
            parameters = (Vector(query.vector), namespace, *where.parameters, query.k, namespace)
            found = await rows_of(connection, statement.encode(), parameters)
        for fields in found:
            require_vector(fields[1], fields[5])  # without a vector the distance is NULL
        hits: list[SearchHit] = []
        for fields in sorted(found, key=itemgetter(5, 0))[: query.k]:
            # pgvector's distance is the negative inner product. Rounding may leave [-1, 1] by a digit.
            score = max(-1.0, min(1.0, -fields[5]))
            if score < query.min_score:
                break
            hits.append(SearchHit(chunk_of(fields), score))
        return hits

    async def _admits_many(self, connection: Connection, about: About, namespace: str, where: Where) -> bool:
        await self._measure(connection, about)
        parameters = (tuple(each) if isinstance(each, list) else each for each in where.parameters)
        key, now = (namespace, where.sql, *parameters), time.monotonic()
        many, until = self._beliefs.get(key, (False, 0.0))
        if now > until:
            many = await count_chunks(connection, namespace, where, self._bound + 1) > self._bound
            if len(self._beliefs) >= _KEPT:
                self._beliefs.clear()
            self._beliefs[key] = (many, now + _BELIEVED_FOR)
        return many

    async def _measure(self, connection: Connection, about: About) -> None:
        """Set the bound between few and many, and the candidates of a walk, by the size of the table."""
        now = time.monotonic()
        if now < self._sized_until:
            return
        ((size, analysed, pages, page),) = await rows_of(connection, _SIZE)
        if analysed > 0 and pages > 0:
            rows = size / page * analysed / pages
        else:
            rows = size / (_ROW + (4 * about.dim if about.dim <= INLINE_DIM else 0))
        self._bound = min(_EXACT_BELOW, max(_ALWAYS, round(_SHARE * rows)))
        self._effort = effort_for(rows)
        self._sized_until = now + _SIZED_FOR

    async def _walk(
        self, connection: Connection, about: About, namespace: str, query: Query, where: Where
    ) -> Found:
        """Walk the index until enough admitted chunks are found."""
        wanted, by_half = query.k, about.dim > MAX_INDEXED_DIM
        walked_for = wanted if where is EVERYTHING else wanted + min((_SPREAD - 1) * wanted, _MOST_SPARE)
        if by_half:
            # A halfvec has only three digits: find more, so that the exact scores decide.
            walked_for = max(walked_for, _SPREAD * wanted)
        effort = min(max(self._effort, _PER_RESULT * walked_for), _MOST)
        if connection.effort != effort:
            await connection.execute(b"SELECT set_config('hnsw.ef_search', %b, false)", (str(effort),))
            connection.effort = effort
        order = (
            f"{about.column}::halfvec({about.dim}) <#> %b::halfvec({about.dim})" if by_half else "distance"
        )
        statement = (
            f"SELECT {_FIELDS}, {about.column} <#> %b AS distance FROM chunks c"  # noqa: S608
            f" WHERE namespace = %b AND {where.sql.decode()} ORDER BY {order} LIMIT %b::bigint"
        )
        vector = Vector(query.vector)
        parameters = (vector, namespace, *where.parameters, *([vector] if by_half else []), walked_for)
        return await rows_of(connection, statement.encode(), parameters)


def effort_for(rows: float) -> int:
    """Return the number of candidates of a walk through an index of so many rows."""
    grown: float = _LEAST * (max(rows, _LEAST_UP_TO) / _LEAST_UP_TO) ** _GROWTH
    # In tens, since each change takes a statement on each connection.
    return min(10 * round(grown / 10), _MOST)
