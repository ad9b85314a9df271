"""What is nearest: exactly when few chunks are admitted, by a walk through the index when many are.

Filters and the namespace hold before the best are taken, on both ways. The admitted are counted, up to the number
where they are many, and that is believed for some seconds. A walk that found too few is done again exactly.

How many are few depends on the table: what makes a walk through the index miss is that few of the chunks around
the query are admitted. Measured on clustered vectors, recall@5 of the index, at 100,000 and at 300,000 (with
``ef_search`` 40 and 100), was 1.00 unfiltered, 1.00 with 20 % admitted, 0.95 and 0.94 with 10 %, 0.86 and 0.79 with
5 %; an ``ef_search`` of 400 added 0.02 and a longer walk nothing, so below 15 % all are compared, at some 2 us each.
At a million (with 200) it was 0.989 unfiltered, 0.986 with 25 % or 18 % admitted, and 0.89 with 10 %.
A denser graph (``m`` 24, ``ef_construction`` 200, four times as long to build) found 0.978 of 10 % at 100,000 rows; for
0.99 it had to look at so much that comparing all took no longer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from vectorstores.base import SearchHit
from vectorstores.postgres.chunks import chunk_of, count_chunks, require_vector
from vectorstores.postgres.connection import About, Connection
from vectorstores.postgres.connection import rows as rows_of
from vectorstores.postgres.filters import EVERYTHING
from vectorstores.postgres.schema import INLINE_DIM, MAX_HALF_DIM, MAX_INDEXED_DIM
from vectorstores.postgres.values import Vector

if TYPE_CHECKING:
    from vectorstores._engine import Query
    from vectorstores.postgres.filters import Where

Found = Sequence[tuple[Any, ...]]

_MOST_WANTED: Final = 2**31 - 2
# What is deleted makes it untrue meanwhile, and a walk among few finds fewer of the nearest.
_BELIEVED_FOR: Final = 10.0
_SIZED_FOR: Final = 30.0
# Up to this share of the table chunks are compared one by one, but never more than so many; few always are.
_SHARE: Final = 0.15
_ALWAYS: Final = 1000
_EXACT_BELOW: Final = 150_000
# How many candidates a walk keeps for a recall@5 of 0.98 and more: 40 up to 100,000 rows, and 260 of a million. An
# index is made by chance: in three of a million rows, 200 candidates found 0.979 to 0.989, and half of them 0.967.
_LEAST, _LEAST_UP_TO, _GROWTH = 40, 100_000, 0.813
# How many it keeps for each result at least: of as many as it has to find, it finds fewer of the nearest.
_PER_RESULT: Final = 2
# A walk with a filter goes on until it has this many times what is wanted, up to so many more: what it meets first is
# not what is nearest where the filter goes by what the vectors say. Of the five nearest among 20 % of a table, all from
# one corner of it, it had 0.957 without this and 0.983 with it.
_SPREAD: Final = 4
_MOST_SPARE: Final = 60
_MOST: Final = 1000
# Bytes of a row beside its vector, roughly, of a table that the server has never looked through.
_ROW: Final = 500
_SIZE: Final = (
    b"SELECT pg_relation_size(oid), reltuples, relpages, current_setting('block_size')::int FROM pg_class"
    b" WHERE oid = 'chunks'::regclass"
)
_KEPT: Final = 2048
_FIELDS: Final = "c.number, c.id, c.content, c.embed_text, c.metadata"


class Searches:
    """The searches of a store, and what was learned of them."""

    def __init__(self, about: About) -> None:
        self._about = about
        # By namespace and filter: whether many are admitted, and until when that is believed.
        self._beliefs: dict[tuple[str, tuple[object, ...]], tuple[bool, float]] = {}
        self._bound, self._effort, self._sized_until = 0, 0, 0.0

    async def search(
        self, connection: Connection, namespace: str, query: Query, where: Where
    ) -> list[SearchHit]:
        """Return what is nearest to the query."""
        wanted = min(query.k, _MOST_WANTED)
        found: Found = ()
        if self._about.dim <= MAX_HALF_DIM and await self._admits_many(connection, namespace, where):
            found = await self._nearest_by_index(connection, namespace, query, where, wanted)
        if len(found) < wanted:
            # Few; or the walk was given up, or there are no more. Only looking at all of them tells.
            found = await self._nearest(connection, namespace, query, where, wanted)
        return _best(query, found, wanted)

    async def _admits_many(self, connection: Connection, namespace: str, where: Where) -> bool:
        await self._measure(connection)
        key, now = (namespace, where.key), time.monotonic()
        many, until = self._beliefs.get(key, (False, 0.0))
        if now > until:
            many = await count_chunks(connection, namespace, where, self._bound + 1) > self._bound
            if len(self._beliefs) >= _KEPT:
                self._beliefs.clear()
            self._beliefs[key] = (many, now + _BELIEVED_FOR)
        return many

    async def _measure(self, connection: Connection) -> None:
        """Set how many admitted chunks are many, and how far a walk goes, by the size of the table."""
        now = time.monotonic()
        if now < self._sized_until:
            return
        ((size, analysed, pages, page),) = await rows_of(connection, _SIZE)
        if analysed > 0 and pages > 0:
            rows = size / page * analysed / pages
        else:
            rows = size / (_ROW + (4 * self._about.dim if self._about.dim <= INLINE_DIM else 0))
        self._bound = min(_EXACT_BELOW, max(_ALWAYS, round(_SHARE * rows)))
        self._effort = effort_for(rows)
        self._sized_until = now + _SIZED_FOR

    async def _nearest(
        self, connection: Connection, namespace: str, query: Query, where: Where, wanted: int
    ) -> Found:
        """Compare all admitted chunks."""
        column = self._about.column
        # Distances are computed in a materialised part, which leaves nothing that an index could be walked for, and
        # only numbers and distances are kept of it. Texts are then fetched for the best alone.
        statement = (
            f"WITH picked AS MATERIALIZED (SELECT number, {column} <#> %b AS distance FROM chunks"  # noqa: S608
            f" WHERE namespace = %b AND {where.sql.decode()}), best AS MATERIALIZED"
            " (SELECT number, distance FROM picked ORDER BY distance, number LIMIT %b::bigint)"
            f" SELECT {_FIELDS}, best.distance FROM best JOIN chunks c ON c.namespace = %b AND c.number = best.number"
        )
        parameters = (Vector(query.vector), namespace, *where.parameters, wanted, namespace)
        return await rows_of(connection, statement.encode(), parameters)

    async def _nearest_by_index(
        self, connection: Connection, namespace: str, query: Query, where: Where, wanted: int
    ) -> Found:
        """Walk the index until enough admitted chunks are found (with pgvector 0.7, among its candidates alone)."""
        dim, column = self._about.dim, self._about.column
        by_half = dim > MAX_INDEXED_DIM
        walked_for = wanted if where is EVERYTHING else wanted + min((_SPREAD - 1) * wanted, _MOST_SPARE)
        if by_half:
            # A halfvec has three digits: more candidates, so that the exact scores decide.
            walked_for = max(walked_for, _SPREAD * wanted)
        effort = min(max(self._effort, _PER_RESULT * walked_for), _MOST)
        if connection.effort != effort:
            await connection.execute(b"SELECT set_config('hnsw.ef_search', %b, false)", (str(effort),))
            connection.effort = effort
        order = f"{column}::halfvec({dim}) <#> %b::halfvec({dim})" if by_half else "distance"
        statement = (
            f"SELECT {_FIELDS}, {column} <#> %b AS distance FROM chunks c"  # noqa: S608
            f" WHERE namespace = %b AND {where.sql.decode()} ORDER BY {order} LIMIT %b::bigint"
        )
        vector = Vector(query.vector)
        parameters = (vector, namespace, *where.parameters, *([vector] if by_half else []), walked_for)
        return await rows_of(connection, statement.encode(), parameters)


def effort_for(rows: float) -> int:
    """Return how many candidates a walk through the index of so many rows is to keep."""
    grown: float = _LEAST * (max(rows, _LEAST_UP_TO) / _LEAST_UP_TO) ** _GROWTH
    # In tens: each change is a statement on each connection.
    return min(10 * round(grown / 10), _MOST)


def _best(query: Query, found: Found, wanted: int) -> list[SearchHit]:
    """Return the best of what was found, by the server's distances."""
    hits: list[SearchHit] = []
    for fields in found:
        require_vector(fields[1], fields[5])  # a distance to none is none
    for fields in sorted(found, key=itemgetter(5, 0))[:wanted]:
        # pgvector's is the negative inner product, so that small is near; rounding may leave [-1, 1] by a digit.
        score = max(-1.0, min(1.0, -fields[5]))
        if score < query.min_score:
            break
        hits.append(SearchHit(chunk_of(fields), score))
    return hits
