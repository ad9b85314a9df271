"""Where a benchmark's run makes its tries and keeps its lessons: here, or on a Ray cluster over a PostgreSQL."""

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
"""The schema of a database that benchmark runs keep their lessons in, apart from those of daily use."""


@dataclass(frozen=True, slots=True)
class LessonLocation:
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
                f"the address of a run's lessons is its folder, or a PostgreSQL (postgresql://...), and not"
                f" {redact(self.address)!r}"
            )

    def of(self, log: RunLog) -> LessonLocation:
        """Return the location with the run of an open log."""
        return replace(self, run=log.id)

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


@dataclass(frozen=True, slots=True)
class RunLocation:
    """Where tries are made (``ray`` is None for this process), and the address of the lessons where it is not the run's
    folder.
    """

    ray: RayOptions | None = None
    lessons: str | None = field(default=None, repr=False)

    def check(self, arms: Sequence[ArmName]) -> None:
        """Raise :class:`ConfigurationError` for arms whose lessons the workers could not see, and for want of Ray
        :class:`MissingDependencyError`.
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
        """Return where the lessons of a run in a folder are."""
        return LessonLocation(namespace, folder, self.lessons)

    @contextlib.asynccontextmanager
    async def executor(
        self, setup: WorkerSetup, *, workers: int, models: Mapping[str, ChatModel]
    ) -> AsyncIterator[Executor]:
        """Open the executor. What Ray prints meanwhile goes to standard error: standard output is the results'."""
        if self.ray is None:
            yield LocalExecutor()
            return
        with contextlib.redirect_stdout(sys.stderr):
            async with RayExecutor(setup, workers=workers, models=models, options=self.ray) as executor:
                yield executor


def run_location(options: Mapping[str, Any]) -> RunLocation:
    """Return what the options of ``executor_options`` of the command say."""
    if options["executor"] != "ray":
        return RunLocation(None, options["lessons"])
    load_ray()
    return RunLocation(RayOptions(options["ray_address"], options["ray_working_dir"]), options["lessons"])


def embedder_factory(embedder: Embedder) -> Callable[[], Embedder]:
    """Return what makes an embedder like this one in another process; it can be pickled, as a loaded model can't."""
    if isinstance(embedder, HashingEmbedder):
        return partial(HashingEmbedder, embedder.dim)
    return default_embedder
