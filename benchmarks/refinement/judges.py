"""How steady a judge is, and whether it should be another than the writer (question 7.1 of seed 001)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import anyio

from benchmarks.refinement.figures import NEAR, Mean, mean_of, share_of
from benchmarks.refinement.outcome import Outcome, outcome_of, qualities
from benchmarks.refinement.play import Play, looks, play
from benchmarks.refinement.problem import Problem
from benchmarks.refinement.rates import Rates, first_state
from benchmarks.refinement.record import Record, spread_of
from benchmarks.refinement.spread import Spread
from benchmarks.refinement.tasks import Key, problem_of
from jeeves_reflexion.statistics import Share

JudgeKind: TypeAlias = Literal["self", "elsewhere", "afresh"]

KINDS: dict[JudgeKind, str] = {
    "self": "the writer's model: blind to what the writer got wrong",
    "elsewhere": "another model, as many blind spots, elsewhere",
    "afresh": "another model, as many misses, thrown anew at each look",
}

BLINDNESS = (0.1, 0.2, 0.3, 0.5)
"""With what probability the writer's model can't see a fault that the writer made."""

SELF_RATES = Rates(alarm=0.05, fail=0.05)
"""What else goes wrong in that comparison: nothing breaks on its own, so that first drafts hold all the faults."""

STEADY_ERRORS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1)
STEADY_NOISES = (0.0, 0.01, 0.02, 0.03, 0.05)


@dataclass(frozen=True, slots=True)
class JudgeJob:
    """Runs with one kind of judge; ``miss`` is how often it misses a fault of a first draft (see :func:`blind_to`)."""

    keys: tuple[Key, ...]
    kind: JudgeKind
    miss: float


def records_of_judge(job: JudgeJob) -> list[Record]:
    """Make the runs of a job, one after the other."""
    rates = replace(SELF_RATES, miss=job.miss if job.kind == "afresh" else 0.0)

    async def all_of_them() -> list[Record]:
        problems = [problem_of(key) for key in job.keys]
        return [await play(one, rates, Play(), blind_to(one, job.kind, job.miss)) for one in problems]

    return anyio.run(all_of_them)


def blind_to(problem: Problem, kind: JudgeKind, miss: float) -> frozenset[int]:
    """Return the requirements whose faults a judge never sees in one problem.

    The writer's own model: each that the writer got wrong, with probability ``miss``. Another: as many, anywhere.
    """
    chance = random.Random(f"{problem.id}/blind")
    places = range(len(problem.requirements))
    throws = [chance.random() for _ in places]
    state = first_state(problem, SELF_RATES)
    own = frozenset(place for place in places if not state[place] and throws[place] < miss)
    if kind == "self":
        return own
    return frozenset(chance.sample(places, len(own))) if kind == "elsewhere" else frozenset()


@dataclass(frozen=True, slots=True)
class Compared:
    """The three kinds of judge at one rate of misses; differences are to the writer's own model."""

    miss: float
    outcomes: tuple[Outcome, ...]


def compare_judges(keys: Sequence[Key], spread: Spread) -> list[Compared]:
    """Run the loop with each kind of judge over the same problems and first drafts."""
    jobs = [JudgeJob(tuple(keys), kind, miss) for miss in BLINDNESS for kind in KINDS]
    done = list(spread(records_of_judge, jobs))
    found = []
    for place, miss in enumerate(BLINDNESS):
        own, *others = done[place * len(KINDS) : (place + 1) * len(KINDS)]
        own_name, *names = KINDS.values()
        rows = [
            outcome_of(name, records, qualities(own)) for name, records in zip(names, others, strict=True)
        ]
        found.append(Compared(miss, (outcome_of(own_name, own), *rows)))
    return found


@dataclass(frozen=True, slots=True)
class Steadiness:
    """How far apart five scores of the same text lie: the share within 0.1, and the mean distance."""

    name: str
    error: float
    within: Share
    apart: Mean


@dataclass(frozen=True, slots=True)
class LooksJob:
    """First drafts to judge five times each."""

    keys: tuple[Key, ...]
    name: str
    rates: Rates
    panel: int = 1


def steadiness_of(job: LooksJob) -> Steadiness:
    """Judge each first draft five times."""

    async def all_of_them() -> list[float]:
        found = []
        for key in job.keys:
            problem = problem_of(key)
            text = problem.write(first_state(problem, job.rates))
            found.append(spread_of(await looks(problem, job.rates, Play(panel=job.panel), text)))
        return found

    apart = anyio.run(all_of_them)
    within = share_of(round(one - NEAR, 9) <= 0 for one in apart)
    if within is None:
        raise ValueError("no text was judged")
    return Steadiness(job.name, job.rates.miss, within, mean_of(apart))


def steadiness(keys: Sequence[Key], spread: Spread) -> list[Steadiness]:
    """Judge first drafts with judges of several errors, noises, stubbornness and panels."""
    ways: list[tuple[str, Rates, int]] = [
        *((f"noise {noise:g}", Rates(noise=noise), 1) for noise in STEADY_NOISES),
        ("noise 0.02, 9 of 10 errors fixed", Rates(fixed=0.9), 1),
        ("noise 0.02, all errors fixed", Rates(fixed=1.0), 1),
        ("noise 0.02, panel of 3", Rates(), 3),
        ("noise 0.02, panel of 5", Rates(), 5),
    ]
    jobs = [
        LooksJob(tuple(keys), name, replace(rates, miss=error, alarm=error), panel)
        for name, rates, panel in ways
        for error in STEADY_ERRORS
    ]
    return list(spread(steadiness_of, jobs))
