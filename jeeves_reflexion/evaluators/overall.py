"""From the verdicts on single criteria to the one on the whole: weights, vetoes, and what could not be scored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jeeves_reflexion.evaluators.criteria import QualityCriterion
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import NO_USAGE, Evaluation

_DIGITS = 9  # what is closer than that is equal: 0.1 + 0.7 reaches a threshold of 0.8
_SAID = 300  # characters of a rationale that stands for an issue that its judge did not name
EXTERNAL = "external validator"


@dataclass(frozen=True, slots=True)
class Scored:
    """A criterion and the verdict by it; ``applies`` is false where there was nothing to measure it by."""

    criterion: QualityCriterion
    verdict: Evaluation
    applies: bool = True

    @property
    def holds(self) -> bool | None:
        """Whether the text is acceptable by this criterion; None where that is not known.

        A check that says ``passed=False`` itself is believed, unless the threshold of 0 says that it never vetoes.
        """
        if self.verdict.score is None:
            return None
        own = self.criterion.threshold == 0 or self.verdict.passed is not False
        return own and reaches(self.verdict.score, self.criterion.threshold)

    @property
    def certain(self) -> bool:
        """Whether no model was asked for the verdict."""
        return self.criterion.evaluator in {"regex", "function"}


def reaches(score: float, threshold: float) -> bool:
    """Whether a score is at least a threshold, as decimals would have it: rounding of floats is no difference."""
    return round(score - threshold, _DIGITS) >= 0


def weighted(scores: Sequence[tuple[float, float]]) -> float:
    """Return the mean of ``(weight, value)`` pairs, values in [0, 1], weights above 0; it lies in [0, 1]."""
    largest = max(weight for weight, _ in scores)
    shares = [weight / largest for weight, _ in scores]
    total = math.fsum(part * value for part, (_, value) in zip(shares, scores, strict=True))
    return min(max(round(total / math.fsum(shares), _DIGITS + 3), 0.0), 1.0)


def conclude(scored: Sequence[Scored], threshold: float, external: Evaluation | None = None) -> Evaluation:
    """Return the verdict on the whole; see :class:`~jeeves_reflexion.evaluators.CriteriaEvaluator`."""
    counted = [one for one in scored if one.applies]
    unknown = [one.criterion.name for one in counted if one.holds is None]
    certain = [one.criterion.name for one in counted if one.certain and one.holds is False]
    accepted = None if external is None else _accepts(external, threshold)
    if external is not None and accepted is None:
        unknown.append(EXTERNAL)
    elif accepted is False:
        certain.append(EXTERNAL)
    score = None
    if counted and not unknown:
        score = weighted([(one.criterion.weight, one.verdict.score or 0.0) for one in counted])
    passed: bool | None = None
    if certain:
        passed = False
    elif score is not None:
        passed = reaches(score, threshold) and all(one.holds for one in counted)
    named = len(scored) + (external is not None) > 1
    parts = [(one.criterion.name, one.verdict, one.holds) for one in scored if one.applies]
    if external is not None:
        parts.append((EXTERNAL, external, accepted))
    verdicts = [verdict for _, verdict, _ in parts]
    return Evaluation(
        score,
        passed=passed,
        rationale=_rationale(scored, unknown, external, accepted=accepted),
        criteria_scores={
            one.criterion.name: one.verdict.score for one in counted if one.verdict.score is not None
        },
        issues=_distinct(
            f"{name}: {issue}" if named else issue
            for name, verdict, holds in parts
            for issue in _issues(verdict, holds=holds)
        ),
        suggestions=_distinct(text for verdict in verdicts for text in verdict.suggestions),
        errors=tuple(error for verdict in verdicts for error in verdict.errors),
        confidence=_confidence(counted, unknown),
        usage=sum((one.verdict.usage for one in scored), NO_USAGE if external is None else external.usage),
        quotes_gold=frozenset[str]().union(*(verdict.quotes_gold for verdict in verdicts)),
    )


def _accepts(verdict: Evaluation, threshold: float) -> bool | None:
    if verdict.passed is not None or verdict.score is None:
        return verdict.passed
    return reaches(verdict.score, threshold)


def _issues(verdict: Evaluation, *, holds: bool | None) -> tuple[str, ...]:
    """Return what is wrong by a verdict, in its judge's words alone: where it says nothing, neither do we."""
    if verdict.issues or holds is not False:
        return verdict.issues
    if verdict.errors:
        return tuple(f"{error.path}: {error.message}" for error in verdict.errors)
    return (abridge(verdict.rationale, _SAID),) if verdict.rationale.strip() else ()


def _confidence(counted: Sequence[Scored], unknown: Sequence[str]) -> float:
    """Return the weighted mean of the confidences; 0.0 where anything is not known."""
    if unknown or not counted:
        return 0.0
    return weighted([(one.criterion.weight, one.verdict.confidence or 0.0) for one in counted])


def _rationale(
    scored: Sequence[Scored], unknown: Sequence[str], external: Evaluation | None, *, accepted: bool | None
) -> str:
    lines = [f"could not be scored: {', '.join(unknown)}"] if unknown else []
    for one in scored:
        amount = "no score" if one.verdict.score is None else f"{one.verdict.score:.2f}"
        veto = f", below its threshold {one.criterion.threshold:g}" if one.holds is False else ""
        state = f"{amount}{veto}" if one.applies else "left out"
        lines.append(f"{one.criterion.name} ({state}): {one.verdict.rationale}".removesuffix(": "))
    if external is not None:
        state = " (refuses the text)" if accepted is False else ""
        lines.append(f"{EXTERNAL}{state}: {external.rationale}".removesuffix(": "))
    return "\n".join(lines)


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
