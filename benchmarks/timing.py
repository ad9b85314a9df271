"""Times several sides in turn; medians with intervals, and the memory of this process."""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import anyio
import numpy as np

Call: TypeAlias = Callable[[int], Awaitable[object]]
_RESAMPLES: Final = 2_000


@dataclass(frozen=True, slots=True)
class Figure:
    """A median over repetitions, the bounds of its 95 % interval, and the value of each repetition."""

    value: float
    low: float
    high: float
    each: tuple[float, ...]


def median(values: Sequence[float]) -> Figure:
    """Return the median with its percentile-bootstrap interval (Efron 1979), the same for the same values.

    Raises ``ValueError`` if there are no values.
    """
    if not values:
        raise ValueError("no repetitions to take the median of")
    drawn = np.random.default_rng(0).choice(np.asarray(values), size=(_RESAMPLES, len(values)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return Figure(float(np.median(values)), float(low), float(high), tuple(values))


class Side(Protocol):
    """One of the sides that take turns."""

    async def burst(self, calls: Sequence[int]) -> Sequence[float]:
        """Make the calls and return the seconds of each."""
        ...


class Here:
    """A side that makes its calls one after the other in this process; a call gets its number."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def burst(self, calls: Sequence[int]) -> Sequence[float]:
        """See :class:`Side`."""
        taken = []
        for number in calls:
            started = time.perf_counter()
            await self._call(number)
            taken.append(time.perf_counter() - started)
        return taken


class Together:
    """A side that makes its calls ``width`` at a time; each counts an equal part of the total time."""

    def __init__(self, call: Call, width: int) -> None:
        self._call = call
        self._width = width

    async def burst(self, calls: Sequence[int]) -> Sequence[float]:
        """See :class:`Side`."""
        waiting = iter(calls)

        async def work() -> None:
            for number in waiting:
                await self._call(number)

        started = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for _ in range(self._width):
                tasks.start_soon(work)
        return [(time.perf_counter() - started) / len(calls)] * len(calls)


async def in_turn(
    sides: Mapping[str, Side], *, repetitions: int, calls: int, first: int = 0
) -> dict[str, tuple[float, ...]]:
    """Return the median seconds of a call, by side and repetition.

    Each repetition makes the same ``calls`` calls with every side; the sides take turns at going first. One repetition
    at the start is not counted. Calls are numbered from ``first`` on, so that no number occurs twice.
    """
    taken: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for repetition in range(-1, repetitions):
        numbers = range(first + (repetition + 1) * calls, first + (repetition + 2) * calls)
        shift = repetition % len(names)
        for name in names[shift:] + names[:shift]:
            gc.collect()
            seconds = await sides[name].burst(numbers)
            if repetition >= 0:
                taken[name].append(float(np.median(seconds)))
    return {name: tuple(values) for name, values in taken.items()}


def ratios(above: Sequence[float], below: Sequence[float]) -> Figure:
    """Return the median ratio of neighbours in time, which the machine's load affects alike."""
    return median([a / b for a, b in zip(above, below, strict=True)])


def differences(of: Sequence[float], less: Sequence[float]) -> Figure:
    """Return the median difference of neighbours in time."""
    return median([a - b for a, b in zip(of, less, strict=True)])


def resident_memory() -> dict[str, int]:
    """Return this process's resident memory in bytes: ``private``, and ``file``, which the kernel shares and reclaims.

    Raises ``OSError`` except on Linux.
    """
    counted = {"RssAnon": "private", "RssFile": "file", "RssShmem": "file"}
    found = dict.fromkeys(counted.values(), 0)
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name in counted:
            found[counted[name]] += int(rest.split()[0]) * 1024
    return found
