"""A store by its address."""

from __future__ import annotations

import os
from pathlib import Path

from vectorstores.base import Embedder, StoreUnavailableError
from vectorstores.store import Store


def open_store(
    url: str | os.PathLike[str], *, embedder: Embedder | None = None, namespace: str, create: bool = True
) -> Store:
    """Return the store at an address: ``memory://``, or the path of a folder (``file:///path`` too).

    The store opens at its first call or by ``async with``, and raises then what :class:`~vectorstores.Store`
    says. Raises :class:`~vectorstores.StoreUnavailableError` for an address of another kind.
    """
    folder = folder_of(url)
    if folder is not None:
        from vectorstores.faiss import FaissVectorStore  # noqa: PLC0415 - one backend does not load the other's library

        return FaissVectorStore(folder, embedder=embedder, namespace=namespace, create=create)
    from vectorstores.memory import InMemoryVectorStore  # noqa: PLC0415

    return InMemoryVectorStore(embedder, namespace=namespace)


def folder_of(url: str | os.PathLike[str]) -> Path | None:
    """Return the folder that an address names, or None for ``memory://``.

    Raises :class:`~vectorstores.StoreUnavailableError` for an address of another kind.
    """
    address = os.fspath(url)
    scheme, separator, rest = address.partition("://")
    if not separator or scheme == "file":
        path = rest if separator else address
        if not path:
            raise StoreUnavailableError("the address of the store is empty; expected a folder or memory://")
        return Path(path)
    if scheme == "memory":
        return None
    if scheme.startswith("postgres"):
        raise StoreUnavailableError(
            "PostgreSQL stores are not available in this version; use a folder or memory://"
        )
    raise StoreUnavailableError(f"unknown kind of store {scheme}://; expected a folder or memory://")
