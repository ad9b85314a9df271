"""``jeeves-reflexion lessons stats``: what the library holds, how it is used, and what it does for scores."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from jeeves_reflexion.cli.lessons.service import LessonService, all_lessons
from jeeves_reflexion.cli.lessons.views import lift_words, short, tallied
from jeeves_reflexion.cli.plain import as_json as plain
from jeeves_reflexion.cli.service import counted
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.lessons.credit.effects import HALF_LIFE_DAYS, MIN_EACH, staleness
from jeeves_reflexion.lessons.credit.records import each_record
from jeeves_reflexion.lessons.credit.tally import Credits
from jeeves_reflexion.lessons.credit.verdicts import OUTCOMES, RECALLS, Verdict
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.types import JSON, Lesson, Lift
from vectorstores.base import Record, RecordStore

DAY: Final = 86_400.0
_MOST_KINDS: Final = 10
_FEW: Final = 4


@dataclass
class Usage:
    """Counts over a ledger; times are in seconds since 1970, 0: never.

    ``empty`` recalls found nothing to offer, ``whole`` were withheld as a whole. ``offered`` and ``withheld`` count
    lessons, ``scored`` attempts with a score that counts, ``later`` scores that people gave afterwards. ``last`` says
    of each lesson when it was last offered or withheld.
    """

    recalls: int = 0
    empty: int = 0
    whole: int = 0
    offered: int = 0
    withheld: int = 0
    scored: int = 0
    later: int = 0
    latest: float = 0.0
    last: dict[str, float] = field(default_factory=dict)

    @property
    def share_withheld(self) -> float:
        """The share of lessons that the draw kept back, among those that would have been offered."""
        return self.withheld / max(self.offered + self.withheld, 1)

    def idle_days(self, lesson: Lesson, now: float) -> float:
        """Return the days since a lesson was last recalled, or written if that was later."""
        return max(now - max(self.last.get(lesson.id, 0.0), lesson.provenance.created_at), 0.0) / DAY


async def usage_of(records: RecordStore) -> Usage:
    """Read a ledger from its beginning."""
    usage = Usage()
    async with store_errors("read the ledger"):
        async for record in each_record(records, RECALLS):
            _count_recall(usage, record)
        async for record in each_record(records, OUTCOMES):
            verdict = Verdict.read(record)
            usage.scored += verdict.before is None and verdict.counts is not None
            usage.later += verdict.kind == "feedback"
    return usage


def _count_recall(usage: Usage, record: Record) -> None:
    entry = cast("Mapping[str, JSON]", record.value)
    offered = _ids(entry.get("offered"))
    # In the first format these did not fit the budget: no draw kept them back.
    withheld = _ids(entry.get("withheld")) if "format" in entry else []
    draw = entry.get("draw")
    usage.recalls += 1
    usage.empty += not offered and not withheld
    usage.whole += isinstance(draw, Mapping) and bool(draw.get("whole"))
    usage.offered += len(offered)
    usage.withheld += len(withheld)
    at = cast("float", entry.get("at") or 0.0)
    usage.latest = max(usage.latest, at)
    for lesson_id in (*offered, *withheld):
        usage.last[lesson_id] = max(usage.last.get(lesson_id, 0.0), at)


def _ids(items: JSON) -> list[str]:
    return [str(item["lesson_id"]) for item in cast("Sequence[Mapping[str, JSON]]", items or ())]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A lesson with what is known of its effect."""

    lesson: Lesson
    lift: Lift


@dataclass(frozen=True, slots=True)
class Stale:
    """An active lesson that was not recalled for long; ``ever``: that it was before."""

    lesson: Lesson
    days: float
    ever: bool


@dataclass(frozen=True, slots=True)
class Stats:
    """What is known of a library at one time."""

    lessons: Sequence[Lesson]
    held: int
    usage: Usage
    credits: Credits
    now: float

    def ranked(self) -> list[Ranked]:
        """Return the lessons with enough data, those that help most first."""
        known = [Ranked(lesson, self.credits.lift(lesson.id)) for lesson in self.lessons]
        return sorted((each for each in known if each.lift.value is not None), key=_by_lift)

    def stale(self) -> list[Stale]:
        """Return the active lessons that were not recalled for a half-life, the longest first."""
        found = [
            Stale(each, self.usage.idle_days(each, self.now), each.id in self.usage.last)
            for each in self.lessons
            if each.state == "active" and (each.provenance.created_at or each.id in self.usage.last)
        ]
        return sorted((each for each in found if each.days >= HALF_LIFE_DAYS), key=lambda each: -each.days)

    def by(self, what: str) -> Counter[str]:
        """Count the lessons by one of their fields."""
        return Counter(str(getattr(lesson, what) or "without a kind") for lesson in self.lessons)

    def supports(self) -> Counter[str]:
        """Count the lessons by how often they were learned."""
        return Counter(
            "once"
            if each.support <= 1
            else f"from 2 to {_FEW} times"
            if each.support <= _FEW
            else "more often"
            for each in self.lessons
        )


