"""Decides when more revisions won't help, and which draft is the best.

The checks run after each judged draft in the order of :data:`ORDER`; the first that holds is the reason to stop. The
checks on scores skip drafts without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        return next((reason for reason, check in ORDER if check(self, drafts)), None)


def scores_of(drafts: Sequence[Draft]) -> list[float]:
    """Return the scores of the drafts that have one, in order."""
    return [draft.evaluation.score for draft in drafts if draft.evaluation.score is not None]


def _gains(scores: Sequence[float]) -> list[float]:
    # Rounded, because 0.65 - 0.6 is not 0.05 in binary.
    return [round(after - before, _ROUNDING) for before, after in pairwise(scores)]


def _rises(limits: Convergence, drafts: Sequence[Draft]) -> bool:
    return any(gain > limits.epsilon for gain in _gains(scores_of(drafts)))


def _oscillates(limits: Convergence, drafts: Sequence[Draft]) -> bool:
    scores = scores_of(drafts)[-4:]
    if not limits.detect_oscillation or len(scores) < 4:
        return False
    gains = _gains(scores)
    turns = all(before * after < 0 for before, after in pairwise(gains))
    moves = all(abs(gain) > limits.epsilon for gain in gains)
    rises = any(scores[i + 2] - scores[i] > limits.epsilon for i in (0, 1))
    return turns and moves and not rises


def _stands_still(limits: Convergence, drafts: Sequence[Draft]) -> bool:
    scores, revisions = scores_of(drafts), limits.plateau_iterations
    if len(scores) <= revisions:
        return False
    return round(max(scores[-revisions:]) - max(scores[:-revisions]), _ROUNDING) <= limits.epsilon


def _gains_little(limits: Convergence, drafts: Sequence[Draft]) -> bool:
    gains = _gains(scores_of(drafts)[-3:])
    return len(gains) == 2 and all(0 < gain < limits.improvement_threshold for gain in gains)


def _stays_the_same(limits: Convergence, drafts: Sequence[Draft]) -> bool:
    recent = drafts[-_STABLE_REVISIONS - 1 :]
    if len(recent) <= _STABLE_REVISIONS or _rises(limits, recent):
        return False
    by_number = {draft.number: _lines(draft.output) for draft in drafts}
    return all(by_number.get(draft.base or 0) == by_number[draft.number] for draft in recent[1:])


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _issues_repeat(limits: Convergence, drafts: Sequence[Draft]) -> bool:
    recent = drafts[-limits.repeated_issues :]
    if len(recent) < limits.repeated_issues or _rises(limits, recent):
        return False
    named = [{" ".join(issue.casefold().split()) for issue in draft.evaluation.issues} for draft in recent]
    return bool(named[0]) and all(each == named[0] for each in named)


_Check = Callable[[Convergence, Sequence[Draft]], bool]

ORDER: Final[tuple[tuple[ConvergenceReason, _Check], ...]] = (
    (ConvergenceReason.OSCILLATION, _oscillates),
    (ConvergenceReason.PLATEAU, _stands_still),
    (ConvergenceReason.DIMINISHING_RETURNS, _gains_little),
    (ConvergenceReason.SEMANTIC_STABILITY, _stays_the_same),
    (ConvergenceReason.REPEATED_ISSUES, _issues_repeat),
)


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
        last = drafts[-1].number
        return max(drafts, key=lambda draft: (draft.satisfactory, _with_recency(draft, last)))
    return max(drafts, key=rank)


def rank(draft: Draft) -> tuple[bool, float, int]:
    """Return the sort key of drafts: satisfactory ones first, then by score, then by how few errors were found.

    So a high mean does not help a draft that a criterion vetoed, and drafts without a score come last.
    """
    return draft.satisfactory, _score(draft), -len(draft.evaluation.errors)


def _score(draft: Draft) -> float:
    return -1.0 if draft.evaluation.score is None else draft.evaluation.score


def _with_recency(draft: Draft, last: int) -> float:
    place = (draft.number - 1) / (last - 1) if last > 1 else 1.0
    return (1 - RECENCY_WEIGHT) * _score(draft) + RECENCY_WEIGHT * place


def judge_flags(drafts: Sequence[Draft], threshold: float) -> tuple[str, ...]:
    """Return doubts about the judge of a run: ``overcritical``, or nothing.

    A judge is overcritical if it scored at least two drafts, refused all, and either the best came within :data:`NEAR`
    of the threshold or one was refused without any issue or criterion score.
    """
    scored = [draft for draft in drafts if draft.evaluation.scored]
    if len(scored) < 2 or any(draft.satisfactory for draft in scored):
        return ()
    near = max(map(_score, scored)) >= threshold - NEAR
    explained = all(draft.evaluation.issues or draft.evaluation.criteria_scores for draft in scored)
    return ("overcritical",) if near or not explained else ()
