"""``jeeves-reflexion lessons stats``: what the library holds, how it is used, and what it does for scores."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import click

from jeeves_reflexion.cli.lessons.library import Library, all_lessons, brief, over_lessons
from jeeves_reflexion.cli.screen import lift_words
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.lessons.credit.effects import HALF_LIFE_DAYS
from jeeves_reflexion.lessons.credit.records import each_record
from jeeves_reflexion.lessons.credit.tally import Credits
from jeeves_reflexion.lessons.credit.verdicts import OUTCOMES, RECALLS, Verdict
from jeeves_reflexion.types import Lesson
from vectorstores.base import RecordStore

_COUNTS: Final = (
    "recalls",
    "recalls_empty",  # found nothing to offer
    "recalls_withheld_whole",
    "lessons_offered",
    "lessons_withheld",
    "scored_attempts",  # with a score that counts
    "later_scores",  # that people gave afterwards
)


@dataclass
class Usage:
    """Counts over a ledger, when it was last written to, and when each lesson was last offered or withheld.

    Times are in seconds since 1970, 0: never.
    """

    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(_COUNTS, 0)))
    latest: float = 0.0
    last: dict[str, float] = field(default_factory=dict)

    def share_withheld(self) -> float:
        """Return the share of lessons that the draw kept back, among those that would have been offered."""
        offered, withheld = self.counts["lessons_offered"], self.counts["lessons_withheld"]
        return withheld / max(offered + withheld, 1)

    def idle_days(self, lesson: Lesson, now: float) -> float:
        """Return the days since a lesson was last recalled, or written if that was later."""
        return max(now - max(self.last.get(lesson.id, 0.0), lesson.provenance.created_at), 0.0) / 86_400.0


async def usage_of(records: RecordStore) -> Usage:
    """Read a ledger from its beginning."""
    usage = Usage()
    async for record in each_record(records, RECALLS):
        _count_recall(usage, cast("Mapping[str, Any]", record.value))
    async for record in each_record(records, OUTCOMES):
        verdict = Verdict.read(record)
        usage.counts["scored_attempts"] += verdict.before is None and verdict.counts is not None
        usage.counts["later_scores"] += verdict.kind == "feedback"
    return usage


def _count_recall(usage: Usage, entry: Mapping[str, Any]) -> None:
    offered = [str(item["lesson_id"]) for item in entry.get("offered") or ()]
    withheld = [str(item["lesson_id"]) for item in entry.get("withheld") or ()]
    if "format" not in entry:  # in the first format these did not fit the budget: no draw kept them back
        withheld = []
    usage.counts["recalls"] += 1
    usage.counts["recalls_empty"] += not offered and not withheld
    usage.counts["recalls_withheld_whole"] += bool((entry.get("draw") or {}).get("whole"))
    usage.counts["lessons_offered"] += len(offered)
    usage.counts["lessons_withheld"] += len(withheld)
    at = float(entry.get("at") or 0.0)
    usage.latest = max(usage.latest, at)
    for lesson_id in (*offered, *withheld):
        usage.last[lesson_id] = max(usage.last.get(lesson_id, 0.0), at)


@click.command(short_help="The library in numbers: use, lift, stale lessons.")
@click.option(
    "--top",
    metavar="N",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="How many lessons to name of those that help most, help least, and are stale.",
)
@over_lessons
def stats(library: Library, top: int) -> None:
    """Show what the library holds, how it is used, and what it does for scores."""

    async def read(store: VectorLessonStore) -> tuple[list[Lesson], int, Usage, Credits]:
        held = len(await store.quarantine.all())
        known = await store.ledger.credits(max_age=0.0)
        return await all_lessons(store), held, await usage_of(store.records), known

    lessons, held, usage, known = library.within(read, doing="reading lessons and the ledger")
    ranked = _ranked(lessons, known)
    best = [each for each in ranked if each["lift"].value > 0][:top]
    worst = [each for each in ranked[::-1] if each["lift"].value <= 0][:top]
    stale = [each for each in _idle(lessons, usage) if each["days"] >= HALF_LIFE_DAYS]
    numbers = {
        "count": len(lessons),
        "by_state": Counter(each.state for each in lessons),
        "by_trust": Counter(each.trust for each in lessons),
        "by_kind": Counter(each.task_kind or "" for each in lessons),
        "by_support": Counter(sorted(each.support for each in lessons)),
        "quarantine": held,
        **usage.counts,
        "share_withheld": usage.share_withheld(),
        "library_lift": known.library_lift(),
        "stale": len(stale),
    }
    library.give(
        {**numbers, "helps_most": best, "helps_least": worst, "stalest": stale[:top]},
        details=(numbers,),
        rows=[
            *(_row("helps most", each, lift_words(each["lift"])) for each in best),
            *(_row("helps least", each, lift_words(each["lift"])) for each in worst),
            *(
                _row(
                    "stale", each, f"{'not' if each['ever'] else 'never'} recalled in {each['days']:.0f} days"
                )
                for each in stale[:top]
            ),
        ],
    )


def _row(what: str, about: Mapping[str, Any], known: str) -> dict[str, str]:
    return brief(about["lesson"], what=what, state=about["lesson"].state, known=known)


def _ranked(lessons: Sequence[Lesson], known: Credits) -> list[dict[str, Any]]:
    """The lessons with enough data, those that help most first."""
    lifts = ((each, known.lift(each.id)) for each in lessons)
    found: list[dict[str, Any]] = [
        {"lesson": each, "lift": lift} for each, lift in lifts if lift.value is not None
    ]
    return sorted(found, key=lambda each: (-each["lift"].value, each["lesson"].id))


def _idle(lessons: Sequence[Lesson], usage: Usage) -> list[dict[str, Any]]:
    """The active lessons with the days since their last recall, the longest first; ``ever``: that there was one."""
    now = time.time()
    found = [
        {"lesson": each, "days": usage.idle_days(each, now), "ever": each.id in usage.last}
        for each in lessons
        if each.state == "active" and (each.provenance.created_at or each.id in usage.last)
    ]
    return sorted(found, key=lambda each: -each["days"])
