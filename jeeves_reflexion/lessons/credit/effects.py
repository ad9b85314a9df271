"""Did a lesson help? Its lift, from attempts that were drawn to have it against attempts that were drawn not to.

Whether a recalled lesson is offered is a coin toss (:class:`Withholding`), so the two groups differ by chance and by
the lesson alone: tasks, their difficulty and the other lessons are shared out evenly (Fisher 1935). Without withheld
attempts there is no comparison and no claim: lessons are recalled for hard tasks, and a correlation would blame them.

Three questions, three methods. *How much?* :func:`lift`: difference of means with Newcombe's interval, for one look,
among attempts that were expected to score alike (post-stratification: Cochran 1968; Miratrix, Sekhon and Yu 2013);
:func:`shrunken` draws it towards what lessons of this library do on the whole (empirical Bayes, Efron and Morris
1973): lessons that are shown, ranked or praised by their estimate were selected for it, and such an estimate is too far
from the mean (Efron 2011). *Is it harmful, whenever one looks?* :func:`judge`: an interval that holds at all times at
once (normal-mixture confidence sequence, Robbins 1970; Waudby-Smith et al. 2021, arXiv 2103.06476), because an interval
for one look that is looked at after every attempt excludes the truth sooner or later. *In which order?*
:func:`utility`: the shrunken lift. Pure: no store, no clock.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Literal, TypeAlias

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.statistics import Z95, Mean, difference_of_means
from jeeves_reflexion.types import Lift
from jeeves_reflexion.values import plain_number

MIN_EACH: Final = 5
"""Scored attempts that are needed with a lesson, and as many without, before anything is said of it."""

RANK_EACH: Final = 2
"""Scored attempts that are needed of each before they move a lesson's rank, where the prior weighs against them."""

RETIRE_ERROR: Final = 0.05
"""The chance that a lesson without any effect is ever retired, however often one looks."""

ERROR_PART: Final = 0.6
"""The part of the error that the bound is reckoned with: where success or failure is rare and few attempts lack the
lesson, scores are too skewed for the normal approximation (docs/results/lessons_credit_power.md)."""

EARLY_ATTEMPTS: Final = 10
"""After so many scored attempts, half of them without the lesson, an early share of a half is halved."""

HALF_LIFE_DAYS: Final = 90.0
"""After how long without a recall what is known of a lesson weighs half."""

_TYPICAL_LIFT: Final = 0.2  # where the confidence sequence is tightest; it holds for any
_MAX_SHARE: Final = 0.5
_WHOLE_PART: Final = 0.2
_FLOOR_PART: Final = 0.25
_FIFTHS: Final = 5
_PRIOR_FROM: Final = 10
_PRIOR_STEPS: Final = 4
_LEAST_SPREAD: Final = 0.02
_DAY: Final = 86400.0
_NOTHING_KNOWN: Final[Mapping[str, int]] = {}

Stratum: TypeAlias = tuple[float, ...]
"""Attempts that were drawn alike and expected to score alike: for a lesson the share withheld and :func:`fifth_of`; for
the library also the share of whole recalls, how many lessons were at stake, how many of them no draw decided on, and
the shares of those with one of their own."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Scored attempts with and without, of one stratum: how many, and the sum of their scores."""

    n_with: int = 0
    sum_with: float = 0.0
    n_without: int = 0
    sum_without: float = 0.0


