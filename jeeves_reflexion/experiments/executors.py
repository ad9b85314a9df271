"""Executors: they make the tries of a batch, in this process or in worker processes.

The interface between an experiment and its executor is one try. The executor recalls, attempts, evaluates, scores and
reflects. The experiment's own process, and no other, writes the try to the journal and stores its lesson at the end of
the batch. So an executor that loses a try half-way has changed nothing, and can make it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, runtime_checkable

from jeeves_reflexion.errors import BudgetExceededError, ConfigurationError
from jeeves_reflexion.events import Event, as_json
from jeeves_reflexion.experiments.arms import Arm, ArmName
from jeeves_reflexion.experiments.journal import Entry, Position
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.models.recorded import recording_at
from jeeves_reflexion.protocols import ChatModel, Evaluator
from jeeves_reflexion.session import Budget, Session, Spend
from jeeves_reflexion.types import JSON, Role, Task, Trial, Usage

LoopFactory: TypeAlias = Callable[[ArmName, int], Reflexion]
"""Makes the loop of an arm and a seed: ``(arm, seed) -> Reflexion``."""


@dataclass(slots=True, eq=False)
class RunBudget:
    """The spending of all tries of a run, and its limit in US dollars."""

    limit: float | None
    spent: Usage

    @property
    def exhausted(self) -> bool:
        """Whether the limit is reached.

        Raises :class:`ConfigurationError` if the limit can't be kept, because the price of a call is unknown.
        """
        if self.limit is None:
            return False
        if self.spent.cost_usd is None:
            raise ConfigurationError(
                "a spending limit needs known prices: give them (bench: --price-in and --price-out; "
                "OpenAIModel: prices=; your own agent or reflector: return an Attempt or a Reflection with its "
                "usage), or drop the limit"
            )
        return self.spent.cost_usd >= self.limit

    def __str__(self) -> str:
        return f"the spending limit of {self.limit} USD is reached: {self.spent.cost_usd or 0.0:.4f} USD are spent"


class RunSpend(Spend):
    """The spending of one task over its trials, which also counts for the whole experiment."""

    def __init__(self, budget: Budget, run: RunBudget) -> None:
        super().__init__(budget)
        self._run = run
        self.stopped = False
        """Whether the experiment's limit refused a call: such a try does not count."""

    def charge(self, role: Role, usage: Usage) -> None:
        """Add the usage of a call to the task and to the experiment."""
        with self.lock:
            super().charge(role, usage)
            self._run.spent += usage

    def check(self) -> None:
        """Raise :class:`BudgetExceededError` if a limit of the task or of the experiment is reached."""
        super().check()
        if self._run.exhausted:
            self.stopped = True
            raise BudgetExceededError("experiment", str(self._run))

    def over(self) -> str:
        """Return which limit of the task is reached, else "". The experiment's limit does not undo a finished try."""
        try:
            super().check()
        except BudgetExceededError as error:
            return str(error)
        return ""


@dataclass(frozen=True, slots=True)
class Job:
    """One try to be made: its position in the experiment, its task, and the earlier trials as its arm sees them."""

    position: Position
    task: Task
    history: Sequence[Trial]
    session_id: str


@dataclass(frozen=True, slots=True)
class Output:
    """A finished try, and the events of its loop."""

    entry: Entry
    events: Sequence[dict[str, JSON]]


@dataclass(frozen=True, slots=True)
class Tools:
    """What a worker makes tries with: the factory of loops, and the scorer if there is one."""

    make_loop: LoopFactory
    scorer: Evaluator | None = None


class WorkerSetup(Protocol):
    """What a worker process needs to make tries as the experiment's own process would.

    It is pickled and sent to every worker process. So it holds names and settings (an agent as ``module:name``, the
    address of a store), but no open files, connections or models.
    """

    def open(self, models: Callable[[str], ChatModel]) -> AbstractAsyncContextManager[Tools]:
        """Open what the loops need, in the worker process.

        ``models`` returns a model by its name at the executor. Its calls go through the experiment's own process, which
        records them and keeps the spending limit.
        """
        ...


@runtime_checkable
class Executor(Protocol):
    """Makes the tries of an experiment."""

    def check(self, arm: Arm, loop: Reflexion) -> None:
        """Raise :class:`ConfigurationError` if this executor can't make tries with the loop."""
        ...

    async def make(
        self, job: Job, loop: Reflexion, scorer: Evaluator | None, budget: RunBudget
    ) -> Output | None:
        """Make a try. Returns None if the experiment's spending limit cut it short: it then does not count."""
        ...


class LocalExecutor:
    """Makes tries in this process."""

    def check(self, arm: Arm, loop: Reflexion) -> None:
        """Accept every loop."""

    async def make(
        self, job: Job, loop: Reflexion, scorer: Evaluator | None, budget: RunBudget
    ) -> Output | None:
        """Make a try."""
        return await make_try(job, loop, scorer, RunSpend(loop.options.budget or Budget(), budget))


async def make_try(job: Job, loop: Reflexion, scorer: Evaluator | None, spend: RunSpend) -> Output | None:
    """Make a try and score it; its lesson stays pending. Returns None if the experiment's limit cut it short."""
    events: list[Event] = []
    for trial in job.history:
        for role, usage in trial.usage.items():
            # For the task alone, not RunSpend.charge: the experiment has counted earlier tries already.
            Spend.charge(spend, role, usage)
    session = Session(id=job.session_id, spend=spend, listener=events.append)
    with recording_at(str(job.position)):
        trial = await loop.trial(job.task, job.history, session, commit=False)
        if spend.stopped:
            return None
        scored = None
        if scorer is not None:
            verdict = await scorer(job.task, trial.attempt)
            scored = replace(verdict, passed=verdict.meets(loop.threshold))
    return Output(Entry(trial, scored), list(map(as_json, events)))
