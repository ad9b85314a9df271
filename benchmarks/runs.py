"""One run of a benchmark's experiment: what makes its tries, in this process and in worker processes on Ray."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from jeeves_reflexion import ChatModel, ScriptedModel, Task
from jeeves_reflexion.experiments import Plan, Results, RunLog, Tools, Watcher, run_experiment
from jeeves_reflexion.experiments.location import LessonLocation, RunLocation, embedder_factory
from vectorstores import Embedder, HashingEmbedder, VectorStore

MODEL: Final = "model"

OpenTools: TypeAlias = Callable[[Any, LessonLocation, VectorStore], AbstractAsyncContextManager[Tools]]
"""Opens what tries are made with, from a setting, where its lessons are, and their store."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What makes the tries of a run in other processes.

    ``setting`` is a dataclass with ``model``, ``embedder`` and ``runs_on``, and has stand-ins for these on its way.
    """

    setting: Any
    place: LessonLocation
    open_tools: OpenTools
    make_embedder: Callable[[], Embedder]

    @classmethod
    def of(cls, setting: Any, place: LessonLocation, open_tools: OpenTools) -> Setup:  # noqa: ANN401 - each has its own
        """Return the setup of a run."""
        model = None if setting.model is None else ScriptedModel((), name=setting.model.name)
        bare = replace(setting, model=model, embedder=HashingEmbedder(), runs_on=RunLocation())
        return cls(bare, place, open_tools, embedder_factory(setting.embedder))

    @asynccontextmanager
    async def open(self, models: Callable[[str], ChatModel]) -> AsyncIterator[Tools]:
        """Open the lessons, and what else tries are made with."""
        model = None if self.setting.model is None else models(MODEL)
        setting = replace(self.setting, model=model, embedder=self.make_embedder())
        async with (
            self.place.store(setting.embedder) as store,
            self.open_tools(setting, self.place, store) as tools,
        ):
            yield tools


async def play(
    setting: Any,  # noqa: ANN401 - each benchmark has its own
    plan: Plan,
    tasks: Sequence[Task],
    log: RunLog,
    open_tools: OpenTools,
    *,
    namespace: str,
    watcher: Watcher | None,
) -> Results:
    """Run the plan where the setting says; its model's replies are recorded in the log, which is open."""
    models = {} if setting.model is None else {MODEL: await log.recorded(setting.model)}
    here = replace(setting, model=models.get(MODEL))
    place = setting.runs_on.lesson_location(namespace, setting.out).of(log)
    setup = Setup.of(setting, place, open_tools)
    async with (
        place.store(setting.embedder) as store,
        open_tools(here, place, store) as tools,
        setting.runs_on.executor(setup, workers=plan.workers, models=models) as executor,
    ):
        return await run_experiment(
            plan, tasks, tools.make_loop, log=log, watcher=watcher, scorer=tools.scorer, executor=executor
        )
