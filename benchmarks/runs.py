"""One run of a benchmark's experiment: its setting, and what makes its tries, here and in worker processes on Ray."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from jeeves_reflexion import ChatModel, LessonSettings, ScriptedModel, Task
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

MODEL: Final = "model"

OpenTools: TypeAlias = Callable[[Any, LessonLocation, VectorStore], AbstractAsyncContextManager[Tools]]
"""Opens what tries are made with, from a setting, where its lessons are, and their store."""


@dataclass(frozen=True, slots=True)
class RunSetting:
    """What the runs of all benchmarks are made with; each adds its tasks and how they are tried.

    ``resume`` goes on with the run in ``out``. ``prices`` and ``expected`` are for the estimate of what a run with a
    model costs; ``runs_on`` says where the tries are made.
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
    """What makes the tries of a run in other processes.

    ``setting`` has stand-ins for model and embedder on its way.
    """

    setting: RunSetting
    place: LessonLocation
    open_tools: OpenTools
    make_embedder: Callable[[], Embedder]

    @classmethod
    def of(cls, setting: RunSetting, place: LessonLocation, open_tools: OpenTools) -> Setup:
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
    setting: RunSetting,
    tasks: Sequence[Task],
    config: Mapping[str, JSON],
    open_tools: OpenTools,
    *,
    title: str,
    say: Callable[[str], None],
    watcher: Watcher | None = None,
) -> Results:
    """Say what a run takes at most, play it where the setting says, and write its report.

    ``config`` is what must be the same to go on with it; its name of the benchmark is that of the lessons' namespace.
    The model's replies are recorded in the run's log.
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
