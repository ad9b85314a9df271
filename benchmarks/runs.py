"""One run of a benchmark's experiment: its setting, and the tools for its tries, here and in Ray's worker processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import anyio

from jeeves_reflexion import ChatModel, LessonSettings, ScriptedModel, Task
from jeeves_reflexion.callables import side_by_side
from jeeves_reflexion.experiments import (
    Expected,
    Plan,
    Results,
    RunLog,
    Tools,
    Watcher,
    estimate,
    run_experiment,
)
from jeeves_reflexion.experiments.location import LessonLocation, RunLocation, embedder_factory
from jeeves_reflexion.models import Prices
from jeeves_reflexion.summary import counted
from vectorstores import JSON, Embedder, HashingEmbedder, VectorStore

from .report import write_run_report

T = TypeVar("T")
MODEL: Final = "model"

OpenTools: TypeAlias = Callable[[Any, LessonLocation, VectorStore], AbstractAsyncContextManager[Tools]]
"""Opens the tools for tries, given a setting, the location of its lessons, and their store."""


async def some_at_a_time(calls: Sequence[Callable[[], Awaitable[T]]], workers: int) -> list[T]:
    """Make the calls, at most ``workers`` at a time, and return their results in order.

    The first error cancels the other calls and is raised.
    """
    limiter = anyio.CapacityLimiter(workers)

    async def limited(call: Callable[[], Awaitable[T]]) -> T:
        async with limiter:
            return await call()

    return await side_by_side([partial(limited, call) for call in calls])


@dataclass(frozen=True, slots=True)
class RunSetting:
    """What the settings of all benchmarks share; each benchmark adds its tasks and how they are tried.

    ``resume`` continues the run in ``out``. ``prices`` and ``expected`` serve to estimate the cost of a run with a
    model; ``runs_on`` says where the tries are made.
    """

    plan: Plan
    out: Path
    embedder: Embedder
    model: ChatModel | None = None
    resume: bool = False
    settings: LessonSettings = field(default_factory=LessonSettings)
    prices: Prices | None = None
    expected: Expected | None = None
    runs_on: RunLocation = field(default_factory=RunLocation)

    def __post_init__(self) -> None:
        self.runs_on.check(self.plan.arms)


@dataclass(frozen=True, slots=True)
class Setup:
    """Opens the tools for a run's tries in other processes; ``setting`` has stand-ins for model and embedder."""

    setting: RunSetting
    place: LessonLocation
    open_tools: OpenTools
    make_embedder: Callable[[], Embedder]

    @classmethod
    def of(cls, setting: RunSetting, place: LessonLocation, open_tools: OpenTools) -> Setup:
        """Make the setup of a run."""
        model = None if setting.model is None else ScriptedModel((), name=setting.model.name)
        bare = replace(setting, model=model, embedder=HashingEmbedder(), runs_on=RunLocation())
        return cls(bare, place, open_tools, embedder_factory(setting.embedder))

    @asynccontextmanager
    async def open(self, models: Callable[[str], ChatModel]) -> AsyncIterator[Tools]:
        """Open the lessons and the tools."""
        model = None if self.setting.model is None else models(MODEL)
        setting = replace(self.setting, model=model, embedder=self.make_embedder())
        async with (
            self.place.store(setting.embedder) as store,
            self.open_tools(setting, self.place, store) as tools,
        ):
            yield tools


async def play(
    setting: RunSetting,
    tasks: Sequence[Task],
    config: Mapping[str, JSON],
    open_tools: OpenTools,
    *,
    title: str,
    say: Callable[[str], None],
    watcher: Watcher | None = None,
) -> Results:
    """Print an estimate of a run, play it where the setting says, and write its report.

    A run can be resumed only with the same ``config``, whose ``benchmark`` is also the namespace of the lessons. The
    model's replies are recorded in the run's log.
    """
    plan = setting.plan
    log = RunLog(setting.out)
    await log.open(config, resume=setting.resume)
    try:
        most = estimate(plan, tasks, setting.expected, setting.prices)
        say(f"{counted(len(tasks), 'task')}: {most}")
        models = {} if setting.model is None else {MODEL: await log.recorded(setting.model)}
        here = replace(setting, model=models.get(MODEL))
        place = setting.runs_on.lesson_location(str(config["benchmark"]), setting.out).of(log)
        setup = Setup.of(setting, place, open_tools)
        async with (
            place.store(setting.embedder) as store,
            open_tools(here, place, store) as tools,
            setting.runs_on.executor(setup, workers=plan.workers, models=models) as executor,
        ):
            results = await run_experiment(
                plan,
                tasks,
                tools.make_loop,
                log=log,
                watcher=watcher,
                scorer=tools.scorer,
                executor=executor,
            )
    finally:
        log.close()
    await write_run_report(results, setting.out, title=title)
    return results
