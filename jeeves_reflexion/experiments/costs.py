"""What an experiment will cost, what it did cost, and a limit to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jeeves_reflexion.errors import BudgetExceededError, ConfigurationError
from jeeves_reflexion.experiments.arms import arm_of
from jeeves_reflexion.experiments.plan import Plan
from jeeves_reflexion.experiments.splitting import split
from jeeves_reflexion.models.openai import Prices
from jeeves_reflexion.session import Budget, Spend
from jeeves_reflexion.types import JSON, NO_USAGE, Role, Task, Usage


@dataclass(frozen=True, slots=True)
class Expected:
    """The tokens that one try is expected to take, its verdict and its reflection included."""

    input_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        if self.input_tokens < 0 or self.output_tokens < 0:
            raise ConfigurationError("expected tokens can't be below 0")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a plan comes to at most: every try of it made, none saved by an early success.

    ``tokens`` and ``cost_usd`` are ``None`` where they are unknown, which is not zero.
    """

    tries: int
    tokens: int | None = None
    cost_usd: float | None = None

    def __str__(self) -> str:
        tokens = "tokens unknown" if self.tokens is None else f"about {self.tokens:,} tokens"
        cost = "cost unknown" if self.cost_usd is None else f"about {self.cost_usd:.2f} USD"
        return f"at most {self.tries} tries, {tokens}, {cost}"

    def as_json(self) -> dict[str, JSON]:
        """Return the estimate as JSON."""
        return {"most_tries": self.tries, "tokens": self.tokens, "cost_usd": self.cost_usd}


def estimate(plan: Plan, tasks: Sequence[Task], expected: Expected | None, prices: Prices | None) -> Estimate:
    """Say what a plan costs at most, from what a try is expected to take and what tokens cost."""
    learning, held_out = split(tasks, plan.holdout, seed=plan.split_seed)
    each = [arm_of(arm).trials(plan.trials) * len(learning) + len(held_out) for arm in plan.arms]
    tries = sum(each) * len(plan.seeds)
    if expected is None:
        return Estimate(tries)
    tokens = tries * (expected.input_tokens + expected.output_tokens)
    cost = None
    if prices is not None:
        cost = prices.cost(tries * expected.input_tokens, tries * expected.output_tokens)
    return Estimate(tries, tokens, cost)


class Purse:
    """What all tries of a run have spent together, and the limit of it in US dollars."""

    def __init__(self, limit: float | None, spent: Usage) -> None:
        self.limit = limit
        self.spent = spent

    @property
    def empty(self) -> bool:
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

    def __init__(self, budget: Budget, purse: Purse) -> None:
        super().__init__(budget)
        self._purse = purse
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
            self._purse.spent += usage

    def check(self) -> None:
        """Raise :class:`BudgetExceededError` if a limit of this run or of the experiment is reached."""
        super().check()
        if self._purse.empty:
            self.stopped = True
            raise BudgetExceededError("experiment", str(self._purse))

    def over(self) -> str:
        """Return which limit of this run is reached; a try that is done counts, whatever the experiment's limit."""
        try:
            super().check()
        except BudgetExceededError as error:
            return str(error)
        return ""
