"""Calls of what a user brings, such as a store or a strategy, in time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


async def answer(seconds: float, call: Callable[[], Awaitable[T]]) -> T:
    """Return what a call comes to within ``seconds``; raise what it raises, or :class:`TimeoutError`.

    It runs as a task of its own: a cancellation that comes out of it, though nobody cancelled this one, would else
    end the run. Raises :class:`RuntimeError` for such a one.
    """
    found: list[T] = []
    errors: list[BaseException] = []

    async def make() -> None:
        try:
            found.append(await call())
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:  # noqa: BLE001 - raised again below, as itself and not in a group
            errors.append(error)

    with anyio.move_on_after(seconds) as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(make)
    if errors:
        raise errors[0]
    if found:
        return found[0]
    if scope.cancelled_caught:
        raise TimeoutError(f"no answer within {seconds:g} s")
    raise RuntimeError("it was cancelled from within")
