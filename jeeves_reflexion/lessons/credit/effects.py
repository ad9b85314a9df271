"""Did a lesson help? Its lift compares attempts that were drawn to have it with attempts that were drawn not to.

A random draw decides whether a recalled lesson is offered (:class:`Withholding`), so the two groups differ only by
chance and by the lesson: tasks, their difficulty and other lessons are spread evenly (Fisher 1935). Without withheld
attempts no effect is claimed: lessons are recalled for hard tasks, so a plain correlation would blame the lessons.

Three questions, three methods. *How much?* :func:`lift`: difference of means with Newcombe's interval, for one look,
among attempts that were expected to score alike (post-stratification: Cochran 1968; Miratrix, Sekhon and Yu 2013);
:func:`shrunken` shrinks it towards the mean of this library's lessons (empirical Bayes, Efron and Morris 1973), because
lessons that are shown, ranked or praised by an estimate were selected by it, and such an estimate is too far from the
mean (Efron 2011). *Is it harmful, whenever one looks?* :func:`judge`: an interval that holds at all times at once
(normal-mixture confidence sequence, Robbins 1970; Waudby-Smith et al. 2021, arXiv 2103.06476), because an interval for
one look, if computed after every attempt, sooner or later excludes the truth. *In which order?* :func:`utility`: the
shrunken lift. All functions are pure: no store, no clock.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Literal, TypeAlias

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.statistics import Z95, Mean, difference_of_means
from jeeves_reflexion.types import Lift
from jeeves_reflexion.values import checked_settings

MIN_EACH: Final = 5
"""Scored attempts needed with a lesson, and as many without it, before its lift is shown."""

RANK_EACH: Final = 2
"""Scored attempts needed with and without a lesson before they move its rank; the prior dampens so few."""

RETIRE_ERROR: Final = 0.05
"""The chance that a lesson without any effect is ever retired, however often one looks."""

ERROR_PART: Final = 0.6
"""The part of the error for which the bound is computed: if success or failure is rare and few attempts lack the
lesson, scores are too skewed for the normal approximation (docs/results/lessons_credit_power.md)."""

EARLY_ATTEMPTS: Final = 10
"""After this many scored attempts of a lesson, an ``early`` share is halved."""

HALF_LIFE_DAYS: Final = 90.0
"""After how many days without a recall the evidence on a lesson weighs half."""

_TYPICAL_LIFT: Final = 0.2  # where the confidence sequence is tightest; it holds for any
_MAX_SHARE: Final = 0.5
_WHOLE_PART: Final = 0.2
_FLOOR_PART: Final = 0.25
_FIFTHS: Final = 5
_PRIOR_FROM: Final = 10
_PRIOR_STEPS: Final = 4
_LEAST_SPREAD: Final = 0.02
_DAY: Final = 86400.0

Stratum: TypeAlias = tuple[float, ...]
"""Attempts with the same draw and about the same expected score: for a lesson, its share withheld and
:func:`fifth_of`; for the library also the share of whole recalls, how many lessons were at stake, how many of these
were exempt from the draw, and the shares of lessons that had their own."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The scored attempts of one stratum, with and without the lesson: their number and the sum of their scores."""

    n_with: int = 0
    sum_with: float = 0.0
    n_without: int = 0
    sum_without: float = 0.0