Cells: TypeAlias = Mapping[Stratum, Cell]


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed of a lesson before its own data: the mean lift of lessons, and how far they spread."""

    mean: float = 0.0
    spread: float = 0.1


@dataclass(frozen=True, slots=True)
class Judgement:
    """What to do with a lesson, and why in words."""

    kind: Literal["unknown", "keep", "helps", "retire"]
    reason: str


@dataclass(frozen=True, slots=True)
class Draw:
    """Which lessons of one recall are withheld, and by which shares that was drawn.

    ``whole`` says that the recall was drawn to be withheld as a whole, for the lift of the library. ``shares`` are the
    shares of lessons that were not drawn by ``share``. ``exempt`` are lessons that no draw by themselves decided on: in
    ledgers of earlier versions, those that were shown to help.
    """

    share: float = 0.0
    whole_share: float = 0.0
    whole: bool = False
    withheld: frozenset[str] = frozenset()
    exempt: frozenset[str] = frozenset()
    shares: Mapping[str, float] = field(default_factory=dict)

    def share_of(self, lesson_id: str) -> float:
        """Return the share by which a lesson was drawn."""
        return self.shares.get(lesson_id, self.share)


NO_DRAW: Final = Draw()


@dataclass(frozen=True, slots=True)
class Withholding:
    """The draw that makes recall an experiment; off with ``share=0``.

    Each lesson that would be offered is withheld with probability ``share`` (0 to 0.5), by itself; and the whole recall
    with probability ``whole_share`` (a fifth of ``share`` unless given), which is what tells the lift of the library.
    What is withheld is not replaced by the next best: the lift is that of the lesson against its absence. The same
    seed, key and lesson give the same draw. A lesson that is shown to help goes on being withheld, at :attr:`floor`: a
    lift that is measured no more would stay at the height that it was selected for.

    ``early`` (``share`` unless given, and never below it) is the share for a lesson of which nothing is known. It is
    halved after :data:`EARLY_ATTEMPTS` scored attempts, and after each time twice as many more, down to ``share``: so
    harm is found soon, and the cost grows with the logarithm of the attempts (Auer et al. 2002, epsilon-greedy). It
    depends on how many scores there are and never on what they are, which would bias the lift.
    """

    share: float = 0.0
    seed: int = 0
    whole_share: float | None = None
    early: float | None = None

    def __post_init__(self) -> None:
        for name in ("share", "whole_share", "early"):
            given = getattr(self, name)
            value = plain_number(given)
            if value is None and name != "share":
                continue
            if not isinstance(value, int | float) or not 0.0 <= value <= _MAX_SHARE:
                raise ConfigurationError(f"{name} must lie in [0, {_MAX_SHARE}], not {given!r}")
            object.__setattr__(self, name, value)
        if self.early is None:
            return
        if not self.share:
            raise ConfigurationError(
                "early comes down to share, which is 0: give a share above 0, or no early"
            )
        if self.early < self.share:
            raise ConfigurationError(
                f"early is the larger share, that of the first recalls: {self.early} is below share {self.share}"
                " (without early all lessons are withheld alike)"
            )

    @property
    def on(self) -> bool:
        """Whether anything is ever withheld."""
        return bool(self.share or self.whole_share)

    @property
    def floor(self) -> float:
        """The share for a lesson that is shown to help: a quarter of ``share``."""
        return _FLOOR_PART * self.share

    def share_for(self, scored: int) -> float:
        """Return the share for a lesson of which so many scored attempts are known that a draw decided."""
        if self.early is None:
            return self.share
        halvings = int(math.log2(1 + scored / EARLY_ATTEMPTS))
        return max(self.share, math.ldexp(self.early, -halvings))

    def draw(
        self,
        key: str,
        lesson_ids: Sequence[str],
        *,
        scored: Mapping[str, int] = _NOTHING_KNOWN,
        helpful: Collection[str] = (),
    ) -> Draw:
        """Draw for one recall, named by its ``key`` (see :func:`recall_key`), over the lessons that it would offer.

        ``scored`` says how much is known of each lesson (see :meth:`share_for`); ``helpful`` are those that are shown
        to help (see :attr:`floor`).
        """
        if not self.on:
            return NO_DRAW
        whole_share = _WHOLE_PART * self.share if self.whole_share is None else self.whole_share
        # A lesson's id is a string, so that this draw can't be that of a lesson.
        none = self._uniform(key, None) < whole_share
        shares = {
            each: self.floor if each in helpful else self.share_for(scored.get(each, 0))
            for each in lesson_ids
        }
        drawn = (each for each, share in shares.items() if self._uniform(key, each) < share)
        own = {each: share for each, share in shares.items() if share != self.share}
        return Draw(self.share, whole_share, none, frozenset(lesson_ids if none else drawn), shares=own)

    def _uniform(self, key: str, lesson_id: str | None) -> float:
        digest = blake2b(json.dumps([self.seed, key, lesson_id]).encode(), digest_size=8).digest()
        return int.from_bytes(digest) / 2**64


def recall_key(run_id: str, attempt: int, task_id: str) -> str:
    """Return what names one recall to the draw, whenever and wherever it is repeated."""
    return json.dumps([run_id, attempt, task_id])


def fifth_of(expected: float | None) -> Stratum:
    """Return the part of a stratum that says in which fifth of [0, 1] the expected score lies; empty for none."""
    return () if expected is None else (float(min(int(expected * _FIFTHS), _FIFTHS - 1)),)


def lift(cells: Cells, *, least: int = MIN_EACH) -> Lift:
    """Return how much higher attempts score with than without, at 95 % for one look.

    Attempts are compared within strata and the differences weighed by n1 n0 / (n1 + n0) (Mantel and Haenszel 1959), so
    that a change of the share withheld, beside a change of the agent, is not taken for an effect, and that easy and
    hard tasks add no noise. ``value`` is None ("not enough data") below ``least`` of each.
    """
    n_with, n_without = _counts(cells)
    means = _means(cells, least)
    if means is None:
        return Lift(n_with=n_with, n_without=n_without)
    found = difference_of_means(*means)
    return Lift(found.value, found.low, found.high, n_with, n_without)


def shown(cells: Cells, known: Lift, prior: Prior) -> Lift:
    """Return a lift as it may be shown: shrunken, and without a value below :data:`MIN_EACH` of each."""
    enough = _compared(cells) >= MIN_EACH
    return shrunken(known, prior) if enough else Lift(n_with=known.n_with, n_without=known.n_without)


def judge(cells: Cells, *, error: float = RETIRE_ERROR, typical: float = _TYPICAL_LIFT) -> Judgement:
    """Say whether a lesson is to be retired: whether its lift lies below zero by an interval that holds at every look.

    A lesson of lift zero is ever retired with probability ``error`` at most, one that helps less often; likewise for
    being said to help. ``typical`` is the size of lift that is found soonest.
    """
    if not (0.0 < error < 0.5 and typical > 0.0):
        raise ValueError(f"error must lie in (0, 0.5) and typical above 0, not {error} and {typical}")
    n_with, n_without = _counts(cells)
    of = f"{n_with} scored attempts with it, {n_without} without"
    means = _means(cells)
    if means is None:
        return Judgement("unknown", f"not enough data: {of}; {MIN_EACH} of each are needed")
    once = difference_of_means(*means)
    z = _z_ever((once.high - once.low) / (2 * Z95), ERROR_PART * error, typical)
    ever = difference_of_means(*means, z=z)
    # Without an interval for one look: what is retired or praised was selected, and its own would be too sure.
    found = f"observed {_points(once.value)} ({of}), at any look {_points(ever.low)} to {_points(ever.high)}"
    if ever.high < 0.0:
        return Judgement("retire", f"attempts score lower with it: {found}")
    if ever.low > 0.0:
        return Judgement("helps", f"attempts score higher with it: {found}")
    return Judgement("keep", f"neither help nor harm is shown: {found}")


def standard_error(lift: Lift) -> float | None:
    """Return the standard error that a lift's interval stands for, None without data."""
    if lift.low is None or lift.high is None:
        return None
    return (lift.high - lift.low) / (2 * Z95)


