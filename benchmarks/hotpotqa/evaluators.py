"""Who says whether an answer is right: the gold answer (an oracle, as in the paper), or a judge that never sees it.

The two are different experiments. With the oracle, a run is told truthfully when to stop and what to learn from; a
self-judged one believes its judge, and what its answers are worth is measured afterwards by :func:`measure`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from jeeves_reflexion import Attempt, ChatModel, Evaluation, Evaluator, Judge, Task

from .scorer import ExactMatch, exact_match, f1_score

JudgeName: TypeAlias = Literal["oracle", "self"]


@dataclass(frozen=True, slots=True)
class Score:
    """What an answer is worth by the official definitions."""

    em: float
    f1: float


class SelfJudged:
    """Hands a judge the task without its gold answer."""

    def __init__(self, judge: Callable[[Task, Attempt], Awaitable[Evaluation]]) -> None:
        self._judge = judge

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the judge's verdict."""
        return await self._judge(task.public(), attempt)


def evaluator(judge: JudgeName, model: ChatModel) -> Evaluator:
    """Return the evaluator of an experiment."""
    if judge == "oracle":
        return ExactMatch()
    return SelfJudged(Judge(model))


def measure(attempt: Attempt, gold: str) -> Score:
    """Score an attempt; one that did not come to an answer is worth nothing, whatever its output holds."""
    if attempt.error or attempt.interrupted:
        return Score(0.0, 0.0)
    return Score(float(exact_match(attempt.output, gold)), f1_score(attempt.output, gold).f1)
