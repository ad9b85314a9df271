"""What a callable is beneath its wrappings, and how to call it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import anyio.to_thread


def innermost(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function that a partial or a callable object calls in the end."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) or inspect.isclass(function) else type(function).__call__


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling it makes a coroutine: an async function, or an object whose ``__call__`` is one."""
    return inspect.iscoroutinefunction(innermost(function))


async def run(function: Callable[..., object], call: Callable[[], object]) -> object:
    """Return what ``call``, a call of ``function``, comes to.

    A sync function runs in a worker thread, which is left behind when the caller is cancelled.
    """
    if is_async(function):
        value = call()
    else:
        # In a tuple, for trio refuses a thread's result that is a coroutine, as that of a lambda may be.
        (value,) = await anyio.to_thread.run_sync(lambda: (call(),), abandon_on_cancel=True)
    return await value if inspect.isawaitable(value) else value
