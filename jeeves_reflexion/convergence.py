"""When more revising won't help, and which draft is then the best.

The checks are made after each judged draft in the order of :data:`ORDER`; the first that holds is the reason. Drafts
without a score are passed over by the checks on scores.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from jeeves_reflexion.drafts import ConvergenceReason, Draft, Selection
from jeeves_reflexion.errors import ConfigurationError
from vectorstores.base import Embedder

RECENCY_WEIGHT: Final = 0.2
"""What being the latest is worth in ``weighted_recency``: ``0.8 * score + 0.2 * place``, the place from 0 to 1."""

_ROUNDING: Final = 9
_STABLE_REVISIONS: Final = 2


@dataclass(frozen=True, slots=True)
class Convergence:
    """The limits of the checks.

    - oscillation: of the last four scores each step changes direction by more than ``epsilon``, and neither the upper
      nor the lower ones rise.
    - plateau: the last ``plateau_iterations + 1`` scores lie within ``epsilon``.
    - diminishing returns: the last two gains are above zero and below ``improvement_threshold``.
    - semantic stability: by the embedder, each of the last two drafts says what the draft it was revised from said:
      with a cosine similarity of at least ``stability`` and a gain below ``improvement_threshold``, or, whatever the
      gain, of 1 to the sixth digit. A small edit that gains much is no standstill.
    - repeated issues: the last ``repeated_issues`` verdicts name the same issues, by the embedder (similarity of at
      least ``same_issues``).

    ``embedder=None`` takes :class:`~vectorstores.HashingEmbedder`, which needs no model.
    """

    plateau_iterations: int = 2
    improvement_threshold: float = 0.05
    detect_oscillation: bool = True
    epsilon: float = 0.005
    stability: float = 0.98
    repeated_issues: int = 4
    same_issues: float = 0.95
    embedder: Embedder | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, least in (("plateau_iterations", 1), ("repeated_issues", 2)):
            if getattr(self, name) < least:
                raise ConfigurationError(f"{name} must be at least {least}, not {getattr(self, name)!r}")
        for name in ("improvement_threshold", "epsilon", "stability", "same_issues"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigurationError(f"{name} must lie in [0, 1], not {getattr(self, name)!r}")

    async def reason(self, drafts: Sequence[Draft]) -> ConvergenceReason | None:
        """Return why to stop after the last of these drafts, or None."""
        for reason, check in ORDER:
            if await check(self, drafts):
                return reason
        return None

    async def similarity(self, texts: Sequence[str]) -> float:
        """Return the lowest cosine similarity of the first of these texts to one of the others."""
        embedder = self.embedder
        if embedder is None:
            from vectorstores.embedders import HashingEmbedder  # noqa: PLC0415 - numpy, which the checks on scores don't need

            embedder = HashingEmbedder()
        vectors = await embedder.embed(texts)
        return float((vectors[1:] @ vectors[0]).min())


def scores_of(drafts: Sequence[Draft]) -> list[float]:
    """Return the scores of those drafts that have one, in order."""
    return [draft.evaluation.score for draft in drafts if draft.evaluation.score is not None]


def _gains(scores: Sequence[float]) -> list[float]:
    # Rounded, because 0.65 - 0.6 is not 0.05 in binary.
    return [round(after - before, _ROUNDING) for before, after in pairwise(scores)]


async def _oscillates(limits: Convergence, drafts: Sequence[Draft]) -> bool:
    scores = scores_of(drafts)[-4:]
    if not limits.detect_oscillation or len(scores) < 4:
        return False
    gains = _gains(scores)
    turns = all(before * after < 0 for before, after in pairwise(gains))
    moves = all(abs(gain) > limits.epsilon for gain in gains)
    rises = any(scores[i + 2] - scores[i] > limits.epsilon for i in (0, 1))
    return turns and moves and not rises


async def _stands_still(limits: Convergence, drafts: Sequence[Draft]) -> bool:
    window = scores_of(drafts)[-(limits.plateau_iterations + 1) :]
    if len(window) <= limits.plateau_iterations:
        return False
    return round(max(window) - min(window), _ROUNDING) <= limits.epsilon


async def _gains_little(limits: Convergence, drafts: Sequence[Draft]) -> bool:
    gains = _gains(scores_of(drafts)[-3:])
    return len(gains) == 2 and all(0 < gain < limits.improvement_threshold for gain in gains)


async def _says_the_same(limits: Convergence, drafts: Sequence[Draft]) -> bool:
    if len(drafts) <= _STABLE_REVISIONS:
        return False
    by_number = {draft.number: draft for draft in drafts}
    for draft in drafts[-_STABLE_REVISIONS:]:
        base = by_number.get(draft.base or 0)
        if base is None or not await _same_meaning(limits, draft, base):
            return False
    return True


async def _same_meaning(limits: Convergence, draft: Draft, base: Draft) -> bool:
    similarity = await limits.similarity([draft.output, base.output])
    if similarity > 1 - 1e-6:
        return True
    if draft.evaluation.score is None or base.evaluation.score is None:
        return False
    gain = round(draft.evaluation.score - base.evaluation.score, _ROUNDING)
    return similarity >= limits.stability and 0 <= gain < limits.improvement_threshold


async def _issues_repeat(limits: Convergence, drafts: Sequence[Draft]) -> bool:
    recent = ["\n".join(sorted(draft.evaluation.issues)) for draft in drafts[-limits.repeated_issues :]]
    if len(recent) < limits.repeated_issues or not all(recent):
        return False
    return await limits.similarity(recent) >= limits.same_issues


_Check = Callable[[Convergence, Sequence[Draft]], Awaitable[bool]]

ORDER: Final[tuple[tuple[ConvergenceReason, _Check], ...]] = (
    (ConvergenceReason.OSCILLATION, _oscillates),
    (ConvergenceReason.PLATEAU, _stands_still),
    (ConvergenceReason.DIMINISHING_RETURNS, _gains_little),
    (ConvergenceReason.SEMANTIC_STABILITY, _says_the_same),
    (ConvergenceReason.REPEATED_ISSUES, _issues_repeat),
)


def select(drafts: Sequence[Draft], selection: Selection) -> Draft:
    """Return the best of at least one draft; among equals the earlier one.

    ``highest_score`` prefers satisfactory drafts, then scores: a draft that a criterion vetoed is no better for its
    high mean. ``first_satisfactory`` falls back to it where none is. ``weighted_recency`` weighs by
    :data:`RECENCY_WEIGHT`. Drafts without a score come last.
    """
    if selection == "latest":
        return drafts[-1]
    if selection == "first_satisfactory":
        first = next((draft for draft in drafts if draft.satisfactory), None)
        if first is not None:
            return first
    if selection == "weighted_recency":
        return max(drafts, key=lambda draft: _with_recency(draft, drafts[-1].number))
    return max(drafts, key=lambda draft: (draft.satisfactory, _score(draft)))


def _score(draft: Draft) -> float:
    return -1.0 if draft.evaluation.score is None else draft.evaluation.score


def _with_recency(draft: Draft, last: int) -> float:
    place = (draft.number - 1) / (last - 1) if last > 1 else 1.0
    return (1 - RECENCY_WEIGHT) * _score(draft) + RECENCY_WEIGHT * place