def _middle(lift: Lift) -> tuple[float, float] | None:
    """The middle of a lift's interval and its standard error; None without data."""
    error = standard_error(lift)
    return (
        ((lift.low + lift.high) / 2, error)
        if lift.low is not None and lift.high is not None and error
        else None
    )


def shrunken(lift: Lift, prior: Prior) -> Lift:
    """Return the lift to reckon with: the data's, drawn towards the prior's mean the more the less data there is.

    The data's is the middle of the interval, which is what its width is the error of: of few scores the plain
    difference lies farther out. Mean and 95 % interval of the posterior of a normal effect with a normal prior. They
    hold for lessons that were selected by their data too, and whenever one looks, as far as the prior is right.
    """
    if (found := _middle(lift)) is None:
        return lift
    value, error = found
    data, before = 1 / error**2, 1 / prior.spread**2
    mean, spread = (data * value + before * prior.mean) / (data + before), Z95 / math.sqrt(data + before)
    return Lift(mean, mean - spread, mean + spread, lift.n_with, lift.n_without)


def utility(lift: Lift, prior: Prior) -> float:
    """Return the lift to rank by: the :func:`shrunken` one, without data the prior's mean."""
    value = shrunken(lift, prior).value
    return prior.mean if value is None else value


def prior_of(lifts: Iterable[Lift]) -> Prior:
    """Return the prior that a library's own lifts make, by moments; the default below ten of them.

    DerSimonian and Kacker 2007, which comes near to Paule and Mandel 1982.
    """
    known = [found for each in lifts if (found := _middle(each)) is not None]
    if len(known) < _PRIOR_FROM:
        return Prior()
    mean, variance = 0.0, 0.0
    # The first turn is DerSimonian and Laird's. What does nothing is known best where scores are split by what was
    # expected: weights that know nothing of the spread would take the library for such lessons alone.
    for _ in range(_PRIOR_STEPS):
        weights = [1 / (error**2 + variance) for _, error in known]
        total, squares = math.fsum(weights), math.fsum(w * w for w in weights)
        mean = math.fsum(w * value for w, (value, _) in zip(weights, known, strict=True)) / total
        excess = math.fsum(
            w * ((value - mean) ** 2 - error**2 * (1 - w / total))
            for w, (value, error) in zip(weights, known, strict=True)
        )
        variance = max(excess, 0.0) / (total - squares / total)
    return Prior(mean, max(math.sqrt(variance), _LEAST_SPREAD))