Cells: TypeAlias = Mapping[Stratum, Cell]


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed of a lesson before its own data: the mean lift of lessons, and their standard deviation."""

    mean: float = 0.0
    spread: float = 0.1


@dataclass(frozen=True, slots=True)
class Judgement:
    """What to do with a lesson, and the reason in words."""

    kind: Literal["unknown", "keep", "helps", "retire"]
    reason: str


@dataclass(frozen=True, slots=True)
class Draw:
    """Which lessons of one recall are withheld, and with which probabilities they were drawn.

    ``whole`` says that the draw withheld the whole recall, which measures the lift of the library. ``shares`` has the
    lessons whose share differs from ``share``. ``exempt`` lessons were not drawn one by one: in ledgers of earlier
    versions, those that were shown to help.
    """

    share: float = 0.0
    whole_share: float = 0.0
    whole: bool = False
    withheld: frozenset[str] = frozenset()
    exempt: frozenset[str] = frozenset()
    shares: Mapping[str, float] = field(default_factory=dict)

    def share_of(self, lesson_id: str) -> float:
        """Return the probability with which a lesson was withheld."""
        return self.shares.get(lesson_id, self.share)


NO_DRAW: Final = Draw()


@dataclass(frozen=True, slots=True)
@checked_settings
class Withholding:
    """The draw that makes recall an experiment; off with ``share=0``.

    Each lesson that would be offered is withheld independently with probability ``share`` (0 to 0.5), and the whole
    recall with probability ``whole_share`` (by default a fifth of ``share``), which measures the lift of the library.
    A withheld lesson is not replaced by the next best, so its lift compares it with its absence. The same seed, key and
    lesson give the same draw. A lesson that is shown to help is still withheld, with probability :attr:`floor`:
    otherwise its lift would stay at the value for which it was selected.

    ``early`` (by default ``share``, and never below it) is the share for a lesson without data. It is halved after
    :data:`EARLY_ATTEMPTS` scored attempts, then each time after twice as many more, down to ``share``. So harm is found
    soon, and the cost grows with the logarithm of the attempts (Auer et al. 2002, epsilon-greedy). It depends on how
    many scores there are, never on their values, which would bias the lift.
    """

    share: float = 0.0
    seed: int = 0
    whole_share: float | None = None
    early: float | None = None

    def __post_init__(self) -> None:
        for name in ("share", "whole_share", "early"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value <= _MAX_SHARE:
                raise ConfigurationError(f"{name} must lie in [0, {_MAX_SHARE}], not {value!r}")
        if self.early is None:
            return
        if not self.share:
            raise ConfigurationError(
                "early falls to share, which is 0: give a share above 0, or leave early out"
            )
        if self.early < self.share:
            raise ConfigurationError(
                f"early is the larger share, for the first recalls, but {self.early} is below share {self.share}:"
                " raise it, or leave early out to withhold all lessons alike"
            )

    @property
    def on(self) -> bool:
        """Whether any lesson can be withheld."""
        return bool(self.share or self.whole_share)

    @property
    def floor(self) -> float:
        """The share for a lesson that is shown to help: a quarter of ``share``."""
        return _FLOOR_PART * self.share

    def share_for(self, scored: int) -> float:
        """Return the share for a lesson with this many scored attempts that a draw decided."""
        if self.early is None:
            return self.share
        halvings = int(math.log2(1 + scored / EARLY_ATTEMPTS))
        return max(self.share, math.ldexp(self.early, -halvings))

    def draw(self, key: str, shares: Mapping[str, float]) -> Draw:
        """Draw for one recall, named by its ``key`` (see :func:`recall_key`), over the lessons that it would offer.

        ``shares`` has the probability of each to be withheld: :meth:`share_for`, or :attr:`floor` for one that is shown
        to help.
        """
        whole_share = _WHOLE_PART * self.share if self.whole_share is None else self.whole_share
        # A lesson's id is a string, so that this draw can't be that of a lesson.
        none = self._uniform(key, None) < whole_share
        drawn = (each for each, share in shares.items() if self._uniform(key, each) < share)
        own = {each: share for each, share in shares.items() if share != self.share}
        return Draw(self.share, whole_share, none, frozenset(shares if none else drawn), shares=own)

    def _uniform(self, key: str, lesson_id: str | None) -> float:
        digest = blake2b(json.dumps([self.seed, key, lesson_id]).encode(), digest_size=8).digest()
        return int.from_bytes(digest) / 2**64


def recall_key(run_id: str, attempt: int, task_id: str) -> str:
    """Return the key of a recall for its draw, so that repeating the recall repeats the draw."""
    return json.dumps([run_id, attempt, task_id])


def fifth_of(expected: float | None) -> Stratum:
    """Return the part of a stratum that names the fifth of [0, 1] with the expected score; empty for None."""
    return () if expected is None else (float(min(int(expected * _FIFTHS), _FIFTHS - 1)),)


def lift(cells: Cells, *, least: int = MIN_EACH) -> Lift:
    """Return how much higher attempts score with than without, with a 95 % interval for one look.

    Attempts are compared within strata, weighted by n1 n0 / (n1 + n0) (Mantel and Haenszel 1959). So a change of the
    share withheld that comes with a change of the agent is not mistaken for an effect, and easy and hard tasks add no
    noise. ``value`` is None ("not enough data") with fewer than ``least`` of each.
    """
    n_with, n_without = _counts(cells)
    means = _means(cells, least)
    if means is None:
        return Lift(n_with=n_with, n_without=n_without)
    gain = difference_of_means(*means)
    return Lift(gain.value, gain.low, gain.high, n_with, n_without)


def judge(cells: Cells) -> Judgement:
    """Say whether to retire a lesson: whether an interval that holds at every look lies below zero.

    A lesson of lift zero is ever retired with probability at most :data:`RETIRE_ERROR`, and a helpful one less often.
    The same holds for calling a lesson helpful.
    """
    n_with, n_without = _counts(cells)
    of = f"{n_with} scored attempts with it, {n_without} without"
    means = _means(cells)
    if means is None:
        return Judgement("unknown", f"not enough data: {of}; {MIN_EACH} of each are needed")
    once = difference_of_means(*means)
    # How many standard errors a one-sided bound needs in order to hold at all times at once: Robbins' normal mixture
    # with spread _TYPICAL_LIFT over the effect. A two-sided bound at twice the error is nearly a one-sided bound at it.
    ratio = (_TYPICAL_LIFT / ((once.high - once.low) / (2 * Z95))) ** 2
    z = math.sqrt((1 + 1 / ratio) * (2 * math.log(1 / (2 * ERROR_PART * RETIRE_ERROR)) + math.log1p(ratio)))
    ever = difference_of_means(*means, z=z)
    # No interval for one look is given: after selection it would be too narrow.
    points, low, high = (f"{100 * each:+.0f} points" for each in (once.value, ever.low, ever.high))
    found = f"observed {points} ({of}), at any look {low} to {high}"
    if ever.high < 0.0:
        return Judgement("retire", f"attempts score lower with it: {found}")
    if ever.low > 0.0:
        return Judgement("helps", f"attempts score higher with it: {found}")
    return Judgement("keep", f"neither help nor harm is shown: {found}")


def standard_error(lift: Lift) -> float | None:
    """Return the standard error that corresponds to a lift's interval; None without data."""
    if lift.low is None or lift.high is None:
        return None
    return (lift.high - lift.low) / (2 * Z95)


