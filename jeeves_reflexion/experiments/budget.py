"""What all tries of an experiment spend together, and the limit of it."""

from __future__ import annotations

from jeeves_reflexion.errors import BudgetExceededError, ConfigurationError
from jeeves_reflexion.session import Budget, Spend
from jeeves_reflexion.types import NO_USAGE, Role, Usage


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
