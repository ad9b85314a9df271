"""Times runs of two sides in turn, and counts the bytes that a run leaves behind."""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.overhead.work import Case, Observed, Side

WARM_RUNS = 20


@dataclass(frozen=True, slots=True)
class Speed:
    """Attempts per second of each repetition, by side, in the order measured; and what one run of it does."""

    case: Case
    rates: dict[str, tuple[float, ...]]
    observed: dict[str, Observed]

    def median(self, side: str) -> float:
        """Return the median rate of a side, in attempts per second."""
        return statistics.median(self.rates[side])

    def ratios(self, side: str, other: str) -> tuple[float, ...]:
        """Return how many times faster a side was, repetition by repetition.

        Neighbours in time share the machine's mood, so their ratio is steadier than either rate.
        """
        return tuple(a / b for a, b in zip(self.rates[side], self.rates[other], strict=True))


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that stay allocated for each run, in the first and in the second half of ``runs`` runs."""

    side: str
    runs: int
    first_half: float
    second_half: float


async def measure_speed(sides: Sequence[Side], case: Case, *, runs: int, repetitions: int) -> Speed:
    """Time ``repetitions`` rounds of ``runs`` runs of each side, the sides taking turns.

    Setting up is not timed, and each run has an agent with an empty memory. Raises ``ValueError`` where a side's run
    does not end in as many attempts as the case says.
    """
    observed = {side.name: await side.observe(case) for side in sides}
    for name, seen in observed.items():
        if len(seen.scores) != case.attempts:
            raise ValueError(f"a run of {name} judged {len(seen.scores)} attempts, not {case.attempts}")
    rates: dict[str, list[float]] = {side.name: [] for side in sides}
    for side in sides:
        await _time(side, case, WARM_RUNS)
    for repetition in range(repetitions):
        # Each goes first in every other round, so that neither always has the warmer machine.
        for side in sides if repetition % 2 == 0 else reversed(sides):
            rates[side.name].append(await _time(side, case, runs))
    return Speed(case, {name: tuple(values) for name, values in rates.items()}, observed)


async def _time(side: Side, case: Case, runs: int) -> float:
    prepared = [side.prepare(case) for _ in range(runs)]
    gc.collect()
    started = time.perf_counter()
    for run in prepared:
        await run()
    return runs * case.attempts / (time.perf_counter() - started)


async def measure_memory(side: Side, case: Case, *, runs: int) -> Memory:
    """Count what stays allocated while *one* agent does run after run, in two halves of ``runs // 2`` runs.

    Caches fill in the first half; what the second one adds is growth.
    """
    run = side.prepare(case)
    half = max(runs // 2, 1)
    tracemalloc.start()
    try:
        for _ in range(WARM_RUNS):
            await run()
        marks = [_allocated()]
        for _ in range(2):
            for _ in range(half):
                await run()
            marks.append(_allocated())
    finally:
        tracemalloc.stop()
    return Memory(side.name, 2 * half, (marks[1] - marks[0]) / half, (marks[2] - marks[1]) / half)


def _allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