class StatsService(LessonService):
    """Prints the statistics of a library."""

    def stats(self, top: int) -> None:
        """Print them, with the ``top`` lessons that help most, help least, and are stalest."""
        stats = self._read(self._stats)
        ranked = stats.ranked()
        best = [each for each in ranked if (each.lift.value or 0.0) > 0.0][:top]
        worst = [each for each in reversed(ranked) if (each.lift.value or 0.0) <= 0.0][:top]
        stale = stats.stale()
        if self._as_json:
            self._as_document(stats, best, worst, stale[:top], len(stale))
            return
        self._screen.details(_overview(stats, len(ranked), len(stale)))
        for name, found in (("helps most", best), ("helps least", worst)):
            for each in found:
                about = {"what": name, "state": each.lesson.state, "lift": lift_words(each.lift)}
                self._screen.entry({"id": short(each.lesson.id), **about, "lesson": each.lesson.text})
        for one in stale[:top]:
            about = {"what": "stale", "state": one.lesson.state, "since": _staleness(one)}
            self._screen.entry({"id": short(one.lesson.id), **about, "lesson": one.lesson.text})

    def _as_document(
        self,
        stats: Stats,
        best: Sequence[Ranked],
        worst: Sequence[Ranked],
        stale: Sequence[Stale],
        number: int,
    ) -> None:
        usage = stats.usage
        self._document(
            {
                "count": len(stats.lessons),
                "by_state": dict(stats.by("state")),
                "by_trust": dict(stats.by("trust")),
                "by_kind": dict(Counter(each.task_kind or "" for each in stats.lessons)),
                "by_support": {
                    str(n): k for n, k in sorted(Counter(each.support for each in stats.lessons).items())
                },
                "quarantine": stats.held,
                "recalls": usage.recalls,
                "recalls_empty": usage.empty,
                "recalls_withheld_whole": usage.whole,
                "lessons_offered": usage.offered,
                "lessons_withheld": usage.withheld,
                "share_withheld": usage.share_withheld,
                "scored_attempts": usage.scored,
                "later_scores": usage.later,
                "library_lift": plain(stats.credits.library_lift()),
                "helps_most": [plain(each) for each in best],
                "helps_least": [plain(each) for each in worst],
                "stale": number,
                "stalest": [plain(each) for each in stale],
            }
        )

    async def _stats(self, store: VectorLessonStore) -> Stats:
        with self._screen.busy():
            self._screen.waiting_for("reading lessons")
            lessons = await all_lessons(store)
            async with store_errors("read the quarantine"):
                held = len(await store.quarantine.all())
            self._screen.waiting_for("reading the ledger")
            usage = await usage_of(store.records)
            known = await store.ledger.credits(max_age=0.0)
        return Stats(lessons, held, usage, known, time.time())


def _overview(stats: Stats, with_lift: int, stale: int) -> dict[str, str]:
    usage, waiting = stats.usage, stats.by("state")["proposed"]
    kinds = stats.by("task_kind")
    shown = dict(kinds.most_common(_MOST_KINDS))
    rest = f", and {len(kinds) - len(shown)} more kinds" if len(kinds) > len(shown) else ""
    overview = {"lessons": f"{len(stats.lessons)}"}
    if stats.lessons:
        overview |= {
            "state": tallied(stats.by("state")),
            "trust": tallied(stats.by("trust")),
            "kind of task": tallied(shown) + rest,
            "learned": tallied(stats.supports()),
        }
    overview["recalls"] = _recalls(usage)
    overview["scored"] = counted(usage.scored, "attempt") + (
        f"; {counted(usage.later, 'score')} given later" if usage.later else ""
    )
    overview["library lift"] = _library_lift(stats)
    overview["lesson lifts"] = (
        f"known of {counted(with_lift, 'lesson')}"
        if with_lift
        else f"known of none: a lesson needs {MIN_EACH} scored attempts with it and {MIN_EACH} drawn without"
    )
    overview["stale"] = f"{counted(stale, 'lesson')} not recalled for {HALF_LIFE_DAYS:.0f} days"
    held = f"{counted(stats.held, 'text')} in quarantine"
    overview["waiting"] = f"{counted(waiting, 'proposed lesson')}, {held}"
    return overview


def _recalls(usage: Usage) -> str:
    if not usage.recalls:
        return "none"
    empty = f", {usage.empty} of them without a lesson" if usage.empty else ""
    whole = f"; {counted(usage.whole, 'recall')} as a whole" if usage.whole else ""
    share = f", {usage.withheld} withheld by the draw ({usage.share_withheld:.0%}{whole})"
    drawn = share if usage.withheld else ", none withheld"
    return f"{usage.recalls}{empty}; {counted(usage.offered, 'lesson')} offered{drawn}"


def _library_lift(stats: Stats) -> str:
    lift = stats.credits.library_lift()
    words = lift_words(lift)
    return words if lift.value is None else f"{words}: recalling against not recalling"


def _staleness(one: Stale) -> str:
    if one.ever:
        return staleness(one.days * DAY)
    return f"never recalled in {one.days:.0f} days"


def _by_lift(each: Ranked) -> tuple[float, str]:
    return -(each.lift.value or 0.0), each.lesson.id
