"""The work that both sides do, and how a side hands it in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

PROMPT = "What is six times seven?"
SCORE = 0.1
REPLIES = ("The answer is forty-two.", f"score: {SCORE}", "Count once more before you answer.")
"""What the model says, in turn: the agent's answer, the verdict on it, and the lesson from it."""

Run: TypeAlias = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Case:
    """Runs of ``attempts`` failing attempts each; ``lessons`` says whether the model is asked for any."""

    name: str
    title: str
    attempts: int
    lessons: bool


CASES = (
    Case("off", "lessons off, 1 attempt per run", attempts=1, lessons=False),
    Case("block", "a lesson after a failed attempt, 3 attempts per run", attempts=3, lessons=True),
)


class Script:
    """Gives the replies in turn, over and over, and counts the calls."""

    def __init__(self, case: Case) -> None:
        self._replies = REPLIES if case.lessons else REPLIES[:2]
        self.calls = 0

    def next(self) -> str:
        """Return the next reply."""
        reply = self._replies[self.calls % len(self._replies)]
        self.calls += 1
        return reply


@dataclass(frozen=True, slots=True)
class Observed:
    """What one run did, so that two sides can be seen to do the same."""

    scores: tuple[float | None, ...]
    model_calls: int


@dataclass(frozen=True, slots=True)
class Side:
    """A framework under test.

    ``prepare`` sets up one agent with an empty memory and returns its run; ``observe`` says what such a run does.
    """

    name: str
    version: str
    prepare: Callable[[Case], Run]
    observe: Callable[[Case], Awaitable[Observed]]
