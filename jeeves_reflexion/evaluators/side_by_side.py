"""Calls that don't depend on one another, at the same time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

from jeeves_reflexion.errors import HOPELESS

T = TypeVar("T")


async def side_by_side(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Make calls concurrently and return what they return, in their order.

    The first that raises cancels the others. Its error is raised as itself, outside of the task group's own group;
    where several raise, one that no retry would mend (``HOPELESS``) comes before the others.
    """
    results: dict[int, T] = {}

    async def make(place: int) -> None:
        results[place] = await calls[place]()

    try:
        async with anyio.create_task_group() as tasks:
            for place in range(len(calls)):
                tasks.start_soon(make, place)
    except ExceptionGroup as group:
        raise (hopeless(group) or _first(group)) from group
    return [results[place] for place in range(len(calls))]


def hopeless(error: Exception) -> Exception | None:
    """Return the first error within groups that no retry would mend, or None."""
    if isinstance(error, ExceptionGroup):
        found = error.subgroup(HOPELESS)
        return None if found is None else _first(found)
    return error if isinstance(error, HOPELESS) else None


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
