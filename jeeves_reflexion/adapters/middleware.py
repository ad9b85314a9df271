"""The base of middleware for frameworks: lessons before a run and learning after it, without a loop of ours."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from jeeves_reflexion.adapters.base import Trace
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.session import Session
from jeeves_reflexion.types import Attempt, Task

if TYPE_CHECKING:
    from jeeves_reflexion.loop.learner import Advice, Learner

Done: TypeAlias = Callable[[Task, Attempt[Any], Any], object]
"""A sync or async function that is called after a run with the task, the attempt, and the learner's advice."""


class LearnerRun:
    """One run of an agent beside a :class:`~jeeves_reflexion.Learner`.

    Without ``done`` the learner judges the run at its end. With ``done`` the verdict may come at any time:
    ``await learner.learn_from(task, attempt, verdict, advice=advice)``.
    """

    def __init__(self, learner: Learner, done: Done | None) -> None:
        self.trace = Trace(Session())
        self.lessons = ""
        self._learner = learner
        self._done = done
        self._begun: tuple[Task, Advice] | None = None
        self._ended = False

    async def begin(self, prompt: str) -> None:
        """Recall the lessons for a prompt. Only the first prompt that is not blank counts.

        Raises :class:`ConfigurationError` after the end.
        """
        if self._ended:
            raise ConfigurationError("the options of a learner serve one run: ask for new ones for each run")
        if self._begun is None and prompt.strip():
            task = Task(prompt)
            self._begun = task, await self._learner.recall(task)
            self.lessons = self._begun[1].text

    async def end(self, output: object) -> None:
        """Learn from the run, or pass it to ``done``."""
        self._ended = True
        if self._begun is None:
            return
        task, advice = self._begun
        self.trace.output = output
        attempt = self.trace.attempt()
        if self._done is None:
            await self._learner.learn_from(task, attempt, advice=advice)
            return
        result = self._done(task, attempt, advice)
        if inspect.isawaitable(result):
            await result
