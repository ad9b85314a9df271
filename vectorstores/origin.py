"""What made a store, read from the store itself, without an embedder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vectorstores.address import folder_of
from vectorstores.base import EmbeddingError
from vectorstores.postgres.address import is_postgres, require_psycopg
from vectorstores.sqlite_faiss import schema
from vectorstores.sqlite_faiss.database import Database
from vectorstores.sqlite_faiss.folder import DATABASE

if TYPE_CHECKING:
    from vectorstores.base import FloatArray


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
        return _postgres_origin(address)
    folder = folder_of(address)
    if folder is None or not (folder / DATABASE).exists():
        return None
    path = folder / DATABASE
    with closing(Database(path)) as database:
        said = database.read(lambda connection: schema.about(connection, path))
    return Origin(said["embedder"], said["embedder_name"], int(said["dim"]))


def _postgres_origin(address: str) -> Origin | None:
    require_psycopg()
    from vectorstores.postgres.about import read_about  # noqa: PLC0415 - optional dependency

    said = read_about(address)
    return None if said is None else Origin(said["embedder"], said["embedder_name"], int(said["dim"]))


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
