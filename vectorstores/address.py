"""A store by its address."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from vectorstores.base import DEFAULT_INDEXED, Embedder, StoreUnavailableError
from vectorstores.postgres.address import is_postgres, split_schema
from vectorstores.store import Store

_KINDS: Final = "a folder, memory://, postgresql://… or postgresql+embedded:///folder"
# A slip that would else name a folder. One of that name, if there is one, is ./memory:
_HALF: Final = re.compile(r"(memory|postgres(ql)?(\+embedded)?|file):")


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
    a path, ``file:///path``            a folder of this machine; ``~`` is the user's home
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
    scheme, separator, rest = address.partition("://")
    if not separator:
        return _folder(_plain_path(address))
    if scheme == "file":
        return _folder(_path_of(rest))
    if scheme == "memory":
        return None
    if is_postgres(address):
        raise StoreUnavailableError("a PostgreSQL store is in no folder; this needs the path of one")
    raise StoreUnavailableError(f"unknown kind of store {scheme}://; expected {_KINDS}")


def _folder(path: str) -> Path:
    if not path.strip() or "\0" in path:
        raise StoreUnavailableError(f"{path!r} is no address of a store; expected {_KINDS}")
    return Path(path)


def _plain_path(address: str) -> str:
    if address.startswith("file:/"):
        return unquote(address.removeprefix("file:"))
    found = _HALF.match(address)
    if found:
        # Not the address: a password may be in it.
        raise StoreUnavailableError(
            f"an address that begins with {found[0]} goes on with //; expected {_KINDS}"
        )
    try:
        return str(Path(address).expanduser()) if address.startswith("~") else address
    except RuntimeError as error:
        raise StoreUnavailableError(f"{address}: {error}; name the folder by its whole path") from error


def _path_of(rest: str) -> str:
    """Return the path of what follows ``file://`` (RFC 8089)."""
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost"):
        raise StoreUnavailableError(
            f"file://{rest} names the host {host!r}; a folder of this machine is file:///path, with three slashes"
        )
    return unquote(slash + path)
