"""Where the arms of a run keep their lessons: in the run's folder, or in a PostgreSQL that other machines see too."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.runlog import RunLog
from jeeves_reflexion.lessons.records import INDEXED
from jeeves_reflexion.redaction import redact
from vectorstores import Embedder, FaissVectorStore, VectorStore, VectorStoreError, open_store
from vectorstores.store import Store

SCHEMA: Final = "jeeves_bench"
"""The schema of a database that benchmark runs keep their lessons in, apart from those of daily use."""


@dataclass(frozen=True, slots=True)
class LessonPlace:
    """Where a run keeps its lessons: a namespace for each arm and seed.

    ``address`` is None for a folder ``lessons`` in the run's own, else that of a PostgreSQL, in which ``run`` keeps the
    namespaces of runs apart. It can be pickled, and opened in another process.
    """

    namespace: str
    folder: Path
    address: str | None = field(default=None, repr=False)
    run: str = ""

    def __post_init__(self) -> None:
        known = ("postgresql://", "postgres://", "postgresql+embedded://")
        if self.address is not None and not self.address.startswith(known):
            raise ConfigurationError(
                f"the place of a run's lessons is its folder, or a PostgreSQL (postgresql://...), and not"
                f" {redact(self.address)!r}"
            )

    def of(self, log: RunLog) -> LessonPlace:
        """Return the place with the run of an open log."""
        return LessonPlace(self.namespace, self.folder, self.address, log.id)

    def store(self, embedder: Embedder) -> Store:
        """Return the store, to be opened by ``async with``; raises :class:`ConfigurationError`."""
        if self.address is None:
            return FaissVectorStore(self.folder / "lessons", embedder=embedder, namespace=self.namespace)
        address = self.address
        if "schema=" not in address.partition("?")[2]:
            address += ("&" if "?" in address else "?") + f"schema={SCHEMA}"
        try:
            return open_store(address, embedder=embedder, namespace=self.namespace, indexed=INDEXED)
        except VectorStoreError as error:
            raise ConfigurationError(str(error)) from error

    def scope(self, store: VectorStore, arm: ArmName, seed: int) -> VectorStore:
        """Return the store of an arm and a seed."""
        name = f"{arm}-{seed}"
        return store.scoped(name if self.address is None else f"{self.namespace}-{self.run}-{name}")
