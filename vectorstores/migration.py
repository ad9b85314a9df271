"""Moves a store to another embedder. Searches use the old vectors until all new ones are written.

Then the new vectors replace the old ones in one transaction. A store that is open elsewhere raises an error at its
next call and must be opened again. A folder is moved in one transaction, for which other writers wait. In PostgreSQL
the new vectors are stored beside the old ones, so others can write meanwhile, and an interrupted move can be resumed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import anyio.to_thread

from vectorstores._checks import check_whole
from vectorstores._engine import Opened
from vectorstores.address import folder_of
from vectorstores.base import Embedder, StoreUnavailableError
from vectorstores.postgres.address import is_postgres, require_psycopg


@dataclass(frozen=True, slots=True)
class Reembedding:
    """The progress of a move: ``done`` of ``total`` chunks, in all namespaces, have their new vector."""

    done: int
    total: int


async def reembed(
    url: str | os.PathLike[str],
    *,
    embedder: Embedder,
    batch: int = 256,
    on_progress: Callable[[Reembedding], None] | None = None,
) -> Reembedding:
    """Embed everything in the store at ``url`` with another embedder, and make that the store's embedder.

    Other searches use the old embedder meanwhile. In a folder, other writes wait up to 30 seconds and then raise
    :class:`~vectorstores.StoreUnavailableError`, and an interrupted move changes nothing. In PostgreSQL other writes
    go on, an interrupted move is resumed, and an unfinished move to another embedder is given up for this one.
    ``batch`` texts are embedded at a time; ``on_progress`` is called after each batch. Each chunk's ``embed_text``,
    or else its content, is embedded, even where a caller had supplied the old vector.

    Raises :class:`~vectorstores.StoreUnavailableError` if there is no store, or if another process is moving it to a
    third embedder, :class:`~vectorstores.EmbeddingError`, and what opening a store raises.
    """
    batch = check_whole("batch", batch)
    report = on_progress or (lambda progress: None)
    address = os.fspath(url)
    target = await anyio.to_thread.run_sync(Opened.by, embedder)
    # Each backend loads its own libraries only, and imports its result type from here.
    if is_postgres(address):
        require_psycopg()
        from vectorstores.postgres.move import move_database  # noqa: PLC0415

        return await move_database(address, target, batch, report)
    folder = folder_of(url)
    if folder is None:
        raise StoreUnavailableError(
            f"{address} is not a store that can be re-embedded; name a folder or a PostgreSQL database"
        )
    from vectorstores.sqlite_faiss.move import move_folder  # noqa: PLC0415

    return await move_folder(folder, target, batch, report)
