"""``jeeves-reflexion lessons stats``: what the library holds, how it is used, and what it does for scores."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
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


async def _usage(records: RecordStore) -> tuple[Counter[str], dict[str, float]]:
    """Read a ledger: counts, and when each lesson was last offered or withheld, in seconds since 1970."""
    counts, last = Counter(dict.fromkeys(_COUNTS, 0)), dict[str, float]()
    async for record in each_record(records, RECALLS):
        entry = cast("Mapping[str, Any]", record.value)
        offered, withheld = entry.get("offered") or (), entry.get("withheld") or ()
        counts["recalls"] += 1
        counts["recalls_empty"] += not offered and not withheld
        counts["recalls_withheld_whole"] += bool((entry.get("draw") or {}).get("whole"))
        counts["lessons_offered"] += len(offered)
        counts["lessons_withheld"] += len(withheld)
        for item in (*offered, *withheld):
            lesson_id = str(item["lesson_id"])
            last[lesson_id] = max(last.get(lesson_id, 0.0), float(entry.get("at") or 0.0))
    async for record in each_record(records, OUTCOMES):
        verdict = Verdict.read(record)
        counts["scored_attempts"] += verdict.before is None and verdict.counts is not None
        counts["later_scores"] += verdict.kind == "feedback"
    return counts, last


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

    async def read(store: VectorLessonStore) -> tuple[list[Lesson], int, Credits]:
        held = len(await store.quarantine.all())
        return await all_lessons(store), held, await store.ledger.credits(max_age=0.0)

    lessons, held, known = library.within(read, doing="reading lessons")
    counts, last = library.within(lambda store: _usage(store.records), doing="reading the ledger")
    offered, withheld = counts["lessons_offered"], counts["lessons_withheld"]
    ranked = _ranked(lessons, known)
    best = [each for each in ranked if each["lift"].value > 0][:top]
    worst = [each for each in ranked[::-1] if each["lift"].value <= 0][:top]
    stale = [each for each in _idle(lessons, last) if each["days"] >= HALF_LIFE_DAYS]
    numbers = {
        "count": len(lessons),
        "by_state": Counter(each.state for each in lessons),
        "by_trust": Counter(each.trust for each in lessons),
        "by_kind": Counter(each.task_kind or "" for each in lessons),
        "by_support": Counter(sorted(each.support for each in lessons)),
        "quarantine": held,
        **counts,
        "share_withheld": withheld / (offered + withheld) if offered + withheld else None,
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


def _idle(lessons: Sequence[Lesson], last: Mapping[str, float]) -> list[dict[str, Any]]:
    """The active lessons with the days since their last recall, the longest first; ``ever``: that there was one."""
    found = []
    for each in lessons:
        since = max(last.get(each.id, 0.0), each.provenance.created_at)
        if each.state == "active" and since:
            days = max(time.time() - since, 0.0) / 86_400.0
            found.append({"lesson": each, "days": days, "ever": each.id in last})
    return sorted(found, key=lambda each: -cast("float", each["days"]))
