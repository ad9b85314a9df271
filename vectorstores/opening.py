"""A store by its address."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from vectorstores._pg.address import is_postgres, split_schema
from vectorstores.base import DEFAULT_INDEXED, Embedder, StoreUnavailableError
from vectorstores.store import Store

_KINDS = "a folder, memory://, postgresql://… or postgresql+embedded:///folder"


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
    a path, ``file:///path``            a folder of this machine, with FAISS
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
        from vectorstores.faiss import FaissVectorStore  # noqa: PLC0415

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
    scheme, separator, rest = address.partition("://")
    if not separator or scheme == "file":
        path = _path_of(rest) if separator else address
        if not path:
            raise StoreUnavailableError(f"the address of the store is empty; expected {_KINDS}")
        return Path(path)
    if scheme == "memory":
        return None
    if is_postgres(address):
        raise StoreUnavailableError("a PostgreSQL store is in no folder of FAISS; this needs the path of one")
    raise StoreUnavailableError(f"unknown kind of store {scheme}://; expected {_KINDS}")


def _path_of(rest: str) -> str:
    """Return the path of what follows ``file://`` (RFC 8089)."""
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost"):
        raise StoreUnavailableError(
            f"file://{rest} names the host {host!r}; a folder of this machine is file:///path, with three slashes"
        )
    return unquote(slash + path)