def freshness(idle_seconds: float) -> float:
    """Return how much what is known of a lesson still weighs, from 1 (just recalled) towards 0."""
    return float(0.5 ** (max(idle_seconds, 0.0) / _DAY / HALF_LIFE_DAYS))


def _counts(cells: Cells) -> tuple[int, int]:
    return sum(c.n_with for c in cells.values()), sum(c.n_without for c in cells.values())


def _usable(cells: Cells) -> list[Cell]:
    return [cell for cell in cells.values() if cell.n_with and cell.n_without]


def _compared(cells: Cells) -> int:
    """How many attempts with and without there are of each, at least, in strata that have both."""
    usable = _usable(cells)
    return min(sum(c.n_with for c in usable), sum(c.n_without for c in usable))


def _means(cells: Cells, least: int = MIN_EACH) -> tuple[Mean, Mean] | None:
    """The means without and with, of the strata that have both; None if that is not enough."""
    if _compared(cells) < least:
        return None
    usable = _usable(cells)
    weights = [c.n_with * c.n_without / (c.n_with + c.n_without) for c in usable]
    total = math.fsum(weights)
    parts = [weight / total for weight in weights]
    both = [(c.sum_with + c.sum_without + 0.5) / (c.n_with + c.n_without + 1) for c in usable]
    without = _weighted(
        [(w, c.sum_without, c.n_without, b) for w, c, b in zip(parts, usable, both, strict=True)]
    )
    return without, _weighted(
        [(w, c.sum_with, c.n_with, b) for w, c, b in zip(parts, usable, both, strict=True)]
    )


def _weighted(parts: Sequence[tuple[float, float, int, float]]) -> Mean:
    """A weighted mean of means, and the number of scores that a plain mean would need to be as sure.

    A part is a weight, the sum and number of the scores of one group in one stratum, and about what both groups score
    there. Only how scores differ within strata makes the mean unsure. In a stratum of few scores that would be nothing
    at all, so each counts one more, of what both groups score.
    """
    value = math.fsum(weight * total / n for weight, total, n, _ in parts)
    n = 1 / math.fsum(weight * weight / n for weight, _, n, _ in parts)
    within = math.fsum(w * w / n * _variance(total, n, both) for w, total, n, both in parts)
    everywhere = _variance(value * n, n, math.fsum(weight * both for weight, _, _, both in parts))
    # Sums that were corrected later may be a hair off.
    return Mean(min(max(value, 0.0), 1.0), max(everywhere / within, n))


def _variance(total: float, n: float, one_more: float) -> float:
    """The variance of scores in [0, 1] at most, by their mean."""
    mean = min(max((total + one_more) / (n + 1), 0.0), 1.0)
    return mean * (1 - mean)


def _z_ever(standard_error: float, error: float, typical: float) -> float:
    """The multiple of the standard error that a one-sided bound needs to hold at all times at once.

    Robbins' normal mixture N(0, ``typical``²) over the effect; two-sided at twice the error is one-sided at the error,
    nearly.
    """
    ratio = (typical / standard_error) ** 2
    return math.sqrt((1 + 1 / ratio) * (2 * math.log(1 / (2 * error)) + math.log1p(ratio)))


def _points(value: float) -> str:
    return f"{100 * value:+.0f} points"
