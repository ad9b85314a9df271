"""Opens task notes at an address: a file, a folder, a lesson store, or PostgreSQL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import platformdirs

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.tasknotes import (
    InMemoryReflectionStore,
    SqliteReflectionStore,
    VersionedReflectionStore,
)
from vectorstores import HashingEmbedder, Store, open_store, origin_of

SCHEMA: Final = "task_notes"
_POSTGRES: Final = ("postgresql://", "postgres://", "postgresql+embedded://")
# Notes are not embedded, but a new store needs an embedder; this one costs nothing.
_NO_VECTORS: Final = 8


class _AddressedStore(VersionedReflectionStore):
    """Task notes in a vector store, which is opened on first use because that may take a while."""

    def __init__(self, address: str, namespace: str, *, create: bool) -> None:
        self._address = address
        self._namespace = namespace
        self._create = create
        self._store: Store | None = None
        self._lock = anyio.Lock()

    async def _opened(self) -> Store:
        async with self._lock:
            if self._store is None:
                origin = await anyio.to_thread.run_sync(origin_of, self._address)
                embedder = origin or HashingEmbedder(_NO_VECTORS)
                self._store = open_store(
                    self._address, embedder=embedder, namespace=self._namespace, create=self._create
                )
            return self._store

    async def close(self) -> None:
        if self._store is not None:
            self.records = self._store
            await super().close()


class PostgresReflectionStore(_AddressedStore):
    """Task notes in PostgreSQL, shared by many machines; asyncio only, as psycopg is.

    ``address`` is ``postgresql://…`` (or ``postgresql+embedded:///folder``). The notes have a schema of their own,
    ``task_notes``, unless the address names another; the schema of a lesson store will do. Needs the extra
    ``postgres``.
    """

    def __init__(self, address: str, *, namespace: str, create: bool = True) -> None:
        if not address.startswith(_POSTGRES):
            raise ConfigurationError(
                "PostgresReflectionStore needs an address such as postgresql://user@host/db"
            )
        if "schema=" not in address:
            address += f"{'&' if '?' in address else '?'}schema={SCHEMA}"
        super().__init__(address, namespace, create=create)


def default_notes_place() -> str:
    """Return the place in ``JEEVES_NOTES``, else a file in the user's data directory."""
    named = os.environ.get("JEEVES_NOTES")
    return named or str(platformdirs.user_data_path("jeeves-reflexion") / "notes.sqlite3")


def open_notes(
    place: str | os.PathLike[str] | None = None, *, namespace: str, create: bool = True
) -> VersionedReflectionStore:
    """Open a store of task notes: ``postgresql://…``, ``memory://``, a lesson store's folder, a file or the default.

    A folder that holds a lesson store is that; in any other the file is ``notes.sqlite3``. With ``create=False`` a
    place that is missing is an error. What can't be opened raises :class:`ReflectionStoreError` at the first call.
    """
    address = os.fspath(place) if place is not None else default_notes_place()
    if address.startswith(_POSTGRES):
        return PostgresReflectionStore(address, namespace=namespace, create=create)
    if address == "memory://":
        return InMemoryReflectionStore()
    path = Path(address.removeprefix("file://"))
    if (path / "store.sqlite3").exists():
        return _AddressedStore(str(path), namespace, create=create)
    if path.is_dir():
        path /= "notes.sqlite3"
    return SqliteReflectionStore(path, namespace=namespace, create=create)
