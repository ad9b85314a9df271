"""A store in PostgreSQL with pgvector, shared by any number of machines.

A call is one transaction. A call whose connection is lost is retried for some 30 s. If the connection is lost during
the commit, a write that can't be made twice raises an error that says that its outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from vectorstores._checks import check_indexed, check_namespace
from vectorstores.base import DEFAULT_INDEXED, Embedder
from vectorstores.postgres.address import DEFAULT_SCHEMA, PostgresOptions, require_psycopg
from vectorstores.store import Store

__all__ = ["PostgresOptions", "PostgresVectorStore"]


class PostgresVectorStore(Store):
    """Chunks and records in one schema of a PostgreSQL database, version 14 or newer with pgvector 0.8 or newer.

    ``conninfo`` is an address (``postgresql://user:password@host/database``) or libpq's ``key=value`` pairs;
    ``postgresql+embedded:///folder`` starts a server in a folder of this machine. ``schema`` holds the tables,
    which are made when they are missing and ``create`` is set. ``indexed`` names the metadata keys whose
    filters get an index. An existing store keeps the keys that it was made with; filters by other keys are correct but
    read every chunk of the namespace. ``embedder=None`` takes all-MiniLM-L6-v2, or
    :class:`~vectorstores.HashingEmbedder`, with a warning, if no extra that can run it is installed.

    A search compares all chunks if the filter and the namespace admit a small part of the table, and otherwise walks
    an HNSW index (Malkov, Yashunin 2018, arXiv:1603.09320) until enough admitted chunks are found. Vectors above 2,000
    dimensions are indexed at half precision, above 4,000 not at all.

    PostgreSQL can't hold the character NUL: a chunk or record with one raises
    :class:`~vectorstores.InvalidChunkError`. Ids and keys have at most 1,500 bytes, namespaces and collections
    500; metadata may have any length, also under indexed keys.

    Runs on asyncio only, since psycopg does, with a pool of connections per event loop. Settings belong to a
    connection, so PgBouncer must pool sessions, not transactions. Opens at the first call or by ``async with``,
    which raise

    - :class:`~vectorstores.StoreUnavailableError`: no server, no right, no pgvector (the message names the
      statement that an administrator must run), no store and ``create=False``, another event loop than asyncio's;
      later also a pool that stays exhausted, and a server that stays away;
    - :class:`~vectorstores.EmbedderMismatchError`; later also at the next call that uses vectors after the store
      was re-embedded;
    - :class:`~vectorstores.FormatVersionError`, :class:`~vectorstores.StoreCorruptError`.

    Raises :class:`~vectorstores.MissingDependencyError` without psycopg.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        embedder: Embedder | None = None,
        namespace: str,
        create: bool = True,
        schema: str = DEFAULT_SCHEMA,
        indexed: Sequence[str] = DEFAULT_INDEXED,
        options: PostgresOptions | None = None,
    ) -> None:
        require_psycopg()
        from vectorstores.postgres._engine import PostgresEngine  # noqa: PLC0415 - optional dependency

        self._postgres = PostgresEngine(
            conninfo,
            schema,
            embedder,
            indexed=check_indexed(indexed),
            create=create,
            options=options or PostgresOptions(),
        )
        super().__init__(self._postgres, _holdable(namespace))

    def scoped(self, namespace: str) -> PostgresVectorStore:
        """Return a view of the same store in another namespace; closing the view leaves the store open."""
        view = PostgresVectorStore.__new__(PostgresVectorStore)
        Store.__init__(view, self._engine, _holdable(namespace), owner=False)
        view._postgres = self._postgres  # noqa: SLF001 - the same class
        return view

    async def secure(self, role: str, namespaces: Sequence[str]) -> None:
        """Let a role of the database see and write only these namespaces, by row-level security.

        The caller is the owner of the tables, who still sees everything. A store opened with the role's address works
        as usual, but another namespace is empty for it and can't be written, whatever statement the role sends.
        ``docs/postgresql-roles.md`` says what it can learn about others, and what it can slow down.
        ``namespaces=[]`` takes all its rights. If the role loses something, its sessions are ended.
        Raises :class:`~vectorstores.StoreUnavailableError` without the right to do so, or to end the role's sessions
        (its rights are changed then), for a role that does not exist, and for one that no policy binds (a superuser,
        one with BYPASSRLS, the tables' owner, a member of these, or one with more rights through a group or PUBLIC).
        """
        if isinstance(namespaces, str):
            raise TypeError("namespaces must be a sequence of namespaces, not one string")
        scopes = [_holdable(check_namespace(namespace)) for namespace in namespaces]
        await self._open()
        await self._postgres.secure(role, scopes)


def _holdable(namespace: str) -> str:
    if isinstance(namespace, str) and ("\0" in namespace or len(namespace.encode(errors="replace")) > 500):
        raise ValueError(f"namespace {namespace!r:.80}: in PostgreSQL at most 500 bytes, without NUL")
    return namespace
