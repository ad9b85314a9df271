"""What another way of recalling would have scored, told from the log of a store that withheld lessons at random.

Attempts that happened to have what the other policy would have offered stand for all, each by the inverse of the chance
that it had just that (Horvitz and Thompson 1952), self-normalised (Hajek 1971; Swaminathan and Joachims 2015). Only
what the draw could have done can be told: fewer of the lessons that were recalled, never others. And only of the
recalls as they came: another policy would have had other failures, and so other lessons and further attempts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons.credit.records import each_record
from jeeves_reflexion.lessons.credit.verdicts import OUTCOMES, RECALLS, Verdict, draw_of
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.statistics import Z95, Difference
from vectorstores.base import RecordStore

LEAST_EFFECTIVE: Final = 30.0
"""The least effective number of attempts from which anything is said."""

PolicyOrder: TypeAlias = Literal["nearest", "newest", "oldest"]


@dataclass(frozen=True, slots=True)
class Policy:
    """Which of the lessons that were recalled are kept: the first ``k`` in an order, none below the ``floor``.

    Withholding goes on as it was logged. None changes nothing.
    """

    k: int | None = None
    floor: float | None = None
    order: PolicyOrder = "nearest"


@dataclass(frozen=True, slots=True)
class LoggedLesson:
    """A lesson that a recall found: its similarity, the share by which it was drawn, and whether it was withheld.

    ``created_at`` is None for one that is no longer in the store.
    """

    id: str
    similarity: float
    share: float
    withheld: bool
    created_at: float | None = None


@dataclass(frozen=True, slots=True)
class LoggedRecall:
    """A recall with the score of its attempt; ``whole`` says that one draw withheld all of it."""

    score: float
    found: tuple[LoggedLesson, ...]
    whole: bool = False


@dataclass(frozen=True, slots=True)
class PolicyValue:
    """What a policy is estimated to score per attempt, what was ``observed``, and the gain with its 95 % interval.

    Of so many ``recalls`` it would have ``changed`` so many; the attempts that tell what these would have scored are
    worth as many as ``effective`` (Kish 1965).
    """

    value: float
    observed: float
    gain: Difference
    recalls: int
    changed: int
    effective: float


def policy_value(log: Sequence[LoggedRecall], policy: Policy) -> PolicyValue:
    """Estimate what a policy would have scored; raises :class:`LessonStoreError` where that can't be said."""
    if not log:
        raise LessonStoreError("it can't be said: no recall in the log has a scored attempt")
    _check_reach(log, policy)
    # A recall that one draw withheld as a whole has nothing under either policy.
    dropped = [[] if recall.whole else _dropped(recall, policy) for recall in log]
    never = sum(any(not each.share for each in lessons) for lessons in dropped)
    if never:
        raise LessonStoreError(
            f"it can't be said: {never} of {len(log)} recalls offered a lesson that the policy leaves out and that was"
            " never withheld from such a recall; withhold each lesson at random first"
        )
    observed = math.fsum(recall.score for recall in log) / len(log)
    # Which recalls change depends on what was found and not on the draw, so that the others need no weights.
    changed = [
        (recall.score, _weight(lessons)) for recall, lessons in zip(log, dropped, strict=True) if lessons
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
    # What each attempt adds to the difference, by the delta method.
    adds = [weight / total * (score - new) - (score - old) / len(changed) for score, weight in changed]
    gain, spread = part * (new - old), part * Z95 * math.sqrt(math.fsum(each * each for each in adds))
    return PolicyValue(
        observed + gain,
        observed,
        Difference(gain, gain - spread, gain + spread),
        len(log),
        len(changed),
        effective,
    )


async def read_log(records: RecordStore, created_at: Mapping[str, float]) -> list[LoggedRecall]:
    """Read the recalls that have a scored attempt from a ledger; ``created_at`` says when lessons were written."""
    async with store_errors("read the ledger"):
        counts: dict[str, float] = {}
        async for record in each_record(records, OUTCOMES):
            verdict, recall_id = Verdict.read(record), record.key.partition(":")[0]
            if verdict.counts is not None:
                # Each verdict says what it changes, so that they add up in any order.
                change = verdict.counts - (verdict.before or 0.0)
                counts[recall_id] = counts.get(recall_id, 0.0) + change
        return [
            _logged(cast("Mapping[str, Any]", record.value), counts[record.key], created_at)
            async for record in each_record(records, RECALLS)
            if record.key in counts
        ]


def _logged(entry: Mapping[str, Any], score: float, created_at: Mapping[str, float]) -> LoggedRecall:
    draw = draw_of(entry)
    found = [
        LoggedLesson(
            item["lesson_id"],
            item["similarity"],
            0.0 if item["lesson_id"] in draw.exempt else draw.share_of(item["lesson_id"]),
            withheld,
            created_at.get(item["lesson_id"]),
        )
        for part, withheld in (("offered", False), ("withheld", True))
        for item in entry[part]
    ]
    return LoggedRecall(score, tuple(found), draw.whole)


def _check_reach(log: Sequence[LoggedRecall], policy: Policy) -> None:
    """Raise for a policy that would have recalled what the log's did not."""
    most = max(len(recall.found) for recall in log)
    if policy.k is not None and policy.k < 1:
        raise ConfigurationError(f"k must be at least 1, not {policy.k}")
    if policy.k is not None and policy.k > most:
        raise LessonStoreError(
            f"it can't be said: no recall in the log found more than {most} lessons, so what {policy.k} would have done"
            " was never tried"
        )
    least = min((each.similarity for recall in log for each in recall.found), default=math.inf)
    if policy.floor is not None and policy.floor < least:
        raise LessonStoreError(
            f"it can't be said: nothing in the log is below {least:.2f}, so what a floor of {policy.floor:.2f} would"
            " have let in was never tried"
        )


def _dropped(recall: LoggedRecall, policy: Policy) -> list[LoggedLesson]:
    """What the policy would have left out of a recall."""

    def place(lesson: LoggedLesson) -> tuple[float, str]:
        # Equals by their ids: in the order of the log, what was offered stands before what was withheld.
        if policy.order == "nearest":
            return -lesson.similarity, lesson.id
        if lesson.created_at is None:
            raise LessonStoreError(
                f"it can't be said: the lesson {lesson.id} is not in the store any more, so its age is not known"
            )
        return lesson.created_at if policy.order == "oldest" else -lesson.created_at, lesson.id

    if policy.k is None and policy.floor is None:
        return []
    near = [each for each in recall.found if policy.floor is None or each.similarity >= policy.floor]
    kept = {each.id for each in (near if policy.k is None else sorted(near, key=place)[: policy.k])}
    return [each for each in recall.found if each.id not in kept]


def _weight(dropped: Sequence[LoggedLesson]) -> float:
    """How much likelier the policy makes what an attempt had than the log's policy did."""
    return math.prod(1 / each.share if each.withheld else 0.0 for each in dropped)
