"""What an ensemble asks before it accepts a task's output: guards, and a review by a person or a model."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import anyio

from jeeves_reflexion.callables import run
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import Attempt, Evaluation, Task

InputGuard: TypeAlias = Callable[..., Any]
"""``(task)`` before the agent is asked; sync or async. None or True lets it pass, False or a reason refuses it."""

OutputGuard: TypeAlias = Callable[..., Any]
"""``(task, attempt)``, or the output alone; answers like an :data:`InputGuard`."""

Verdict: TypeAlias = Literal["accept", "edit", "reject", "retry"]


@dataclass(frozen=True, slots=True)
class ReviewDecision:
    """What a reviewer decides. ``text`` is the edited output, the reason of a rejection, or advice for a retry."""

    verdict: Verdict
    text: str = ""

    @classmethod
    def accept(cls) -> ReviewDecision:
        """Take the output as it is."""
        return cls("accept")

    @classmethod
    def edit(cls, output: str) -> ReviewDecision:
        """Take this output in its place."""
        return cls("edit", output)

    @classmethod
    def reject(cls, reason: str = "rejected in review") -> ReviewDecision:
        """Don't take it: nothing is learned from the run."""
        return cls("reject", reason)

    @classmethod
    def retry(cls, advice: str) -> ReviewDecision:
        """Run the phase again with this advice; a review of a phase alone may say so."""
        return cls("retry", advice)


Reviewer: TypeAlias = Callable[[Task, Attempt, Evaluation | None], ReviewDecision | Awaitable[ReviewDecision]]


@dataclass(frozen=True, slots=True)
class ReviewGate:
    """A review of a task's output. Without an answer within ``timeout`` seconds, ``on_timeout`` is the answer."""

    reviewer: Reviewer
    timeout: float | None = None
    on_timeout: Literal["accept", "reject"] = "reject"

    def __post_init__(self) -> None:
        if not callable(self.reviewer):
            raise ConfigurationError(f"reviewer must be callable, not {type(self.reviewer).__name__}")
        check_waiting(self.timeout, self.on_timeout)

    async def decide(self, task: Task, attempt: Attempt, evaluation: Evaluation | None) -> ReviewDecision:
        """Ask the reviewer. Raises what it raises, and :class:`ConfigurationError` for an answer that is none."""
        call = functools.partial(self.reviewer, task, attempt, evaluation)
        return await decided(self.reviewer, call, self.timeout, self.on_timeout, {"accept", "edit", "reject"})


def check_waiting(timeout: float | None, on_timeout: str) -> None:
    """Raise :class:`ConfigurationError` for a time-out of a review, or an answer after it, that is none."""
    if timeout is not None and not timeout > 0:
        raise ConfigurationError(f"timeout must be above 0 or None, not {timeout!r}")
    if on_timeout not in ("accept", "reject"):
        raise ConfigurationError(f"on_timeout must be 'accept' or 'reject', not {on_timeout!r}")


async def decided(
    reviewer: Callable[..., object],
    call: Callable[[], object],
    timeout: float | None,
    on_timeout: Literal["accept", "reject"],
    allowed: set[str],
) -> ReviewDecision:
    """Return what a reviewer answers in time."""
    with anyio.move_on_after(timeout):
        answer = await run(reviewer, call)
        if not isinstance(answer, ReviewDecision) or answer.verdict not in allowed:
            raise ConfigurationError(
                f"a review must return a ReviewDecision ({', '.join(sorted(allowed))}), not {answer!r}"
            )
        return answer
    if on_timeout == "accept":
        return ReviewDecision.accept()
    return ReviewDecision.reject(f"no review within {timeout:g} s")


async def refusal(guard: InputGuard | OutputGuard, task: Task, attempt: Attempt | None = None) -> str | None:
    """Return why a guard refuses, or None if it lets pass. Raises what it raises."""
    given: tuple[object, ...] = (task,)
    if attempt is not None:
        given = (task, attempt) if _takes_two(guard) else (attempt.output,)
    answer = await run(guard, functools.partial(guard, *given))
    if answer is None or answer is True:
        return None
    name = getattr(guard, "__name__", type(guard).__name__)
    if answer is False:
        return f"refused by {name}"
    if isinstance(answer, str):
        return answer or f"refused by {name}"
    raise ConfigurationError(f"guard {name} returned {answer!r}: it must return None, a bool or a reason")


def _takes_two(guard: Callable[..., object]) -> bool:
    try:
        inspect.signature(guard).bind(None, None)
    except TypeError:
        return False
    return True
