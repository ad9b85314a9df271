"""Embeddings that were computed before: by digest, without the texts; the oldest go first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vectorstores.postgres import removal

if TYPE_CHECKING:
    from vectorstores.base import FloatArray
    from vectorstores.postgres.pool import Connection
    from vectorstores.postgres.session import About

CAPACITY: Final = 50_000
_SELDOM: Final = 64
# What another writer holds, it is deleting.
# Owner by owner, since the index begins with it: before PostgreSQL 18 a search by the key alone reads all of it.
_PURGE: Final = (
    b"WITH RECURSIVE owners (owner) AS ((SELECT owner FROM embeddings ORDER BY owner LIMIT 1) UNION ALL"
    b" SELECT (SELECT e.owner FROM embeddings e WHERE e.owner > o.owner ORDER BY e.owner LIMIT 1)"
    b" FROM owners o WHERE o.owner IS NOT NULL),"
    b" gone AS MATERIALIZED (SELECT held.owner, held.key"
    b" FROM owners o CROSS JOIN unnest(%b::bytea[]) AS wanted (key) CROSS JOIN LATERAL (SELECT e.owner, e.key"
    b" FROM embeddings e WHERE e.owner = o.owner AND e.key = wanted.key LIMIT 1 FOR UPDATE SKIP LOCKED) AS held)"
    b" DELETE FROM embeddings e USING gone WHERE e.owner = gone.owner AND e.key = gone.key"
)


class EmbeddingCache:
    """The table ``embeddings``, a part of it for each role, bounded."""

    def __init__(self, about: About, capacity: int = CAPACITY) -> None:
        self._about = about
        self._size = 4 * about.dim
        self._capacity = capacity

    async def read(self, connection: Connection, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        """Return the embeddings that are known."""
        cursor = await connection.execute(
            b"SELECT key, vector FROM embeddings WHERE owner = current_user AND key = ANY(%b::bytea[])",
            (list(dict.fromkeys(keys)),),
            prepare=True,
            binary=True,
        )
        return {
            bytes(key): np.frombuffer(vector, dtype="<f4")
            for key, vector in await cursor.fetchall()
            if len(vector) == self._size
        }

    async def write(self, connection: Connection, embeddings: Mapping[bytes, FloatArray]) -> None:
        """Keep embeddings; the oldest make room for them."""
        if not embeddings:
            return
        cursor = await connection.execute(b"SELECT nextval('embedding_clock')", prepare=True)
        found: Any = await cursor.fetchone()
        clock = int(found[0])
        for key in sorted(embeddings):
            await connection.execute(
                b"INSERT INTO embeddings (key, vector, used) VALUES (%b, %b, %b::bigint) ON CONFLICT DO NOTHING",
                (key, embeddings[key].astype("<f4").tobytes(), clock),
                prepare=True,
            )
        # Counting reads the whole index, so it is done for one write in some sixty, or for a large one. A digest says
        # for which: roles that write in turns share the clock, and some of its numbers would never come to one of them.
        if len(embeddings) > _SELDOM or next(iter(embeddings))[-1] % _SELDOM == 0:
            await self._trim(connection)

    async def _trim(self, connection: Connection) -> None:
        cursor = await connection.execute(b"SELECT count(*) FROM embeddings WHERE owner = current_user")
        found: Any = await cursor.fetchone()
        over = int(found[0]) - self._capacity
        if over > 0:
            oldest = await connection.execute(
                b"SELECT key FROM embeddings WHERE owner = current_user ORDER BY used LIMIT %b::bigint",
                (over + self._capacity // 20,),
            )
            await self._remove(connection, [bytes(key) for (key,) in await oldest.fetchall()])

    async def purge(self, connection: Connection, keys: Iterable[bytes]) -> None:
        """Forget embeddings, those of every role that this one may see."""
        wanted = sorted(keys)
        if wanted and self._about.deletes:
            await connection.execute(_PURGE, (wanted,), prepare=True)
        elif wanted:
            await self._remove(connection, wanted)

    async def _remove(self, connection: Connection, keys: Sequence[bytes]) -> None:
        gone = removal.EMBEDDINGS
        await connection.execute(gone.statement(self._about), gone.parameters(keys), prepare=True)
