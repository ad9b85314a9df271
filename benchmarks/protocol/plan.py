"""The runs and the hypotheses, fixed before any run with a real model."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final, Literal, TypeAlias

from jeeves_reflexion import Task
from jeeves_reflexion.experiments import ArmName, Estimate, Expected, Plan, Split, estimate
from jeeves_reflexion.models.prices import Prices

from ..report import table

Benchmark: TypeAlias = Literal["humaneval", "hotpotqa", "alfworld", "transfer"]
Family: TypeAlias = Literal["primary", "secondary"]

LEVEL: Final = 0.05
POWER: Final = 0.8


@dataclass(frozen=True, slots=True)
class Run:
    """One benchmark: ``n`` tasks, and how they are played.

    ``calls`` and ``each`` are the average cost of a try with its verdict and reflection (docs/protocol.md has the
    sources). ``options`` are those of the benchmark's command.
    """

    benchmark: Benchmark
    tasks: str
    n: int
    plan: Plan
    limits: str
    options: tuple[str, ...]
    calls: int
    each: Expected

    def result(self, out: Path) -> dict[str, Any] | None:
        """Return ``results.json`` from its folder below the protocol's, or None if there is none yet."""
        file = out / self.benchmark / "results.json"
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    def done(self, out: Path) -> bool:
        """Return whether it was finished."""
        found = self.result(out)
        return found is not None and bool(found["complete"])

    def spent(self, out: Path) -> float:
        """Return the cost of its finished parts in US dollars; unknown costs count as 0."""
        found = self.result(out) or {"costs": {}}
        return sum(cost["cost_usd"] or 0.0 for cost in found["costs"].values())

    def estimate(self, prices: Prices | None) -> Estimate:
        """Return the most that it can take."""
        return estimate(self.plan, [Task(str(n)) for n in range(self.n)], self.each, prices)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """That the second arm solves more tasks than the first by the last trial, or at the first try of held-out tasks."""

    family: Family
    benchmark: Benchmark
    first: ArmName
    second: ArmName
    split: Split = "learning"

    def __str__(self) -> str:
        where = " on held-out tasks, first try" if self.split == "held-out" else ""
        return f"{self.benchmark}{where}: {self.second} above {self.first}"


_ARMS: Final[tuple[ArmName, ...]] = ("retry", "last-attempt", "reflexion", "selective")
_MORE: Final[tuple[ArmName, ...]] = (
    *_ARMS,
    "irrelevant",
    "tabu-retry",
)  # of HumanEval all is of one kind, and one action
_TURNS: Final = ("--step-limit", "50", "--repeats", "3")
_GAME: Final = Expected(80_000, 1_500)

RUNS: Final = (
    Run(
        "humaneval",
        "all problems of HumanEval",
        164,
        Plan(_ARMS, trials=4, seeds=(0, 1, 2), k=3, judged_by="self"),
        "hidden tests 10 s, an own test 1 s, six own tests",
        ("--judge", "self", "--tests", "model", "--temperature", "0.2"),
        3,
        Expected(1_500, 500),
    ),
    Run(
        "hotpotqa",
        "the first questions of hotpot_dev_distractor_v1.json",
        500,
        Plan(_MORE, trials=4, seeds=(0, 1, 2), k=5, holdout=0.4),
        "six steps, prompts of 3,896 tokens",
        ("--judge", "oracle", "--holdout", "0.4"),
        5,
        Expected(4_500, 250),
    ),
    Run(
        "alfworld",
        "all games of valid_unseen, as in the paper",
        134,
        Plan(_MORE, trials=6, seeds=(0,), k=3),
        "50 turns, thoughts among them; ended by a command repeated 3 times with one answer",
        _TURNS,
        50,
        _GAME,
    ),
    Run(
        "transfer",
        "all games of valid_seen; half of the rooms is held out",
        140,
        Plan(("retry", "selective", "irrelevant"), trials=3, seeds=(0, 1), k=3, holdout=0.5),
        "as alfworld",
        (*_TURNS, "--holdout", "0.5"),
        50,
        _GAME,
    ),
)

_PAPERS: Final[tuple[Benchmark, ...]] = ("humaneval", "hotpotqa", "alfworld")
HYPOTHESES: Final = (
    *(Hypothesis("primary", name, "retry", "reflexion") for name in _PAPERS),
    *(Hypothesis("primary", name, "last-attempt", "reflexion") for name in _PAPERS),
    *(Hypothesis("secondary", name, "reflexion", "selective") for name in _PAPERS),
    Hypothesis("secondary", "hotpotqa", "tabu-retry", "reflexion"),
    Hypothesis("secondary", "alfworld", "tabu-retry", "reflexion"),
    Hypothesis("secondary", "hotpotqa", "irrelevant", "selective"),
    Hypothesis("secondary", "alfworld", "irrelevant", "selective"),
    Hypothesis("secondary", "hotpotqa", "retry", "selective", "held-out"),
    Hypothesis("secondary", "hotpotqa", "irrelevant", "selective", "held-out"),
    Hypothesis("secondary", "transfer", "retry", "selective", "held-out"),
    Hypothesis("secondary", "transfer", "irrelevant", "selective", "held-out"),
)

