"""Calls at the same time, and the median of several verdicts on one text."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import anyio

from jeeves_reflexion.errors import first_of, hopeless
from jeeves_reflexion.types import NO_USAGE, Evaluation

T = TypeVar("T")


def median_of(verdicts: Sequence[Evaluation]) -> Evaluation:
    """Return the median of several verdicts on one text; of one, itself.

    Scores are medians, overall and by criterion. Words and errors are those of the verdict whose score lies nearest
    to the median, the earliest of equals, so that they are of one piece. ``passed`` is what the majority of those
    with a score says, ``None`` where they don't. ``confidence`` is 1 - (highest - lowest score), less the share of
    the members who gave no score. Without a score from more than half of the members there is none. Usage is the sum.
    """
    usage = sum((verdict.usage for verdict in verdicts), NO_USAGE)
    gold = frozenset[str]().union(*(verdict.quotes_gold for verdict in verdicts))
    if len(verdicts) == 1:
        return verdicts[0]
    scored = [(verdict.score, verdict) for verdict in verdicts if verdict.score is not None]
    if len(scored) * 2 <= len(verdicts):
        unscored = next(verdict for verdict in verdicts if verdict.score is None)
        said = f"{len(verdicts) - len(scored)} of {len(verdicts)} gave no score: {unscored.rationale}"
        return Evaluation(None, rationale=said, confidence=0.0, usage=usage, quotes_gold=gold)
    scores = [score for score, _ in scored]
    median = statistics.median(scores)
    _, nearest = min(scored, key=lambda item: abs(item[0] - median))
    names = dict.fromkeys(name for _, verdict in scored for name in verdict.criteria_scores)
    votes = [verdict.passed for _, verdict in scored]
    spread = max(scores) - min(scores)
    return replace(
        nearest,
        score=median,
        passed=next((word for word in (True, False) if votes.count(word) * 2 > len(votes)), None),
        criteria_scores={
            name: statistics.median(
                verdict.criteria_scores[name] for _, verdict in scored if name in verdict.criteria_scores
            )
            for name in names
        },
        confidence=(1.0 - spread) * len(scored) / len(verdicts),
        usage=usage,
        quotes_gold=gold,
    )


async def side_by_side(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Make calls concurrently and return what they return, in their order.

    The first that raises cancels the others. Its error is raised as itself, outside of the task group's own group;
    where several raise, one that no retry would mend (``HOPELESS``) comes before the others.
    """
    results: dict[int, T] = {}

    async def make(place: int) -> None:
        results[place] = await calls[place]()

    try:
        async with anyio.create_task_group() as tasks:
            for place in range(len(calls)):
                tasks.start_soon(make, place)
    except ExceptionGroup as group:
        raise (hopeless(group) or first_of(group)) from group
    return [results[place] for place in range(len(calls))]
