"""What an ensemble asks before it accepts a task's output: guards, and a review by a person or a model."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import anyio

from jeeves_reflexion.callables import run, takes
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


@dataclass(frozen=True, slots=True)
class ReviewGate:
    """A review of a task's output by ``reviewer(task, attempt, evaluation)``, sync or async.

    Without an answer within ``timeout`` seconds, ``on_timeout`` is the answer. Raises :class:`ConfigurationError` for
    values that can't be.
    """

    reviewer: Callable[..., Any]
    timeout: float | None = None
    on_timeout: Literal["accept", "reject"] = "reject"

    def __post_init__(self) -> None:
        if not callable(self.reviewer):
            raise ConfigurationError(f"reviewer must be callable, not {type(self.reviewer).__name__}")
        if self.timeout is not None and not self.timeout > 0:
            raise ConfigurationError(f"timeout must be above 0 or None, not {self.timeout!r}")
        if self.on_timeout not in ("accept", "reject"):
            raise ConfigurationError(f"on_timeout must be 'accept' or 'reject', not {self.on_timeout!r}")

    async def decide(self, task: Task, attempt: Attempt, evaluation: Evaluation | None) -> ReviewDecision:
        """Ask the reviewer. Raises what it raises, and :class:`ConfigurationError` for an answer that is none."""
        return await decision(self, (task, attempt, evaluation), ("accept", "edit", "reject"))


async def decision(gate: ReviewGate, given: tuple[object, ...], allowed: Collection[str]) -> ReviewDecision:
    """Return what the reviewer of a gate answers in time, or what stands for an answer."""
    with anyio.move_on_after(gate.timeout):
        answer = await run(gate.reviewer, functools.partial(gate.reviewer, *given))
        if not isinstance(answer, ReviewDecision) or answer.verdict not in allowed:
            raise ConfigurationError(
                f"a review must return a ReviewDecision ({', '.join(allowed)}), not {answer!r}"
            )
        return answer
    if gate.on_timeout == "accept":
        return ReviewDecision.accept()
    return ReviewDecision.reject(f"no review within {gate.timeout:g} s")


async def refusal(guard: InputGuard | OutputGuard, task: Task, attempt: Attempt | None = None) -> str | None:
    """Return why a guard refuses, or None if it lets pass. Raises what it raises."""
    given: tuple[object, ...] = (task,)
    if attempt is not None:
        given = (task, attempt) if takes(inspect.signature(guard), 2) else (attempt.output,)
    answer = await run(guard, functools.partial(guard, *given))
    if answer is None or answer is True:
        return None
    name = getattr(guard, "__name__", type(guard).__name__)
    if answer is False or isinstance(answer, str):
        return answer or f"refused by {name}"
    raise ConfigurationError(f"guard {name} returned {answer!r}: it must return None, a bool or a reason")
