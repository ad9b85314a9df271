"""Where a benchmark's run makes its tries, as a command line says it: in its own process, or on a Ray cluster."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.experiments.arms import ArmName, arm_of
from jeeves_reflexion.experiments.executors import Executor, Kit, LocalExecutor
from jeeves_reflexion.experiments.lesson_place import LessonPlace
from jeeves_reflexion.experiments.ray.executor import RayExecutor, RayOptions
from jeeves_reflexion.experiments.ray.messages import load_ray
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.types import JSON
from vectorstores import Embedder, HashingEmbedder
from vectorstores.embedders import default_embedder


@dataclass(frozen=True, slots=True)
class RunsOn:
    """Where tries are made (``ray`` is None for this process), and the address of the lessons where it is not the run's
    folder.
    """

    ray: RayOptions | None = None
    lessons: str | None = field(default=None, repr=False)

    def check(self, arms: Sequence[ArmName]) -> None:
        """Raise :class:`ConfigurationError` for arms whose lessons the workers could not see, and for want of Ray
        :class:`MissingDependencyError`.
        """
        if self.ray is not None:
            load_ray()
        learning = [arm for arm in arms if arm_of(arm).learns]
        if self.ray is not None and self.lessons is None and learning:
            raise ConfigurationError(
                f"--executor ray: lessons of the arms {', '.join(learning)} must be where every worker sees them:"
                " name a database with --lessons postgresql://..."
            )

    def place(self, namespace: str, folder: Path) -> LessonPlace:
        """Return where the lessons of a run in a folder are."""
        return LessonPlace(namespace, folder, self.lessons)

    @contextlib.asynccontextmanager
    async def executor(
        self, kit: Kit, *, workers: int, models: Mapping[str, ChatModel]
    ) -> AsyncIterator[Executor]:
        """Open the executor. What Ray prints meanwhile goes to standard error: standard output is the results'."""
        if self.ray is None:
            yield LocalExecutor()
            return
        with contextlib.redirect_stdout(sys.stderr):
            async with RayExecutor(kit, workers=workers, models=models, options=self.ray) as executor:
                yield executor


def runs_on(options: Mapping[str, Any]) -> RunsOn:
    """Return what the options of ``executor_options`` of the command say."""
    return RunsOn(ray_options(options), options["lessons"])


def ray_options(options: Mapping[str, Any]) -> RayOptions | None:
    """Return the cluster that ``cluster_options`` of the command name, if any."""
    if options["executor"] != "ray":
        return None
    load_ray()
    return RayOptions(options["ray_address"], options["ray_working_dir"])


class AbsentModel:
    """Stands in a kit for a model that is asked by the experiment's own process."""

    supports_tools = False

    def __init__(self, name: str) -> None:
        self.name = name

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, JSON] | None = None,
        sampling: Sampling | None = None,
    ) -> Completion:
        """Raise: nobody is there."""
        raise ConfigurationError(f"the model {self.name} is not in this process")


def maker_of(embedder: Embedder) -> Callable[[], Embedder]:
    """Return what makes an embedder like this one in another process; it can be pickled, as a loaded model can't."""
    if isinstance(embedder, HashingEmbedder):
        return partial(HashingEmbedder, embedder.dim)
    return default_embedder
