"""The median of several verdicts on one text."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from jeeves_reflexion.types import NO_USAGE, Evaluation


def median_of(verdicts: Sequence[Evaluation]) -> Evaluation:
    """Return the median of several verdicts on one text. A single verdict is returned unchanged.

    Scores are medians, overall and by criterion. Texts and errors are those of the one verdict whose score is nearest
    to the median, the earliest of equals. ``passed`` is the opinion of the majority of scored verdicts, else ``None``.
    ``confidence`` is 1 - (highest - lowest score), times the share of verdicts with a score. Unless more than half of
    the verdicts have a score, the result has none. Usage is the sum.
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
