"""Clocks: several sides in turn, medians with intervals, and how long the event loop kept others waiting."""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar

import anyio
import numpy as np
from anyio.abc import TaskStatus

T = TypeVar("T")
Call: TypeAlias = Callable[[int], Awaitable[object]]
_RESAMPLES: Final = 2_000
_TICK: Final = 0.001


@dataclass(frozen=True, slots=True)
class Figure:
    """A median over repetitions with the bounds of a 95 % interval for it, and each repetition's value."""

    value: float
    low: float
    high: float
    each: tuple[float, ...]


def median(values: Sequence[float]) -> Figure:
    """Return the median with its percentile-bootstrap interval (Efron 1979).

    Always the same for the same values. Raises ``ValueError`` for no values.
    """
    if not values:
        raise ValueError("no repetitions to take the median of")
    drawn = np.random.default_rng(0).choice(np.asarray(values), size=(_RESAMPLES, len(values)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return Figure(float(np.median(values)), float(low), float(high), tuple(values))


class Side(Protocol):
    """One of those that take turns."""

    async def burst(self, calls: Sequence[int]) -> Sequence[float]:
        """Make the calls, one after the other, and return the seconds of each."""
        ...


class Here:
    """A side in this process: an awaitable call, given its number; it rests ``pause`` seconds before each, untimed."""

    def __init__(self, call: Call, *, pause: float = 0.0) -> None:
        self._call = call
        self._pause = pause

    async def burst(self, calls: Sequence[int]) -> Sequence[float]:
        """See :class:`Side`."""
        taken = []
        for number in calls:
            if self._pause:
                await anyio.sleep(self._pause)
            started = time.perf_counter()
            await self._call(number)
            taken.append(time.perf_counter() - started)
        return taken


class Together:
    """A side that makes its calls ``width`` at a time; its seconds are those of the whole, shared out."""

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

    Each repetition makes the same ``calls`` calls with every side, each side going first in turn; one more at the
    start is not counted. Calls are numbered on from ``first``, so no number comes twice.
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
    """Return the median ratio of neighbours in time, which share the machine's mood."""
    return median([a / b for a, b in zip(above, below, strict=True)])


def differences(of: Sequence[float], less: Sequence[float]) -> Figure:
    """Return the median difference of neighbours in time."""
    return median([a - b for a, b in zip(of, less, strict=True)])


@dataclass(frozen=True, slots=True)
class Stall:
    """How long what fell due on the event loop waited, in seconds: the 99th percentile and the longest."""

    name: str
    busy: float
    idle: float
    longest: float

    @property
    def over_idle(self) -> float:
        """The 99th percentile over that of the idle control."""
        return self.busy - self.idle


async def stalls(name: str, call: Call, *, windows: int = 4, seconds: float = 0.5, first: int = 0) -> Stall:
    """Measure how long the loop keeps others waiting while ``call`` is made over and over, and while it is idle.

    Windows of both kinds alternate. A window of work ends with the call that crosses its time.
    """
    busy: list[float] = []
    idle: list[float] = []
    number = first
    for _ in range(windows):
        idle += await _late(lambda: anyio.sleep(seconds))

        async def work() -> None:
            nonlocal number
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                await call(number)
                number += 1

        busy += await _late(work)
    return Stall(name, waiting(busy), waiting(idle), max(busy, default=0.0))


async def stalls_of(name: str, work: Callable[[], Awaitable[T]], *, seconds: float = 0.5) -> tuple[T, Stall]:
    """Do ``work`` once; return what it returns and how long it kept the loop, between two idle windows."""
    done: list[T] = []

    async def once() -> None:
        done.append(await work())

    idle = await _late(lambda: anyio.sleep(seconds))
    busy = await _late(once)
    idle += await _late(lambda: anyio.sleep(seconds))
    return done[0], Stall(name, waiting(busy), waiting(idle), max(busy, default=0.0))


async def _late(work: Callable[[], Awaitable[None]]) -> list[float]:
    """Return by how much each tick came late while ``work`` ran."""
    # What was made before the clock starts is not for the work to clear away, nor for Python to look through again.
    gc.collect()
    ours = gc.get_freeze_count() == 0
    if ours:
        gc.freeze()
    late: list[float] = []

    async def tick(*, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        # It goes to sleep before the work begins, whatever the order of the loop.
        task_status.started()
        while True:
            started = time.perf_counter()
            await anyio.sleep(_TICK)
            late.append(max(0.0, time.perf_counter() - started - _TICK))

    try:
        async with anyio.create_task_group() as tasks:
            await tasks.start(tick)
            await work()
            # The tick that a stall at the end held up has yet to be counted.
            await anyio.sleep(2 * _TICK)
            tasks.cancel_scope.cancel()
    finally:
        if ours:
            gc.unfreeze()
    return late


def waiting(late: Sequence[float], share: float = 0.99) -> float:
    """Return the time that ``share`` of callbacks falling due at random moments wait at most, in seconds.

    A stall of a second counts as the thousand ticks that it swallowed, not as the one that came late: a callback that
    falls due within it waits for the rest of it.
    """
    if not late:
        return 0.0
    waits = np.asarray(late)
    low, high = 0.0, float(waits.max())
    total = float((waits + _TICK).sum())
    # The moments from which one waits longer than w make up sum(max(0, wait - w)) of the time.
    for _ in range(60):
        middle = (low + high) / 2
        if float(np.maximum(waits - middle, 0.0).sum()) > (1 - share) * total:
            low = middle
        else:
            high = middle
    return high
