"""Embeddings that were computed before: by digest, without the texts; the oldest go first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from vectorstores.postgres import removal
from vectorstores.postgres.session import rows

if TYPE_CHECKING:
    from vectorstores.base import FloatArray
    from vectorstores.postgres.session import About, Connection

CAPACITY = 50_000
"""How many embeddings each role keeps."""
_SELDOM: Final = 64
# Owner by owner, since the index begins with it: before PostgreSQL 18 a search by the key alone reads all of it. What
# another writer holds, it is deleting.
PURGE: Final = (
    b"WITH RECURSIVE owners (owner) AS ((SELECT owner FROM embeddings ORDER BY owner LIMIT 1) UNION ALL"
    b" SELECT (SELECT e.owner FROM embeddings e WHERE e.owner > o.owner ORDER BY e.owner LIMIT 1)"
    b" FROM owners o WHERE o.owner IS NOT NULL),"
    b" gone AS MATERIALIZED (SELECT held.owner, held.key"
    b" FROM owners o CROSS JOIN unnest(%b::bytea[]) AS wanted (key) CROSS JOIN LATERAL (SELECT e.owner, e.key"
    b" FROM embeddings e WHERE e.owner = o.owner AND e.key = wanted.key LIMIT 1 FOR UPDATE SKIP LOCKED) AS held)"
    b" DELETE FROM embeddings e USING gone WHERE e.owner = gone.owner AND e.key = gone.key"
)


async def read(connection: Connection, keys: Sequence[bytes], about: About) -> dict[bytes, FloatArray]:
    """Return the embeddings that are known."""
    statement = b"SELECT key, vector FROM embeddings WHERE owner = current_user AND key = ANY(%b::bytea[])"
    return {
        bytes(key): np.frombuffer(vector, dtype="<f4")
        for key, vector in await rows(connection, statement, (list(dict.fromkeys(keys)),))
        if len(vector) == 4 * about.dim
    }


async def write(connection: Connection, embeddings: Mapping[bytes, FloatArray], about: About) -> None:
    """Keep embeddings; the oldest make room for them."""
    if not embeddings:
        return
    keys = sorted(embeddings)
    await connection.execute(
        b"INSERT INTO embeddings (key, vector, used) SELECT given.key, given.vector, nextval('embedding_clock')"
        b" FROM unnest(%b::bytea[], %b::bytea[]) AS given (key, vector) ON CONFLICT DO NOTHING",
        (keys, [embeddings[key].astype("<f4").tobytes() for key in keys]),
        prepare=True,
    )
    # Counting reads the whole index, so it is done for one write in some sixty, or for a large one. A digest says for
    # which: roles that write in turns share the clock, and some of its numbers would never come to one of them.
    if len(keys) > _SELDOM or keys[0][-1] % _SELDOM == 0:
        await _trim(connection, about)


async def _trim(connection: Connection, about: About) -> None:
    own = b"FROM embeddings WHERE owner = current_user"
    ((count,),) = await rows(connection, b"SELECT count(*) " + own)
    if count > CAPACITY:
        oldest = b"SELECT key " + own + b" ORDER BY used LIMIT %b::bigint"
        found = await rows(connection, oldest, (count - CAPACITY + CAPACITY // 20,))
        await _remove(connection, [bytes(key) for (key,) in found], about)


async def purge(connection: Connection, keys: Iterable[bytes], about: About) -> None:
    """Forget embeddings, those of every role that this one may see."""
    wanted = sorted(keys)
    if wanted and about.deletes:
        await connection.execute(PURGE, (wanted,), prepare=True)
    elif wanted:
        await _remove(connection, wanted, about)


async def _remove(connection: Connection, keys: Sequence[bytes], about: About) -> None:
    gone = removal.EMBEDDINGS
    await connection.execute(gone.statement(about), gone.parameters(keys), prepare=True)
