"""What a callable is beneath its wrappings, and how to call it: from async code, or from code that is not."""

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
LONG: Final = 65_536  # characters that take the slowest reader some tenths of a second


def innermost(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function that a partial or a callable object calls in the end."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) or inspect.isclass(function) else type(function).__call__


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling it makes a coroutine: an async function, or an object whose ``__call__`` is one."""
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
    """Whether a function can be called with so many arguments by place."""
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


async def run(function: Callable[..., object], call: Callable[[], object]) -> object:
    """Return what ``call``, a call of ``function``, comes to.

    A sync function runs in a worker thread, which is left behind when the caller is cancelled; the end of the process
    waits for it.
    """
    if is_async(function):
        value = call()
    else:
        outcome = await anyio.to_thread.run_sync(_outcome, call, abandon_on_cancel=True, limiter=_limiter())
        value = outcome.result()
    return await value if inspect.isawaitable(value) else value


def _outcome(call: Callable[[], T]) -> concurrent.futures.Future[T]:
    """Return what a call comes to, to be raised where it is waited for.

    A ``GeneratorExit`` that the event loop threw into a task would close it; and trio refuses a coroutine as the value
    of a thread, as that of a lambda may be.
    """
    outcome = concurrent.futures.Future[T]()
    try:
        outcome.set_result(call())
    except BaseException as error:  # noqa: BLE001
        outcome.set_exception(error)
    return outcome


def _limiter() -> anyio.CapacityLimiter:
    """The threads for callables of users: those that hang must leave the stores theirs."""
    try:
        return _limiters.get()
    except LookupError:
        _limiters.set(found := anyio.CapacityLimiter(_THREADS))
        return found


async def side_by_side(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Make calls concurrently and return what they return, in their order.

    The first that raises cancels the others. Its error is raised as itself, outside of the task group's own group;
    where several raise, one that no retry would mend (``HOPELESS``) comes before the others.
    """
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    async def make(place: int) -> None:
        try:
            results[place] = await calls[place]()
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:  # noqa: BLE001 - raised below, outside of the task group's own group
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
    """Return what ``work`` makes of a text: off the event loop where it is long, for its time grows with it."""
    return await anyio.to_thread.run_sync(work, text) if len(text) > LONG else work(text)


def run_alone(call: Callable[[], Awaitable[T]], instead: str) -> T:
    """Run in an event loop of its own.

    Raises :class:`~jeeves_reflexion.errors.SessionError` where one runs already: ``instead`` is to be awaited there.
    """
    if _in_event_loop():
        raise SessionError(f"a sync call can't be used within an event loop: write `await {instead}` there")
    return anyio.run(call)


def _in_event_loop() -> bool:
    try:
        anyio.get_cancelled_exc_class()
    except RuntimeError:
        return False
    return True
