"""Decides when more revisions won't help, and which draft is the best.

The checks of :class:`Convergence` run after each judged draft in their order; the first that holds is the reason to
stop. The checks on scores skip drafts without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from jeeves_reflexion.drafts import ConvergenceReason, Draft, Selection
from jeeves_reflexion.values import check_share, check_whole, checked_settings

RECENCY_WEIGHT: Final = 0.2
"""The weight of recency in ``weighted_recency``: ``0.8 * score + 0.2 * place``, the place from 0 to 1."""

NEAR: Final = 0.2
"""If the best of several refused drafts is this close to the threshold, the judge may be too strict."""

_ROUNDING: Final = 9
_STABLE_REVISIONS: Final = 2


@dataclass(frozen=True, slots=True)
@checked_settings
class Convergence:
    """The limits of the checks.

    - oscillation: the last four scores change direction at each step by more than ``epsilon``, and neither the upper
      nor the lower ones rise.
    - plateau: none of the last ``plateau_iterations`` scores exceeds the best before them by more than ``epsilon``.
    - diminishing returns: the last two gains are above zero and below ``improvement_threshold``.
    - semantic stability: each of the last two drafts equals the draft that it was revised from, except for white space
      at the ends of lines.
    - repeated issues: the last ``repeated_issues`` verdicts name the same issues, whatever their order, case and white
      space. A verdict without issues repeats none.

    The last two never end a run while scores rise by more than ``epsilon`` among the compared drafts. Texts are never
    compared by an embedder, which may find different ones alike ("18 of 20 tests fail", "9 of 20 tests fail").
    """

    plateau_iterations: int = 2
    improvement_threshold: float = 0.05
    detect_oscillation: bool = True
    epsilon: float = 0.005
    repeated_issues: int = 4

    def __post_init__(self) -> None:
        check_whole("plateau_iterations", self.plateau_iterations)
        check_whole("repeated_issues", self.repeated_issues, least=2)
        check_share("improvement_threshold", self.improvement_threshold)
        check_share("epsilon", self.epsilon)

    def reason(self, drafts: Sequence[Draft]) -> ConvergenceReason | None:
        """Return the reason to stop after these drafts, or None."""
        return self._by_scores(scores_of(drafts)) or self._by_texts(drafts)

    def _by_scores(self, scores: Sequence[float]) -> ConvergenceReason | None:
        gains = _gains(scores)[-3:]
        if self.detect_oscillation and len(gains) == 3:
            turns = all(before * after < 0 for before, after in pairwise(gains))
            moves = all(abs(gain) > self.epsilon for gain in gains)
            rises = any(scores[i] - scores[i - 2] > self.epsilon for i in (-2, -1))
            if turns and moves and not rises:
                return ConvergenceReason.OSCILLATION

        revisions = self.plateau_iterations
        if len(scores) > revisions:
            gain = round(max(scores[-revisions:]) - max(scores[:-revisions]), _ROUNDING)
            if gain <= self.epsilon:
                return ConvergenceReason.PLATEAU

        if len(gains) > 1 and all(0 < gain < self.improvement_threshold for gain in gains[-2:]):
            return ConvergenceReason.DIMINISHING_RETURNS
        return None

    def _by_texts(self, drafts: Sequence[Draft]) -> ConvergenceReason | None:
        if compared := self._without_gain(drafts, _STABLE_REVISIONS + 1):
            texts = {d.number: [line.rstrip() for line in d.output.rstrip().split("\n")] for d in drafts}
            if all(texts.get(draft.base or 0) == texts[draft.number] for draft in compared[1:]):
                return ConvergenceReason.SEMANTIC_STABILITY

        compared = self._without_gain(drafts, self.repeated_issues)
        named = [{" ".join(each.casefold().split()) for each in d.evaluation.issues} for d in compared]
        if named and named[0] and all(each == named[0] for each in named):
            return ConvergenceReason.REPEATED_ISSUES
        return None

    def _without_gain(self, drafts: Sequence[Draft], count: int) -> Sequence[Draft]:
        """Return the last ``count`` drafts; none if there are fewer, or if scores rise among them."""
        recent = drafts[-count:]
        rises = any(gain > self.epsilon for gain in _gains(scores_of(recent)))
        return recent if len(recent) == count and not rises else ()


def scores_of(drafts: Sequence[Draft]) -> list[float]:
    """Return the scores of the drafts that have one, in order."""
    return [draft.evaluation.score for draft in drafts if draft.evaluation.score is not None]


def _gains(scores: Sequence[float]) -> list[float]:
    # Rounded, because 0.65 - 0.6 is not 0.05 in binary.
    return [round(after - before, _ROUNDING) for before, after in pairwise(scores)]


def select(drafts: Sequence[Draft], selection: Selection) -> Draft:
    """Return the best of at least one draft; the earliest of equals.

    ``highest_score`` uses :func:`rank`, as does ``first_satisfactory`` if no draft is satisfactory.
    ``weighted_recency`` adds recency to the score (:data:`RECENCY_WEIGHT`), among satisfactory drafts if there are any.
    """
    if selection == "latest":
        return drafts[-1]
    if selection == "first_satisfactory":
        first = next((draft for draft in drafts if draft.satisfactory), None)
        if first is not None:
            return first
    if selection == "weighted_recency":

        def weighted(draft: Draft) -> tuple[bool, float]:
            satisfactory, score, _ = rank(draft)
            place = (draft.number - 1) / (drafts[-1].number - 1) if drafts[-1].number > 1 else 1.0
            return satisfactory, (1 - RECENCY_WEIGHT) * score + RECENCY_WEIGHT * place

        return max(drafts, key=weighted)
    return max(drafts, key=rank)


def rank(draft: Draft) -> tuple[bool, float, int]:
    """Return the sort key of drafts: satisfactory ones first, then by score, then by how few errors were found.

    So a high mean does not help a draft that a criterion vetoed, and drafts without a score come last.
    """
    score = draft.evaluation.score
    return draft.satisfactory, -1.0 if score is None else score, -len(draft.evaluation.errors)


def judge_flags(drafts: Sequence[Draft], threshold: float) -> tuple[str, ...]:
    """Return doubts about the judge of a run: ``overcritical``, or nothing.

    A judge is overcritical if it scored at least two drafts, refused all, and either the best came within :data:`NEAR`
    of the threshold or one was refused without any issue or criterion score.
    """
    scored = [draft for draft in drafts if draft.evaluation.scored]
    if len(scored) < 2 or any(draft.satisfactory for draft in scored):
        return ()
    near = max(scores_of(scored), default=-1.0) >= threshold - NEAR
    explained = all(draft.evaluation.issues or draft.evaluation.criteria_scores for draft in scored)
    return ("overcritical",) if near or not explained else ()
