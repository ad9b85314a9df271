"""Who makes the tries of a batch: this process, or worker processes elsewhere.

The seam between an experiment and its executor is one try. An executor recalls, attempts, judges, scores and reflects;
what it hands back is written down and, at the end of the batch, stored as a lesson by the process that runs the
experiment, and by that one alone. So an executor that loses a try half-way has changed nothing, and makes it again.
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
from jeeves_reflexion.types import JSON, NO_USAGE, Role, Task, Trial, Usage

LoopFactory: TypeAlias = Callable[[ArmName, int], Reflexion]
"""Makes the loop of an arm and a seed: ``(arm, seed) -> Reflexion``."""


class RunBudget:
    """What all tries of a run have spent together, and the limit of it in US dollars."""

    def __init__(self, limit: float | None, spent: Usage) -> None:
        self.limit = limit
        self.spent = spent

    @property
    def exhausted(self) -> bool:
        """Whether the limit is reached.

        Raises :class:`ConfigurationError` where a limit can't be kept, because a call has no known price.
        """
        if self.limit is None:
            return False
        if self.spent.cost_usd is None:
            raise ConfigurationError(
                "a spending limit needs known prices: give them (bench: --price-in and --price-out; "
                "OpenAIModel: prices=; an agent or reflector of your own: return an Attempt or a Reflection with its "
                "usage), or drop the limit"
            )
        return self.spent.cost_usd >= self.limit

    def __str__(self) -> str:
        return f"the spending limit of {self.limit} USD is reached: {self.spent.cost_usd or 0.0:.4f} USD are spent"


class RunSpend(Spend):
    """The spending of one task's run that also counts for the whole experiment."""

    def __init__(self, budget: Budget, run: RunBudget) -> None:
        super().__init__(budget)
        self._run = run
        self.own = NO_USAGE
        """What the try at hand used, without the tries before it."""
        self.stopped = False
        """Whether a call was refused because of the experiment's limit: the try is then none."""

    def recall(self, role: Role, usage: Usage) -> None:
        """Count what an earlier try of the task used, which the experiment has counted already."""
        super().charge(role, usage)

    def charge(self, role: Role, usage: Usage) -> None:
        """Add the usage of a call, here and to the experiment's."""
        with self.lock:
            super().charge(role, usage)
            self.own += usage
            self._run.spent += usage

    def check(self) -> None:
        """Raise :class:`BudgetExceededError` if a limit of this run or of the experiment is reached."""
        super().check()
        if self._run.exhausted:
            self.stopped = True
            raise BudgetExceededError("experiment", str(self._run))

    def over(self) -> str:
        """Return which limit of this run is reached; a try that is done counts, whatever the experiment's limit."""
        try:
            super().check()
        except BudgetExceededError as error:
            return str(error)
        return ""


@dataclass(frozen=True, slots=True)
class Job:
    """One try that is to be made: of which task, which of the experiment, after which trials as its arm sees them."""

    position: Position
    task: Task
    history: Sequence[Trial]
    session_id: str


@dataclass(frozen=True, slots=True)
class Output:
    """A try that was made, and what its loop told meanwhile."""

    entry: Entry
    events: Sequence[dict[str, JSON]]


@dataclass(frozen=True, slots=True)
class Tools:
    """What tries are made with: how the loops are made, and who scores, if anybody does."""

    make_loop: LoopFactory
    scorer: Evaluator | None = None


class WorkerSetup(Protocol):
    """What a worker process needs to make tries as the process that runs the experiment would.

    It is pickled and sent to every worker process, so it holds names and settings (an agent as ``module:name``, the
    address of a store), and no open files, connections or models.
    """

    def open(self, models: Callable[[str], ChatModel]) -> AbstractAsyncContextManager[Tools]:
        """Open what the loops need, in the worker process.

        ``models`` returns a model by the name that the executor knows it by: it is asked through the process that runs
        the experiment, where calls are recorded and the spending limit is kept.
        """
        ...


@runtime_checkable
class Executor(Protocol):
    """Makes the tries of an experiment."""

    def check(self, arm: Arm, loop: Reflexion) -> None:
        """Raise :class:`ConfigurationError` for a loop whose tries can't be made here."""
        ...

    async def make(
        self, job: Job, loop: Reflexion, scorer: Evaluator | None, budget: RunBudget
    ) -> Output | None:
        """Make a try; None where the experiment's spending limit cut it short, so that it is none."""
        ...


class LocalExecutor:
    """Makes tries in this process, with the loop that it is given."""

    def check(self, arm: Arm, loop: Reflexion) -> None:
        """Let every loop pass."""

    async def make(
        self, job: Job, loop: Reflexion, scorer: Evaluator | None, budget: RunBudget
    ) -> Output | None:
        """Make a try."""
        return await make_try(job, loop, scorer, RunSpend(loop.options.budget or Budget(), budget))


async def make_try(job: Job, loop: Reflexion, scorer: Evaluator | None, spend: RunSpend) -> Output | None:
    """Make a try and have it scored; its lesson waits in the trial. None where the spending limit cut it short."""
    events: list[Event] = []
    for trial in job.history:
        for role, usage in trial.usage.items():
            spend.recall(role, usage)
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
