"""Where a run makes its tries (in this process, or on a Ray cluster) and keeps its lessons (a folder or PostgreSQL)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.experiments.arms import ArmName, arm_of
from jeeves_reflexion.experiments.executors import Executor, LocalExecutor, WorkerSetup
from jeeves_reflexion.experiments.ray.connection import load_ray
from jeeves_reflexion.experiments.ray.executor import RayExecutor, RayOptions
from jeeves_reflexion.experiments.runlog import RunLog
from jeeves_reflexion.lessons.records import INDEXED
from jeeves_reflexion.protocols import ChatModel
from jeeves_reflexion.redaction import redact
from vectorstores import (
    Embedder,
    FaissVectorStore,
    HashingEmbedder,
    VectorStore,
    VectorStoreError,
    open_store,
)
from vectorstores.embedders import default_embedder
from vectorstores.store import Store

SCHEMA: Final = "jeeves_bench"
"""The database schema for lessons of benchmark runs, apart from those of daily use."""


@dataclass(frozen=True, slots=True)
class LessonLocation:
    """Where a run keeps its lessons, in a namespace for each arm and seed.

    ``address`` is None for the folder ``lessons`` in the run's folder, else the address of a PostgreSQL, where ``run``
    keeps the namespaces of runs apart. A location can be pickled and opened in another process.
    """

    namespace: str
    folder: Path
    address: str | None = field(default=None, repr=False)
    run: str = ""

    def __post_init__(self) -> None:
        known = ("postgresql://", "postgres://", "postgresql+embedded://")
        if self.address is not None and not self.address.startswith(known):
            raise ConfigurationError(
                f"a run keeps its lessons in its own folder or in a PostgreSQL (postgresql://...), not in"
                f" {redact(self.address)!r}"
            )

    def of(self, log: RunLog) -> LessonLocation:
        """Return the location for the run of an open log."""
        return replace(self, run=log.id)

    def store(self, embedder: Embedder) -> Store:
        """Return the store, to be opened with ``async with``. Raises :class:`ConfigurationError`."""
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


@dataclass(frozen=True, slots=True)
class RunLocation:
    """Where tries are made (``ray`` is None for this process), and the lessons' address if not the run's folder."""

    ray: RayOptions | None = None
    lessons: str | None = field(default=None, repr=False)

    def check(self, arms: Sequence[ArmName]) -> None:
        """Raise :class:`ConfigurationError` if the workers could not see the lessons of an arm, and
        :class:`MissingDependencyError` if Ray is needed and missing.
        """
        if self.ray is None:
            return
        load_ray()
        learning = [arm for arm in arms if arm_of(arm).learns]
        if self.lessons is None and learning:
            raise ConfigurationError(
                f"--executor ray: lessons of the arms {', '.join(learning)} must be where every worker sees them:"
                " name a database with --lessons postgresql://..."
            )

    def lesson_location(self, namespace: str, folder: Path) -> LessonLocation:
        """Return where the run in a folder keeps its lessons."""
        return LessonLocation(namespace, folder, self.lessons)

    @contextlib.asynccontextmanager
    async def executor(
        self, setup: WorkerSetup, *, workers: int, models: Mapping[str, ChatModel]
    ) -> AsyncIterator[Executor]:
        """Open the executor. What Ray prints goes to standard error: standard output is for the results."""
        if self.ray is None:
            yield LocalExecutor()
            return
        with contextlib.redirect_stdout(sys.stderr):
            async with RayExecutor(setup, workers=workers, models=models, options=self.ray) as executor:
                yield executor


def run_location(options: Mapping[str, Any]) -> RunLocation:
    """Return the location that the command's ``executor_options`` describe."""
    far = options["executor"] == "ray"
    ray = RayOptions(options["ray_address"], options["ray_working_dir"]) if far else None
    return RunLocation(ray, options["lessons"])


def embedder_factory(embedder: Embedder) -> Callable[[], Embedder]:
    """Return a factory of embedders like this one. Unlike a loaded model, it can be pickled for another process."""
    if isinstance(embedder, HashingEmbedder):
        return partial(HashingEmbedder, embedder.dim)
    return default_embedder
