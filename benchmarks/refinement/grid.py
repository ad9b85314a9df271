"""The grid: each bound at each pair of judge's and reviser's error, and the region where it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import anyio

from .figures import BOUNDS, Bound, Figures, figures, holds
from .play import Play, play
from .rates import Rates, at
from .record import Record
from .tasks import Key, problem_of

Place: TypeAlias = tuple[float, float]
"""The judge's and the reviser's error."""

Spread: TypeAlias = Callable[..., Iterable[Any]]
"""``map`` over one sequence, perhaps in several processes; results come in order."""

SENSITIVE = 0.05
"""The error of judge and reviser at which everything else is varied."""


@dataclass(frozen=True, slots=True)
class Job:
    """Runs to make: one for each problem."""

    keys: tuple[Key, ...]
    rates: Rates
    how: Play = field(default_factory=Play)


def records_of(job: Job) -> list[Record]:
    """Make the runs of a job, one after the other."""

    async def all_of_them() -> list[Record]:
        return [await play(problem_of(key), job.rates, job.how) for key in job.keys]

    return anyio.run(all_of_them)


def figures_of(job: Job) -> Figures:
    """Make the runs of a job and count."""
    return figures(records_of(job))


@dataclass(frozen=True, slots=True)
class Grid:
    """The figures by place; ``n`` runs at each."""

    judges: tuple[float, ...]
    revisers: tuple[float, ...]
    cells: Mapping[Place, Figures]
    n: int

    def holds(self, bound: Bound, place: Place) -> bool:
        """Whether a bound holds at a place: its whole interval lies above."""
        return holds(self.cells[place][bound.figure], bound.least)

    def reach(self, bound: Bound, reviser: float) -> float | None:
        """Return up to which judge's error a bound holds at a reviser's error; None where not even at the first.

        Up to: it holds at each judge's error before it too.
        """
        reached = None
        for judge in self.judges:
            if not self.holds(bound, (judge, reviser)):
                break
            reached = judge
        return reached

    def count(self, bound: Bound) -> int:
        """Return at how many places a bound holds."""
        return sum(self.holds(bound, place) for place in self.cells)

    def all_hold(self, *, but: str = "") -> list[Place]:
        """Return the places where all five bounds hold, or all but one of them."""
        bounds = [bound for bound in BOUNDS if bound.id != but]
        return [place for place in self.cells if all(self.holds(bound, place) for bound in bounds)]


@dataclass(frozen=True, slots=True)
class Basis:
    """What all places of a grid have in common."""

    keys: tuple[Key, ...]
    right: float = 0.6
    noise: float = 0.02
    max_revisions: int = 3
    veto: bool = True

    def job(self, judge: float, reviser: float) -> Job:
        """Return the runs of one place."""
        rates = at(judge, reviser, right=self.right, noise=self.noise)
        return Job(self.keys, rates, Play(self.max_revisions, veto=self.veto))


def run_grid(
    basis: Basis,
    axes: tuple[Sequence[float], Sequence[float]],
    spread: Spread,
    tell: Callable[[int, int], None],
) -> Grid:
    """Make the runs of all places, the same problems and first drafts at each."""
    judges, revisers = (tuple(sorted(set(axis))) for axis in axes)
    places = [(judge, reviser) for reviser in revisers for judge in judges]
    cells: dict[Place, Figures] = {}
    for place, found in zip(places, spread(figures_of, [basis.job(*place) for place in places]), strict=True):
        cells[place] = found
        tell(len(cells), len(places))
    return Grid(judges, revisers, cells, len(basis.keys))


@dataclass(frozen=True, slots=True)
class Varied:
    """The figures where one thing was changed."""

    name: str
    figures: Figures


def vary(basis: Basis, spread: Spread) -> list[Varied]:
    """Change one assumption at a time, at judge's and reviser's error :data:`SENSITIVE`; the first row changes none."""
    base = basis.job(SENSITIVE, SENSITIVE)
    rates = base.rates
    jobs: dict[str, Job] = {f"as on the grid, at {SENSITIVE} / {SENSITIVE}": base}
    for right in (0.4, 0.8):
        jobs[f"writer right with {right}"] = replace(base, rates=replace(rates, right=right))
    for noise in (0.0, 0.05, 0.1):
        jobs[f"score noise {noise}"] = replace(base, rates=replace(rates, noise=noise))
    jobs["the judge's errors never change"] = replace(base, rates=replace(rates, fixed=1.0))
    jobs["the overall score alone decides"] = replace(base, how=replace(base.how, veto=False))
    jobs["no false alarms"] = replace(base, rates=replace(rates, alarm=0.0))
    jobs["no misses"] = replace(base, rates=replace(rates, miss=0.0))
    jobs["reviser breaks nothing else"] = replace(base, rates=replace(rates, breaks=0.0))
    jobs[f"reviser breaks {SENSITIVE} of the rest"] = replace(base, rates=replace(rates, breaks=SENSITIVE))
    for most in (1, 2, 8):
        jobs[f"max_iterations={most}"] = replace(base, how=replace(base.how, max_revisions=most))
    for panel in (3, 5):
        jobs[f"panel of {panel} judges"] = replace(base, how=replace(base.how, panel=panel))
    found = spread(figures_of, jobs.values())
    return [Varied(name, one) for name, one in zip(jobs, found, strict=True)]