# The shares of tasks that the paper's second arm gained and lost against its first, and the source.
_PAPER: Final[dict[Benchmark, tuple[float, float, str]]] = {
    "humaneval": (0.129, 0.020, "80.1 to 91.0 % (table 1, GPT-4); 2 % lost is assumed"),
    "hotpotqa": (0.120, 0.040, "32 to 40 of 100 (log of chain of thought); 4 % lost is assumed"),
    "alfworld": (18 / 134, 1 / 134, "101 to 118 of 134 at trial 6 (logs): 18 games gained, 1 lost"),
}


def power(n: int, gained: float, lost: float, *, level: float = LEVEL) -> float:
    """Return the probability that a two-sided test over ``n`` tasks finds a difference at ``level``.

    Only the second arm succeeds on a share ``gained`` of the tasks, only the first on ``lost``. This is the normal
    formula of a paired difference. It ignores that seeds narrow intervals, which is conservative.
    """
    difference = gained - lost
    error = math.sqrt((gained + lost - difference * difference) / n)
    return NormalDist().cdf(abs(difference) / error - NormalDist().inv_cdf(1 - level / 2))


def detectable(n: int, differing: float, *, level: float = LEVEL) -> float:
    """Return the smallest difference found with a power of 80 % if the arms differ on that share of ``n`` tasks."""
    z = NormalDist().inv_cdf(1 - level / 2) + NormalDist().inv_cdf(POWER)
    return z * math.sqrt(differing / (n + z * z))


def design_table(runs: Sequence[Run] = RUNS) -> str:
    """Return the runs as a table."""
    heads = ("benchmark", "tasks", "arms", "trials", "seeds", "k", "held out", "judged by", "limits")
    return table(heads, map(_design_row, runs))


def _design_row(run: Run) -> tuple[object, ...]:
    plan = run.plan
    arms, seeds, held = ", ".join(plan.arms), ", ".join(map(str, plan.seeds)), f"{plan.holdout:.0%}"
    tasks = f"{run.n}: {run.tasks}"
    return (run.benchmark, tasks, arms, plan.trials, seeds, plan.k, held, plan.judged_by, run.limits)


def power_table() -> str:
    """Return what the primary comparisons can find, at the strictest level of Holm's rule."""
    level = LEVEL / sum(each.family == "primary" for each in HYPOTHESES)
    rows = []
    for run in RUNS[: len(_PAPERS)]:
        n = run.n - round(run.n * run.plan.holdout)
        gained, lost, source = _PAPER[run.benchmark]
        found = [f"{100 * detectable(n, share, level=level):.1f}" for share in (0.1, 0.2, 0.3)]
        rows.append((run.benchmark, n, *found, source, f"{power(n, gained, lost, level=level):.0%}"))
    heads = (
        "benchmark",
        "tasks",
        "10 % differ",
        "20 % differ",
        "30 % differ",
        "the paper's effect",
        "power for it",
    )
    return table(heads, rows)


def estimate_table(runs: Sequence[Run], prices: Prices | None) -> str:
    """Return a table of the most that each run and all of them can take; ``-`` is unknown."""
    found = [(run.benchmark, run.n, run.calls, run.estimate(prices)) for run in runs]
    rows = [_estimate_row(name, n, calls * most.tries, most) for name, n, calls, most in found]
    usd = None if prices is None else sum(most.cost_usd or 0.0 for *_, most in found)
    tries, tokens = sum(most.tries for *_, most in found), sum(most.tokens or 0 for *_, most in found)
    calls = sum(calls * most.tries for _, _, calls, most in found)
    rows.append(_estimate_row("all", sum(run.n for run in runs), calls, Estimate(tries, tokens, usd)))
    return table(("benchmark", "tasks", "tries at most", "calls", "tokens", "USD"), rows)


def _estimate_row(name: str, n: int, calls: int, most: Estimate) -> tuple[object, ...]:
    usd = "-" if most.cost_usd is None else f"{most.cost_usd:,.2f}"
    return (name, n, f"{most.tries:,}", f"{calls:,}", f"{most.tokens:,}", usd)


def played_table(runs: Sequence[Run], out: Path) -> str:
    """Return a table of the tries, those that ended in an error (and so count as not solved), and the cost."""
    rows = []
    for run in runs:
        found = run.result(out) or {"tries": 0, "tries_with_errors": 0, "costs": {}}
        costs = found["costs"].values()
        amounts = [found["tries"], found["tries_with_errors"]]
        amounts += [sum(cost[name] for cost in costs) for name in ("calls", "input_tokens", "output_tokens")]
        usd = "-" if any(cost["cost_usd"] is None for cost in costs) else f"{run.spent(out):,.2f}"
        rows.append((run.benchmark, *(f"{amount:,}" for amount in amounts), usd))
    return table(("benchmark", "tries", "with an error", "calls", "tokens in", "tokens out", "USD"), rows)
