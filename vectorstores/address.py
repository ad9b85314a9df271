"""A store by its address, and what made it, read without its embedder."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
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
# A slip that would else name a folder. One of that name, if there is one, is ./memory:
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
    ``postgresql+embedded:///folder``   PostgreSQL in a folder of this machine, started when it is needed
    ==================================  ======================================================================

    ``indexed`` names the metadata keys whose filters are made quick; ``memory://`` has no use for it, and in
    PostgreSQL they are fixed when the store is made. The store opens at its first call or by ``async with``, and
    raises then what :class:`~vectorstores.Store` says. Raises :class:`~vectorstores.StoreUnavailableError` for an
    address of another kind, and :class:`~vectorstores.MissingDependencyError`.
    """
    address = os.fspath(url)
    # One backend does not load the other's library.
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
    if not separator:
        return _folder(address)
    if scheme == "memory":
        return None
    if is_postgres(address):
        raise StoreUnavailableError("a PostgreSQL store is in no folder; this needs the path of one")
    raise StoreUnavailableError(f"unknown kind of store {scheme}://; expected {_KINDS}")


def _folder(path: str) -> Path:
    if not path.strip() or "\0" in path:
        raise StoreUnavailableError(f"{path!r} is no address of a store; expected {_KINDS}")
    found = _HALF.match(path)
    if found:
        # Not the address: a password may be in it.
        raise StoreUnavailableError(f"{found[0]} begins no address of a store; expected {_KINDS}")
    if _PAIRS.search(path):
        raise StoreUnavailableError(f"key=value pairs are for PostgresVectorStore alone; expected {_KINDS}")
    try:
        return Path(path).expanduser() if path.startswith("~") else Path(path)
    except RuntimeError as error:
        raise StoreUnavailableError(f"{path}: {error}; name the folder by its whole path") from error


@dataclass(frozen=True, slots=True)
class Origin:
    """The embedder that a store was made with: its id, how it called itself, the length of its vectors."""

    embedder_id: str
    embedder_name: str
    dim: int


def origin_of(url: str | os.PathLike[str]) -> Origin | None:
    """Return what made the store at an address; None where there is no store, and for ``memory://``.

    Creates nothing, and loads no library but PostgreSQL's driver for a store there; blocks while it reads.
    Raises :class:`~vectorstores.StoreCorruptError`,
    :class:`~vectorstores.FormatVersionError` and :class:`~vectorstores.StoreUnavailableError`.
    """
    address = os.fspath(url)
    if is_postgres(address):
        require_psycopg()
        from vectorstores.postgres.schema import read_about  # noqa: PLC0415 - optional dependency

        about = read_about(address)
        return None if about is None else Origin(about["embedder"], about["embedder_name"], int(about["dim"]))
    folder = folder_of(address)
    if folder is None:
        return None
    from vectorstores.sqlite_faiss import schema  # noqa: PLC0415 - one backend does not load the other's library
    from vectorstores.sqlite_faiss.database import Database  # noqa: PLC0415
    from vectorstores.sqlite_faiss.folder import DATABASE, check_log  # noqa: PLC0415

    path = folder / DATABASE
    if not path.exists():
        return None
    check_log(path)
    with closing(Database(path)) as database:
        said = database.read(lambda connection: schema.about(connection, path))
    return Origin(said["embedder"], said["embedder_name"], int(said["dim"]))


class AbsentEmbedder:
    """Stands for the embedder that a store was made with, where nothing will be embedded.

    With it a store can be listed, counted and weeded on a machine that doesn't have the embedder. Embedding
    a text raises :class:`~vectorstores.EmbeddingError`.
    """

    def __init__(self, origin: Origin) -> None:
        self._origin = origin

    def __repr__(self) -> str:
        return self._origin.embedder_name

    @property
    def id(self) -> str:
        """The id that the store names."""
        return self._origin.embedder_id

    @property
    def dim(self) -> int:
        """The length of a vector that the store names."""
        return self._origin.dim

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """Raise :class:`~vectorstores.EmbeddingError`."""
        raise EmbeddingError(
            f"{len(texts)} texts can't be embedded: the store was opened without its embedder, {self!r}"
        )
