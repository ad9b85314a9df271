"""What a measurement is made with, and everything that it came to."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import TypeAlias

from .grid import Basis, Grid, Spread, Varied, run_grid, vary
from .tasks import keys

Tell: TypeAlias = Callable[[str, int, int], None]
"""Is told what is being done, how much of it is done, and of how much."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The sizes: ``tasks`` problems for each seed, and the errors of judge and reviser on the grid."""

    command: str
    tasks: int = 60
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    judges: tuple[float, ...] = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)
    revisers: tuple[float, ...] = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)
    right: float = 0.6
    noise: float = 0.02
    max_revisions: int = 3
    workers: int = 1

    @property
    def runs(self) -> int:
        """How many problems there are at each place."""
        return self.tasks * len(self.seeds)


@dataclass(frozen=True, slots=True)
class Measured:
    """All that was measured offline.

    In the grid ``strict`` each criterion has a threshold of its own, in ``loose`` the overall score alone decides.
    """

    setting: Setting
    strict: Grid
    loose: Grid
    varied: Sequence[Varied]
    seconds: float = 0.0


@contextlib.contextmanager
def _spreading(workers: int) -> Iterator[Spread]:
    """Give a ``map`` over that many processes; for one worker the builtin."""
    if workers == 1:
        yield map
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        try:
            yield pool.map
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def measure(setting: Setting, tell: Tell) -> Measured:
    """Make all offline runs."""
    some = tuple(keys(setting.tasks, setting.seeds))
    axes = (setting.judges, setting.revisers)
    basis = Basis(some, setting.right, setting.noise, setting.max_revisions)
    loose = Basis(some, setting.right, setting.noise, setting.max_revisions, veto=False)
    with _spreading(setting.workers) as spread:
        return Measured(
            setting,
            run_grid(basis, axes, spread, partial(tell, "grid, each criterion vetoes")),
            run_grid(loose, axes, spread, partial(tell, "grid, the overall score alone")),
            vary(basis, spread),
        )
