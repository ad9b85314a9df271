"""Learning beside another loop: lessons before an attempt, and a new lesson after its verdict."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar, cast

from jeeves_reflexion.callables import is_async, run_alone
from jeeves_reflexion.errors import ConfigurationError, ReflexionError
from jeeves_reflexion.loop.factory import (
    EvaluatorLike,
    LessonsLike,
    LoopOptions,
    ModelLike,
    ReflectorLike,
    checked_task,
)
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.session import Session, redacting
from jeeves_reflexion.summary import counted
from jeeves_reflexion.text import render_blocks
from jeeves_reflexion.types import Attempt, Evaluation, Recall, Task, Trial

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Advice:
    """The lessons for one attempt: ``text`` goes into the agent's instructions, and is empty if there are none.

    Pass the advice back with the verdict, so that the effect of the lessons in ``recall`` is measured.
    """

    text: str
    recall: Recall | None
    session: Session
    task_id: str = ""


class Learner:
    """Recalls lessons before an attempt and learns after it, for an agent that other code runs.

    The arguments are those of :class:`Reflexion`. Without an evaluator or a model, each attempt needs a verdict::

        learner = Learner(model="openai:gpt-4o-mini", lesson_store="./lessons")
        advice = await learner.recall(task)
        ...  # run the agent with advice.text among its instructions
        trial = await learner.learn_from(task, output, advice=advice)
    """

    def __init__(
        self,
        *,
        lesson_store: LessonsLike,
        model: ModelLike | None = None,
        evaluator: ModelLike | EvaluatorLike | None = None,
        reflector: ModelLike | ReflectorLike | None = None,
        threshold: float = 0.8,
        top_k_lessons: int | None = None,
        options: LoopOptions | None = None,
    ) -> None:
        judge = _no_judge if evaluator is None and model is None else evaluator
        self._loop: Reflexion[Any] = Reflexion(
            _nobody,
            model=model,
            evaluator=judge,
            reflector=reflector,
            lesson_store=lesson_store,
            threshold=threshold,
            top_k_lessons=top_k_lessons,
            options=options,
        )

    async def recall(self, task: Task | str) -> Advice:
        """Return the lessons for an attempt at the task. Raises :class:`LessonStoreError`."""
        session = redacting(self._loop.session())
        task = checked_task(task)
        recall, block = await self._loop.recall(task, (), session)
        return Advice(render_blocks({self._loop.lessons_block_name: block}), recall, session, task.id)

    async def learn_from(
        self,
        task: Task | str,
        attempt: Attempt[Any] | str,
        evaluation: Evaluation | float | None = None,
        *,
        advice: Advice | None = None,
    ) -> Trial[Any]:
        """Learn from an attempt that was made elsewhere, and return it as a trial with its lesson.

        ``evaluation`` is a verdict or a score from 0 to 1; without one the evaluator judges. ``advice`` is what
        :meth:`recall` returned for this attempt. ``Trial.problems`` says what went wrong, ``Trial.usage`` what judging
        and reflecting used. Raises :class:`ConfigurationError` for a value that is not an attempt, for the advice of
        another task, and if there is neither an evaluation nor an evaluator.
        """
        task = checked_task(task)
        made = Attempt[Any](attempt) if isinstance(attempt, str) else attempt
        if not isinstance(made, Attempt):
            raise ConfigurationError(f"an attempt must be an Attempt or a text, not {type(attempt).__name__}")
        session = self._loop.session()  # a new one: the agent's time does not count against the budget
        if advice is not None:
            if not isinstance(advice, Advice):
                raise ConfigurationError(f"advice must be what recall() gave, not {type(advice).__name__}")
            if advice.task_id not in {"", task.id}:
                raise ConfigurationError(
                    "the advice is for another task: its lessons would be credited with an attempt that never saw them"
                )
            session = replace(session, id=advice.session.id, listener=advice.session.listener)
        session = redacting(session)
        trial = Trial[Any](1, made, Evaluation(None), recall=advice.recall if advice is not None else None)
        if evaluation is None:
            trial = await self._loop.judge(task, (), session, trial)
        else:
            verdict = evaluation if isinstance(evaluation, Evaluation) else Evaluation(evaluation)
            trial = replace(trial, evaluation=verdict, passed=verdict.meets(self._loop.threshold))
        trial = await self._loop.note_outcome(session, trial)
        trial = await self._loop.reflect(task, (), session, trial)
        if trial.pending:
            trial = await self._loop.store(task, session, trial)
        return replace(trial, usage=session.spend.by_role())


def reflexive(**options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:  # noqa: ANN401 - those of Reflexion
    """Decorate a function of a prompt to retry with lessons until its answer passes; ``options`` are Reflexion's.

    A sync function stays sync, and must be called outside of an event loop; an async one stays async. It returns the
    best answer, raises :class:`ReflexionError` if no attempt gave one, and has its loop in ``function.reflexion``::

        @reflexive(model="openai:gpt-4o-mini", lesson_store="./lessons")
        async def answer(prompt: str) -> str: ...
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        loop: Reflexion[Any] = Reflexion(function, **options)
        name = getattr(function, "__name__", type(function).__name__)
        signature = inspect.signature(function)

        async def call(*args: P.args, **kwargs: P.kwargs) -> object:
            first, *_ = signature.parameters
            given = signature.bind_partial(*args, **kwargs).arguments
            if first not in given or len(given) > 1:
                raise TypeError(f"{name}() with lessons is called with its {first} alone")
            result = await loop.run(given[first])

            # A failure is not an empty answer.
            best = result.best.attempt if result.best else Attempt[Any](error=result.detail)
            if (why := best.error or best.interrupted) and not best.output:
                attempts = counted(len(result.trials), "attempt")
                raise ReflexionError(f"{name} gave no answer in {attempts}: {why}")
            return result.output

        def call_alone(*args: P.args, **kwargs: P.kwargs) -> object:
            return run_alone(lambda: call(*args, **kwargs), f"{name}.reflexion.run(task)")

        wrapped = functools.wraps(function)(call if is_async(function) else call_alone)
        wrapped.reflexion = loop  # type: ignore[attr-defined]
        return cast("Callable[P, R]", wrapped)

    return decorate


async def _nobody(prompt: str) -> str:
    raise ConfigurationError("a Learner runs no agent: it learns from attempts that are made elsewhere")


async def _no_judge(task: Task, attempt: Attempt[Any]) -> Evaluation:
    raise ConfigurationError(
        "who judges? pass learn_from an evaluation, or the Learner an evaluator or a model"
    )
