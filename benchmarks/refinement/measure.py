"""Measures each bound at each pair of judge's and reviser's error, and with one assumption changed at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any, TypeAlias

import anyio

from .actors import Rates, at
from .figures import BOUNDS, Bound, Figures, figures, holds
from .play import Play, Record, play
from .problem import Problem, problems

Place: TypeAlias = tuple[float, float]
"""The judge's and the reviser's error."""

ERRORS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)
SENSITIVE = 0.05
"""The error of judge and reviser at which other assumptions are varied."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The sizes: ``tasks`` problems for each seed, and the errors of judge and reviser on the grid, each ascending."""

    tasks: int = 60
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    judges: tuple[float, ...] = ERRORS
    revisers: tuple[float, ...] = ERRORS
    workers: int = 1

    @property
    def runs(self) -> int:
        """How many problems there are at each place."""
        return self.tasks * len(self.seeds)


@dataclass(frozen=True, slots=True)
class Job:
    """Runs to make: one for each problem."""

    problems: tuple[Problem, ...]
    rates: Rates
    how: Play = Play()  # noqa: RUF009 - frozen


def records_of(job: Job) -> list[Record]:
    """Make the runs of a job, one after the other."""

    async def play_all() -> list[Record]:
        return [await play(problem, job.rates, job.how) for problem in job.problems]

    return anyio.run(play_all)


def figures_of(job: Job) -> Figures:
    """Make the runs of a job, and return their figures."""
    return figures(records_of(job))


@dataclass(frozen=True, slots=True)
class Grid:
    """The figures by place."""

    judges: tuple[float, ...]
    revisers: tuple[float, ...]
    cells: Mapping[Place, Figures]

    def holds(self, bound: Bound, place: Place) -> bool:
        """Return whether a bound holds at a place: its whole interval is above the bound."""
        return holds(self.cells[place][bound.figure], bound.least)

    def reach(self, bound: Bound, reviser: float) -> float | None:
        """Return up to which judge's error a bound holds without a gap, at a reviser's error; None if at none."""
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


def variations(base: Job) -> dict[str, Job]:
    """Return the job and variations of it, by the assumption that is changed."""
    jobs = {f"as on the grid, at {SENSITIVE} / {SENSITIVE}": base}
    rates: dict[str, dict[str, float]] = {
        **{f"writer right with {right}": {"right": right} for right in (0.4, 0.8)},
        **{f"score noise {noise}": {"noise": noise} for noise in (0.0, 0.05, 0.1)},
        "the judge's errors never change": {"fixed": 1.0},
        "no false alarms": {"alarm": 0.0},
        "no misses": {"miss": 0.0},
        "reviser breaks nothing else": {"breaks": 0.0},
        f"reviser breaks {SENSITIVE} of the rest": {"breaks": SENSITIVE},
    }
    hows: dict[str, Play] = {
        "the overall score alone decides": Play(veto=False),
        **{f"max_iterations={most}": Play(max_revisions=most) for most in (1, 2, 8)},
        **{f"panel of {panel} judges": Play(panel=panel) for panel in (3, 5)},
    }
    jobs |= {name: replace(base, rates=replace(base.rates, **changed)) for name, changed in rates.items()}
    return jobs | {name: replace(base, how=how) for name, how in hows.items()}


def measure(setting: Setting, tell: Callable[[int, int], None]) -> tuple[Grid, dict[str, Figures]]:
    """Make all runs, with the same problems and first drafts; return the grid, and the figures by variation."""
    some = problems(setting.tasks, setting.seeds)
    places = [(judge, reviser) for reviser in setting.revisers for judge in setting.judges]
    varied = variations(Job(some, at(SENSITIVE, SENSITIVE)))
    jobs = [*(Job(some, at(*place)) for place in places), *varied.values()]
    found: list[Figures] = []
    with _spreading(setting.workers) as spread:
        for each in spread(figures_of, jobs):
            found.append(each)
            tell(len(found), len(jobs))
    cells = dict(zip(places, found, strict=False))
    return Grid(setting.judges, setting.revisers, cells), dict(zip(varied, found[len(cells) :], strict=True))


@contextlib.contextmanager
def _spreading(workers: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """Yield a ``map`` over that many processes, or the builtin for one worker."""
    if workers == 1:
        yield map
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        try:
            yield pool.map
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
