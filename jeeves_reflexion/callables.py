"""What a callable is beneath its wrappers, and how to call it, sync or async."""

from __future__ import annotations

import concurrent.futures
import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from jeeves_reflexion.errors import ConfigurationError, SessionError, hopeless

T = TypeVar("T")

_THREADS: Final = 200
_limiters: RunVar[anyio.CapacityLimiter] = RunVar("jeeves_reflexion_threads")
LONG: Final = 65_536  # characters; the slowest function takes some tenths of a second for that many


def innermost(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function that a partial or a callable object calls in the end."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) or inspect.isclass(function) else type(function).__call__


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling it returns a coroutine: an async function, or an object whose ``__call__`` is one."""
    return inspect.iscoroutinefunction(innermost(function))


def signature_of(function: Callable[..., object], label: str) -> inspect.Signature:
    """Return how a function is called; raises :class:`~jeeves_reflexion.errors.ConfigurationError` for a class."""
    if inspect.isclass(function):
        raise ConfigurationError(f"{label} is a class: pass an instance of it, or a function")
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{label}: its signature can't be read; wrap it in a function") from error


def takes(signature: inspect.Signature, count: int) -> bool:
    """Whether a function can be called with ``count`` positional arguments."""
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


async def run(function: Callable[..., object], call: Callable[[], object]) -> object:
    """Return the result of ``call``, which is a call of ``function``.

    A sync function runs in a worker thread. If the caller is cancelled, the thread goes on, and the process waits for
    it before it exits.
    """
    if is_async(function):
        value = call()
    else:
        # With a limiter of their own, users' callables that hang leave the stores their threads.
        limiter = _limiters.get(None)
        if limiter is None:
            _limiters.set(limiter := anyio.CapacityLimiter(_THREADS))
        outcome = await anyio.to_thread.run_sync(_outcome, call, abandon_on_cancel=True, limiter=limiter)
        value = outcome.result()
    return await value if inspect.isawaitable(value) else value


def _outcome(call: Callable[[], T]) -> concurrent.futures.Future[T]:
    """Return the result or the error of a call in a future.

    If a thread raised ``GeneratorExit``, that would close the task that waits for it. And trio refuses a thread whose
    result is a coroutine, as a lambda's may be.
    """
    outcome = concurrent.futures.Future[T]()
    try:
        outcome.set_result(call())
    except BaseException as error:  # noqa: BLE001
        outcome.set_exception(error)
    return outcome


async def side_by_side(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Make calls concurrently and return their results in order.

    The first error cancels the other calls, and is raised by itself rather than in an exception group. If several calls
    raise, an error that no retry can fix (``HOPELESS``) is preferred.
    """
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    async def make(place: int) -> None:
        try:
            results[place] = await calls[place]()
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:  # noqa: BLE001 - raised below, outside of the task group
            errors.append(error)
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for place in range(len(calls)):
            tasks.start_soon(make, place)
    if errors:
        first = (hopeless(error) for error in errors if isinstance(error, Exception))
        raise next(filter(None, first), errors[0])
    return [results[place] for place in range(len(calls))]


async def aside(work: Callable[[str], T], text: str) -> T:
    """Return ``work(text)``, in a thread if the text is long, since the time grows with its length."""
    return await anyio.to_thread.run_sync(work, text) if len(text) > LONG else work(text)


def run_alone(call: Callable[[], Awaitable[T]], instead: str) -> T:
    """Run a call in a new event loop.

    Raises :class:`~jeeves_reflexion.errors.SessionError` if one runs already; its message says to await ``instead``.
    """
    try:
        anyio.get_cancelled_exc_class()
    except RuntimeError:
        pass  # no event loop runs
    else:
        raise SessionError(f"a sync call can't be used within an event loop: write `await {instead}` there")
    return anyio.run(call)
