"""What another recall policy would have scored, estimated from the log of a store that withheld lessons at random.

Attempts that happened to have what the other policy would have offered represent all attempts, each weighted by the
inverse of the probability of that (Horvitz and Thompson 1952), self-normalised (Hajek 1971; Swaminathan and Joachims
2015). This can only estimate what the draw could have done: offer fewer of the recalled lessons, never other ones. It
takes the recalls as they came, although another policy would have led to other failures, lessons and attempts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.lessons.credit.records import each_record
from jeeves_reflexion.lessons.credit.verdicts import OUTCOMES, RECALLS, Verdict, draw_of
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.statistics import Z95, Difference
from jeeves_reflexion.values import check_whole
from vectorstores.base import RecordStore

LEAST_EFFECTIVE: Final = 30.0
"""The least effective number of attempts that an estimate needs."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Which of the lessons that were recalled are kept: the ``k`` nearest, none below the ``floor``.

    Withholding stays as logged. None leaves a setting as it was.
    """

    k: int | None = None
    floor: float | None = None


@dataclass(frozen=True, slots=True)
class LoggedLesson:
    """A lesson that a recall found: its similarity, its share in the draw, and whether it was withheld."""

    id: str
    similarity: float
    share: float
    withheld: bool


@dataclass(frozen=True, slots=True)
class LoggedRecall:
    """A recall with the score of its attempt; ``whole`` says that it was withheld as a whole."""

    score: float
    found: tuple[LoggedLesson, ...]
    whole: bool = False


@dataclass(frozen=True, slots=True)
class PolicyValue:
    """The estimated mean score of a policy, the ``observed`` mean, and the gain with its 95 % interval.

    ``recalls`` is the number of recalls, ``changed`` of those that the policy would have changed, and ``effective`` the
    effective sample size (Kish 1965) behind the estimate for these.
    """

    value: float
    observed: float
    gain: Difference
    recalls: int
    changed: int
    effective: float


def policy_value(log: Sequence[LoggedRecall], policy: Policy) -> PolicyValue:
    """Estimate what a policy would have scored; raises :class:`LessonStoreError` if the log can't tell."""
    if not log:
        raise LessonStoreError("it can't be said: no recall in the log has a scored attempt")
    _check_reach(log, policy)
    # A recall that was withheld as a whole offers nothing under either policy.
    dropped = [[] if recall.whole else _dropped(recall, policy) for recall in log]
    never = sum(any(not each.share for each in lessons) for lessons in dropped)
    if never:
        raise LessonStoreError(
            f"it can't be said: {never} of {len(log)} recalls offered a lesson that the policy leaves out and that was"
            " never withheld from such a recall; withhold each lesson at random first"
        )
    observed = math.fsum(recall.score for recall in log) / len(log)
    # Whether a recall changes depends on what was found, not on the draw, so the others need no weights.
    changed = [
        # How much likelier the policy makes what the attempt had than the logged policy did.
        (recall.score, math.prod(1 / each.share if each.withheld else 0.0 for each in lessons))
        for recall, lessons in zip(log, dropped, strict=True)
        if lessons
    ]
    if not changed:
        return PolicyValue(observed, observed, Difference(0.0, 0.0, 0.0), len(log), 0, 0.0)
    total = math.fsum(weight for _, weight in changed)
    effective = total**2 / math.fsum(weight**2 for _, weight in changed) if total else 0.0
    if effective < LEAST_EFFECTIVE:
        raise LessonStoreError(
            f"it can't be said: of {len(changed)} attempts that the policy would have changed,"
            f" {sum(weight > 0 for _, weight in changed)} happened to have what it would have offered, worth"
            f" {effective:.1f}, and {LEAST_EFFECTIVE:.0f} are needed; withhold a larger share, go on for longer, or ask"
            " for a smaller change"
        )
    new = math.fsum(weight * score for score, weight in changed) / total
    old = math.fsum(score for score, _ in changed) / len(changed)
    part = len(changed) / len(log)
    # The influence of each attempt on the difference, by the delta method.
    influences = [weight / total * (score - new) - (score - old) / len(changed) for score, weight in changed]
    gain, spread = part * (new - old), part * Z95 * math.sqrt(math.fsum(each * each for each in influences))
    return PolicyValue(
        observed + gain,
        observed,
        Difference(gain, gain - spread, gain + spread),
        len(log),
        len(changed),
        effective,
    )


async def read_log(records: RecordStore) -> list[LoggedRecall]:
    """Read a ledger's recalls with a scored attempt."""
    async with store_errors("read the ledger"):
        counts: dict[str, float] = {}
        async for record in each_record(records, OUTCOMES):
            verdict, recall_id = Verdict.read(record), record.key.partition(":")[0]
            if verdict.counts is not None:
                # Each verdict holds the change that it makes, so their order does not matter.
                change = verdict.counts - (verdict.before or 0.0)
                counts[recall_id] = counts.get(recall_id, 0.0) + change
        log = []
        async for record in each_record(records, RECALLS):
            if record.key in counts:
                entry = cast("Mapping[str, Any]", record.value)
                draw = draw_of(entry)
                found = [
                    LoggedLesson(
                        item["lesson_id"],
                        item["similarity"],
                        0.0 if item["lesson_id"] in draw.exempt else draw.share_of(item["lesson_id"]),
                        withheld,
                    )
                    for part, withheld in (("offered", False), ("withheld", True))
                    for item in entry[part]
                ]
                log.append(LoggedRecall(counts[record.key], tuple(found), draw.whole))
        return log


def _check_reach(log: Sequence[LoggedRecall], policy: Policy) -> None:
    """Raise if a policy would have offered lessons that were not recalled."""
    k = 0 if policy.k is None else check_whole("k", policy.k)
    most = max(len(recall.found) for recall in log)
    least = min((each.similarity for recall in log for each in recall.found), default=1.0)
    if k > most or (policy.floor is not None and policy.floor < least):
        raise LessonStoreError(
            f"it can't be said: no recall in the log found more than {most} lessons or one below {least:.2f}, so what"
            " more would have done was never tried"
        )


def _dropped(recall: LoggedRecall, policy: Policy) -> list[LoggedLesson]:
    """Return the lessons of a recall that the policy would have left out."""
    # Ties are broken by id: the log's own order, offered before withheld, depends on the draw.
    nearest = sorted(recall.found, key=lambda each: (-each.similarity, each.id))
    kept = [each for each in nearest if policy.floor is None or each.similarity >= policy.floor][: policy.k]
    return [each for each in recall.found if each not in kept]
