"""What is nearest: exactly when few chunks are admitted, by the index when many are.

Filters and the namespace hold before the best are taken, on both ways. Which way is taken is found by trying: an
exact search stops after so many admitted chunks, and then the index is asked, for a minute at once or until much was
changed. Where it would stop late only, the admitted are counted first. An index search that found too few is done again
exactly; with pgvector 0.7, where a walk ends with its candidates, among more of them first.

How many are few depends on the table: what makes a walk through the index miss is that few of the chunks around
the query are admitted. Measured on clustered vectors, recall@5 of the index, at 100,000 and at 300,000 (with
``ef_search`` 40 and 100), was 1.00 unfiltered, 1.00 with 20 % admitted, 0.95 and 0.94 with 10 %, 0.86 and 0.79 with
5 %; an ``ef_search`` of 400 added 0.02 and a longer walk nothing, so below 15 % all are compared, at some 2 us each.
At a million (with 200) it was 0.989 unfiltered, 0.986 with 25 % or 18 % admitted, and 0.89 with 10 %.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from vectorstores.base import SearchHit
from vectorstores.mmr import mmr
from vectorstores.postgres.chunks import chunk_of
from vectorstores.postgres.columns import INLINE_DIM, MAX_HALF_DIM, MAX_INDEXED_DIM
from vectorstores.postgres.values import Vector, vectors_of
from vectorstores.postgres.where import EVERYTHING

if TYPE_CHECKING:
    from vectorstores._engine import Query
    from vectorstores.postgres.options import PostgresOptions
    from vectorstores.postgres.pool import Connection
    from vectorstores.postgres.session import About
    from vectorstores.postgres.where import Where

_ALL: Final = 2**31 - 2
# What others delete makes it untrue meanwhile, and a walk among few finds fewer of the nearest.
_REMEMBERED: Final = 60.0
# What this process changes is counted: at one part in so many of the bound it is looked at again.
_CHANGED: Final = 20
_SIZED_FOR: Final = 30.0
# Up to this share of the table, chunks are compared one by one, within ``exact_below``; few always are.
_SHARE: Final = 0.15
_ALWAYS: Final = 1000
# From so many on, comparing them in vain is felt, and counting them is quicker by far.
_COUNTED_FROM: Final = 15_000
# How many candidates a walk keeps for a recall@5 of 0.98 and more: 40 up to 100,000 rows, and 260 of a million. An
# index is made by chance: in three of a million rows, 200 candidates found 0.979 to 0.989, and half of them 0.967.
_LEAST, _LEAST_UP_TO, _GROWTH = 40, 100_000, 0.813
# How many it keeps for each result at least: of as many as it has to find, it finds fewer of the nearest.
_PER_RESULT: Final = 2
_FURTHER: Final = 4
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
_ORDER: Final = itemgetter(5, 0)


@dataclass(slots=True)
class _Ask:
    """A query on its way to the server."""

    namespace: str
    where: Where
    vector: Vector
    wanted: int
    walked_for: int
    """How many results a walk goes on for."""
    statements: _Statements


class Searches:
    """The searches of a store, and what was learned of them."""

    def __init__(self, about: About, options: PostgresOptions) -> None:
        self._about = about
        self._options = options
        # Whether a filter in a namespace admits more than are compared one by one, and until when that is believed.
        self._wide: OrderedDict[tuple[str, str], tuple[bool, float]] = OrderedDict()
        self._changed: dict[str, int] = {}
        self._bound, self._effort, self._sized_until = 0, 0, 0.0
        self._efforts: WeakKeyDictionary[Connection, int] = WeakKeyDictionary()
        self._plain = _Statements(about, vectors=False)
        self._with_vectors = _Statements(about, vectors=True)

    async def search(
        self, connection: Connection, namespace: str, query: Query, where: Where
    ) -> list[SearchHit]:
        """Return what is nearest to the query."""
        wanted = min(query.k if query.diversity == 0.0 else max(4 * query.k, query.k + 20), _ALL)
        statements = self._with_vectors if query.diversity else self._plain
        ask = _Ask(
            namespace, where, Vector(query.vector), wanted, self._walked_for(wanted, where), statements
        )
        found = await self._find(connection, ask)
        return (
            diverse(query, found, wanted, self._about.dim)
            if query.diversity
            else nearest(query, found, wanted)
        )

    def _walked_for(self, wanted: int, where: Where) -> int:
        # A halfvec has three digits: more candidates, so that the exact scores decide.
        by_half = _SPREAD * wanted if self._about.dim > MAX_INDEXED_DIM else wanted
        filtered = wanted if where is EVERYTHING else wanted + min((_SPREAD - 1) * wanted, _MOST_SPARE)
        return max(by_half, filtered)

    async def _find(self, connection: Connection, ask: _Ask) -> list[tuple[Any, ...]]:
        if self._about.dim > MAX_HALF_DIM:
            return await _exactly(connection, ask, _ALL)
        await self._size_up(connection)
        key, bound = (ask.namespace, ask.where.name), self._bound
        wide = self._is_wide(key)
        if wide is None and bound >= _COUNTED_FROM:
            wide = await _count(connection, ask, bound + 1) > bound
            self._note(key, wide=wide)
        if wide:
            return await self._by_index(connection, ask)
        found = await _exactly(connection, ask, bound + 1)
        if not found or found[0][6] <= bound:
            return found
        self._note(key, wide=True)
        return await self._by_index(connection, ask)

    async def _size_up(self, connection: Connection) -> None:
        """Set up to how many admitted chunks are compared, and how far a walk goes, by the size of the table."""
        now = time.monotonic()
        if now < self._sized_until:
            return
        cursor = await connection.execute(_SIZE, prepare=True, binary=True)
        found: Any = await cursor.fetchone()
        rows = self._rows(*found)
        self._bound = min(self._options.exact_below, max(_ALWAYS, round(_SHARE * rows)))
        self._effort = self._options.ef_search or effort_for(rows)
        self._sized_until = now + _SIZED_FOR

    def _rows(self, size: int, analysed: float, pages: int, page: int) -> float:
        """Estimate the rows of a table of so many bytes: by those it had when it was last looked through, if it was."""
        if analysed > 0 and pages > 0:
            return size / page * analysed / pages
        return size / (_ROW + (4 * self._about.dim if self._about.dim <= INLINE_DIM else 0))

    async def _by_index(self, connection: Connection, ask: _Ask) -> list[tuple[Any, ...]]:
        for effort in self._reach(ask):
            found = await self._walk(connection, ask, effort)
            if len(found) >= ask.wanted:
                return found
        # Too few: the walk was given up, or there are no more. Only looking at all of them tells.
        return await _exactly(connection, ask, _ALL)

    def _reach(self, ask: _Ask) -> tuple[int, ...]:
        """Return how many candidates a walk keeps, and how many the next one does if that found too few.

        pgvector 0.7 finds what is admitted among them, and ends there. From 0.8 on a walk goes on by itself.
        """
        effort = min(max(self._effort, _PER_RESULT * ask.walked_for), _MOST)
        if self._about.iterative:
            return (effort,)
        return tuple(each for each in (effort, min(_FURTHER * effort, _MOST)) if each >= ask.wanted)

    async def _walk(self, connection: Connection, ask: _Ask, effort: int) -> list[tuple[Any, ...]]:
        if self._efforts.get(connection) != effort:
            statement = b"SELECT set_config('hnsw.ef_search', %b, false)"
            await connection.execute(statement, (str(effort),))
            self._efforts[connection] = effort
        before, after = ask.statements.near
        cursor = await connection.execute(
            before + ask.where.sql + after,
            (ask.vector, ask.namespace, *ask.where.parameters, *self._order(ask), ask.walked_for),
            prepare=True,
            binary=True,
        )
        return await cursor.fetchall()

    def _order(self, ask: _Ask) -> tuple[Vector, ...]:
        return (ask.vector,) if self._about.dim > MAX_INDEXED_DIM else ()

    def _is_wide(self, key: tuple[str, str]) -> bool | None:
        wide, until = self._wide.get(key, (None, 0.0))
        return wide if until > time.monotonic() else None

    def _note(self, key: tuple[str, str], *, wide: bool) -> None:
        self._wide[key] = (wide, time.monotonic() + _REMEMBERED)
        self._wide.move_to_end(key)
        if len(self._wide) > _KEPT:
            self._wide.popitem(last=False)

    def changed(self, namespace: str, rows: int) -> None:
        """Hear that this process has written or deleted rows: filters may admit few now that admitted many."""
        count = self._changed.pop(namespace, 0) + rows
        if count <= self._bound // _CHANGED:
            self._changed[namespace] = count
            if len(self._changed) > _KEPT:
                self._changed.clear()
                self._wide.clear()
            return
        for key in [key for key in self._wide if key[0] == namespace]:
            del self._wide[key]


def effort_for(rows: float) -> int:
    """Return how many candidates a walk through the index of so many rows is to keep."""
    grown: float = _LEAST * (max(rows, _LEAST_UP_TO) / _LEAST_UP_TO) ** _GROWTH
    # In tens: each change is a statement on each connection.
    return min(10 * round(grown / 10), _MOST)


async def _count(connection: Connection, ask: _Ask, most: int) -> int:
    """Count the admitted chunks, up to ``most``."""
    cursor = await connection.execute(
        b"SELECT count(*) FROM (SELECT 1 FROM chunks WHERE namespace = %b AND "
        + ask.where.sql
        + b" LIMIT %b::bigint) AS admitted",
        (ask.namespace, *ask.where.parameters, most),
        prepare=True,
        binary=True,
    )
    found: Any = await cursor.fetchone()
    return int(found[0])


async def _exactly(connection: Connection, ask: _Ask, most: int) -> list[tuple[Any, ...]]:
    """Compare up to ``most`` admitted chunks, and say beside each result how many these were."""
    before, after = ask.statements.exact
    cursor = await connection.execute(
        before + ask.where.sql + after,
        (ask.vector, ask.namespace, *ask.where.parameters, most, ask.wanted, ask.namespace),
        prepare=True,
        binary=True,
    )
    return await cursor.fetchall()


class _Statements:
    """The two ways to search as SQL, each in two parts with a condition between them.

    Results are (number, id, content, embed_text, metadata, distance, how many were compared, vector); the vector
    is sent only where it is needed.
    """

    def __init__(self, about: About, *, vectors: bool) -> None:
        column, dim = about.column, about.dim
        vector = f", c.{column}" if vectors else ""
        fields = "c.number, c.id, c.content, c.embed_text, c.metadata"
        # Distances are computed in a materialised part, which leaves nothing that an index could be walked for,
        # and only numbers and distances are kept of it. Texts are then fetched for the best alone.
        self.exact = (
            f"WITH picked AS MATERIALIZED (SELECT number, {column} <#> %b AS distance FROM chunks"  # noqa: S608
            " WHERE namespace = %b AND ".encode(),
            " LIMIT %b::bigint), best AS MATERIALIZED"  # noqa: S608
            " (SELECT number, distance FROM picked ORDER BY distance, number LIMIT %b::bigint)"
            f" SELECT {fields}, best.distance, (SELECT count(*) FROM picked){vector}"
            " FROM best JOIN chunks c ON c.namespace = %b AND c.number = best.number".encode(),
        )
        order = "distance" if dim <= MAX_INDEXED_DIM else f"{column}::halfvec({dim}) <#> %b::halfvec({dim})"
        self.near = (
            f"SELECT {fields}, {column} <#> %b AS distance, 0{vector} FROM chunks c"  # noqa: S608
            " WHERE namespace = %b AND ".encode(),
            f" ORDER BY {order} LIMIT %b::bigint".encode(),
        )


def nearest(query: Query, found: Sequence[tuple[Any, ...]], wanted: int) -> list[SearchHit]:
    """Return the best of what was found, by the server's distances."""
    best = sorted(found, key=_ORDER)[:wanted]
    hits: list[SearchHit] = []
    for fields in best:
        # pgvector's is the negative inner product, so that small is near; rounding may leave [-1, 1] by a digit.
        score = max(-1.0, min(1.0, -fields[5]))
        if score < query.min_score:
            break
        hits.append(SearchHit(chunk_of(fields), score))
    return hits


def diverse(query: Query, found: Sequence[tuple[Any, ...]], wanted: int, dim: int) -> list[SearchHit]:
    """Re-rank what was found by maximal marginal relevance, scored by the vectors."""
    if not found:
        return []
    vectors = vectors_of([fields[7] for fields in found], dim)
    scores = np.clip(vectors.astype(np.float64) @ query.vector.astype(np.float64), -1.0, 1.0)
    # Equal rows may still differ in the last bit: rounded away, far below the precision of float32.
    scores = np.round(scores, 9)
    order = np.lexsort(([fields[0] for fields in found], -scores))[:wanted]
    order = order[scores[order] >= query.min_score]
    order = order[mmr(scores[order], vectors[order], k=query.k, diversity=query.diversity)]
    return [SearchHit(chunk_of(found[i]), float(scores[i])) for i in order]
