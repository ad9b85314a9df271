"""Moves a store to another embedder: old vectors serve until all the new ones are there.

Then both change places in one transaction; stores that are open say so at their next call and have to be opened anew.
A folder is moved in one transaction, for which writers wait. In PostgreSQL the new vectors are kept beside the old
ones, so others write meanwhile, and a move that was stopped goes on where it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import anyio.to_thread

from vectorstores._engine import Opened
from vectorstores.address import folder_of
from vectorstores.base import Embedder, StoreUnavailableError
from vectorstores.postgres.address import is_postgres, require_psycopg


@dataclass(frozen=True, slots=True)
class Reembedding:
    """How far a move is: ``done`` of ``total`` chunks have their new vector, in all namespaces."""

    done: int
    total: int


async def reembed(
    url: str | os.PathLike[str],
    *,
    embedder: Embedder,
    batch: int = 256,
    on_progress: Callable[[Reembedding], None] | None = None,
) -> Reembedding:
    """Embed everything in the store at ``url`` with another embedder, and make it the store's own.

    Searches of others go on with the old one meanwhile. In a folder, writes of others wait up to 30 seconds and then
    raise :class:`~vectorstores.StoreUnavailableError`, and a move that was stopped leaves everything as it was. In
    PostgreSQL writes go on, a stopped move is taken up where it was, and one to another embedder is given up for this
    one. ``batch`` texts are embedded at a time;
    ``on_progress`` is called after each. What is embedded is each chunk's ``embed_text``, else its content, also
    where the old vector had been supplied by a caller.

    Raises :class:`~vectorstores.StoreUnavailableError` where there is no store, or when another process moves it
    to a third embedder at the same time, :class:`~vectorstores.EmbeddingError`, and what opening a store raises.
    """
    if isinstance(batch, bool) or not isinstance(batch, int):
        raise TypeError(f"batch must be a whole number, got {batch!r}")
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    told = on_progress or (lambda progress: None)
    address = os.fspath(url)
    target = await anyio.to_thread.run_sync(Opened.by, embedder)
    # One backend does not load the other's library; both have their results from here.
    if is_postgres(address):
        require_psycopg()
        from vectorstores.postgres.move import move_database  # noqa: PLC0415

        return await move_database(address, target, batch, told)
    folder = folder_of(url)
    if folder is None:
        raise StoreUnavailableError(
            f"{address} is no store that can be re-embedded; name a folder or a PostgreSQL database"
        )
    from vectorstores.sqlite_faiss.move import move_folder  # noqa: PLC0415

    return await move_folder(folder, target, batch, told)