def shrunken(lift: Lift, prior: Prior) -> Lift:
    """Return a lift shrunk towards the prior's mean; the fewer the data, the more.

    The result is the mean and 95 % interval of the posterior of a normal effect with a normal prior. The data enter as
    the middle of the lift's interval, to which its width belongs; with few scores the plain difference lies farther
    out. As far as the prior is right, the interval holds at every look, and after selection by the data.
    """
    error = standard_error(lift)
    if not error or lift.low is None or lift.high is None:
        return lift
    value = (lift.low + lift.high) / 2
    data, before = 1 / error**2, 1 / prior.spread**2
    mean, spread = (data * value + before * prior.mean) / (data + before), Z95 / math.sqrt(data + before)
    return Lift(mean, mean - spread, mean + spread, lift.n_with, lift.n_without)


def utility(lift: Lift, prior: Prior) -> float:
    """Return the lift to rank by: the :func:`shrunken` one, or the prior's mean without data."""
    value = shrunken(lift, prior).value
    return prior.mean if value is None else value


def prior_of(lifts: Iterable[Lift]) -> Prior:
    """Estimate the prior from a library's own lifts, by moments; the default prior for fewer than ten.

    DerSimonian and Kacker 2007, which comes near to Paule and Mandel 1982.
    """
    known = [
        ((each.low + each.high) / 2, error)
        for each in lifts
        if each.low is not None and each.high is not None and (error := standard_error(each))
    ]
    if len(known) < _PRIOR_FROM:
        return Prior()
    mean, variance = 0.0, 0.0
    # The first step is DerSimonian and Laird's. Lessons without effect have the smallest errors if scores are split by
    # expectation, so weights that ignore the spread would make the whole library look like these lessons.
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
    """Return the weight of the evidence on a lesson, from 1 (just recalled) towards 0."""
    return float(0.5 ** (max(idle_seconds, 0.0) / _DAY / HALF_LIFE_DAYS))


def _counts(cells: Cells) -> tuple[int, int]:
    return sum(c.n_with for c in cells.values()), sum(c.n_without for c in cells.values())


def compared(cells: Cells) -> int:
    """Return the smaller of the numbers of attempts with and without, in strata that have both."""
    both = [cell for cell in cells.values() if cell.n_with and cell.n_without]
    return min(sum(c.n_with for c in both), sum(c.n_without for c in both))


def _means(cells: Cells, least: int = MIN_EACH) -> tuple[Mean, Mean] | None:
    """Return the means without and with, over strata that have both; None if there are too few attempts."""
    if compared(cells) < least:
        return None
    usable = [cell for cell in cells.values() if cell.n_with and cell.n_without]
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
    """Return a weighted mean of means, with the number of scores that would make a plain mean as precise.

    A part is a weight, the sum and number of one group's scores in one stratum, and about the mean of both groups
    there. Only the variance within strata makes the mean uncertain. With few scores that variance could be 0, so each
    stratum counts one more score, at the mean of both groups.
    """
    value = math.fsum(weight * total / n for weight, total, n, _ in parts)
    n = 1 / math.fsum(weight * weight / n for weight, _, n, _ in parts)
    within = math.fsum(w * w / n * _variance(total, n, both) for w, total, n, both in parts)
    everywhere = _variance(value * n, n, math.fsum(weight * both for weight, _, _, both in parts))
    # Sums that were corrected later may be a hair off.
    return Mean(min(max(value, 0.0), 1.0), max(everywhere / within, n))


def _variance(total: float, n: float, one_more: float) -> float:
    """Return the largest variance that scores in [0, 1] with this mean can have."""
    mean = min(max((total + one_more) / (n + 1), 0.0), 1.0)
    return mean * (1 - mean)
