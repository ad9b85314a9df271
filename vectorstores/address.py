"""Opening a store by its address, and reading which embedder it was made with."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vectorstores.base import DEFAULT_INDEXED, Embedder, EmbeddingError, StoreUnavailableError
from vectorstores.postgres.address import is_postgres, require_psycopg, split_schema
from vectorstores.store import Store

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

_KINDS: Final = "a folder, memory://, postgresql://… or postgresql+embedded:///folder"
# Mistyped addresses that would otherwise name a folder. A folder of such a name is written ./memory:
_HALF: Final = re.compile(r"(memory|postgres(ql)?(\+embedded)?|file):")
_PAIRS: Final = re.compile(r"(^|\s)(dbname|password)\s*=")


def open_store(
    url: str | os.PathLike[str],
    *,
    embedder: Embedder | None = None,
    namespace: str,
    create: bool = True,
    indexed: Sequence[str] = DEFAULT_INDEXED,
) -> Store:
    """Return the store at an address.

    ==================================  ======================================================================
    ``memory://``                       in this process's memory
    a path                              a folder of this machine; ``~`` is the user's home
    ``postgresql://user@host/db``       PostgreSQL with pgvector (``postgres://`` too); the parameter ``schema``
                                        names another schema than ``vectorstores``: ``…/db?schema=lessons``
    ``postgresql+embedded:///folder``   PostgreSQL in a folder of this machine, started when needed
    ==================================  ======================================================================

    ``indexed`` names the metadata keys by which filters are quick; ``memory://`` ignores it, and in PostgreSQL it is
    fixed when the store is made. The store opens at its first call or by ``async with``; :class:`~vectorstores.Store`
    lists what that raises. Raises :class:`~vectorstores.StoreUnavailableError` for an address of another kind, and
    :class:`~vectorstores.MissingDependencyError`.
    """
    address = os.fspath(url)
    # Each backend loads its own libraries only.
    if is_postgres(address):
        from vectorstores.postgres import PostgresVectorStore  # noqa: PLC0415

        conninfo, schema = split_schema(address)
        return PostgresVectorStore(
            conninfo, embedder=embedder, namespace=namespace, create=create, schema=schema, indexed=indexed
        )
    folder = folder_of(address)
    if folder is not None:
        from vectorstores.sqlite_faiss import FaissVectorStore  # noqa: PLC0415

        return FaissVectorStore(
            folder, embedder=embedder, namespace=namespace, create=create, indexed=indexed
        )
    from vectorstores.memory import InMemoryVectorStore  # noqa: PLC0415

    return InMemoryVectorStore(embedder, namespace=namespace)


def folder_of(url: str | os.PathLike[str]) -> Path | None:
    """Return the folder that an address names, or None for ``memory://``.

    Raises :class:`~vectorstores.StoreUnavailableError` for an address of another kind.
    """
    address = os.fspath(url)
    scheme, separator, _ = address.partition("://")
    if separator and scheme == "memory":
        return None
    if separator and is_postgres(address):
        raise StoreUnavailableError("a PostgreSQL store has no folder; name the path of a folder")
    if separator:
        raise StoreUnavailableError(f"unknown kind of store {scheme}://; expected {_KINDS}")
    if not address.strip() or "\0" in address:
        raise StoreUnavailableError(f"{address!r} is no address of a store; expected {_KINDS}")
    if found := _HALF.match(address):
        # Without the address, which may contain a password.
        raise StoreUnavailableError(f"{found[0]} begins no address of a store; expected {_KINDS}")
    if _PAIRS.search(address):
        raise StoreUnavailableError(f"key=value pairs are for PostgresVectorStore alone; expected {_KINDS}")
    try:
        return Path(address).expanduser() if address.startswith("~") else Path(address)
    except RuntimeError as error:
        raise StoreUnavailableError(f"{address}: {error}; name the folder by its whole path") from error


@dataclass(repr=False, unsafe_hash=True)
class AbsentEmbedder:
    """A stand-in for the embedder that a store was made with: its id, its name, and the length of its vectors.

    With it a store can be listed, counted and pruned on a machine that doesn't have the embedder. Embedding a text
    raises :class:`~vectorstores.EmbeddingError`.
    """

    id: str
    name: str
    dim: int

    def __repr__(self) -> str:
        return self.name

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """Raise :class:`~vectorstores.EmbeddingError`."""
        raise EmbeddingError(
            f"{len(texts)} texts can't be embedded: the store was opened without its embedder, {self!r}"
        )


def origin_of(url: str | os.PathLike[str]) -> AbsentEmbedder | None:
    """Return the embedder of the store at an address; None if there is no store, and for ``memory://``.

    Creates nothing, loads no embedder, and blocks while it reads. Raises :class:`~vectorstores.StoreCorruptError`,
    :class:`~vectorstores.FormatVersionError` and :class:`~vectorstores.StoreUnavailableError`.
    """
    address = os.fspath(url)
    if is_postgres(address):
        require_psycopg()
        from vectorstores.postgres.schema import read_about  # noqa: PLC0415 - optional dependency

        about = read_about(address)
        return None if about is None else _embedder(about)
    folder = folder_of(address)
    if folder is None:
        return None
    from vectorstores.sqlite_faiss import schema  # noqa: PLC0415 - each backend loads its own libraries only
    from vectorstores.sqlite_faiss.database import Database  # noqa: PLC0415
    from vectorstores.sqlite_faiss.folder import DATABASE, check_log  # noqa: PLC0415

    path = folder / DATABASE
    if not path.exists():
        return None
    check_log(path)
    with closing(Database(path)) as database:
        about = database.read(lambda connection: schema.about(connection, path))
    return _embedder(about)


def _embedder(about: Mapping[str, str]) -> AbsentEmbedder:
    return AbsentEmbedder(about["embedder"], about["embedder_name"], int(about["dim"]))
