"""``jeeves-reflexion lessons stats``: what the library holds, how it is used, and what it does for scores."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import click

from jeeves_reflexion.cli.lessons.views import brief, lift_words
from jeeves_reflexion.cli.options import over_lessons
from jeeves_reflexion.summary import counted

if TYPE_CHECKING:
    from jeeves_reflexion.cli.lessons.library import Library
    from jeeves_reflexion.lessons import VectorLessonStore
    from jeeves_reflexion.lessons.credit.tally import Credits
    from jeeves_reflexion.types import Lesson
    from vectorstores.base import RecordStore

_MOST_KINDS: Final = 10
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
    from jeeves_reflexion.lessons.credit.records import each_record
    from jeeves_reflexion.lessons.credit.verdicts import OUTCOMES, RECALLS, Verdict

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
    from jeeves_reflexion.cli.lessons.library import all_lessons
    from jeeves_reflexion.lessons.credit.effects import HALF_LIFE_DAYS

    async def read(store: VectorLessonStore) -> tuple[list[Lesson], int, Usage, Credits]:
        held = len(await store.quarantine.all())
        known = await store.ledger.credits(max_age=0.0)
        return await all_lessons(store), held, await usage_of(store.records), known

    lessons, held, usage, known = library.within(read, doing="reading lessons and the ledger")
    lifts = [(known.lift(each.id), each) for each in lessons]
    ranked = sorted((-lift.value, each.id, lift, each) for lift, each in lifts if lift.value is not None)
    best = [(lift, each) for worth, _, lift, each in ranked if worth < 0][:top]
    worst = [(lift, each) for worth, _, lift, each in ranked[::-1] if worth >= 0][:top]
    stale = [each for each in _idle(lessons, usage) if each["days"] >= HALF_LIFE_DAYS]
    by: dict[str, Counter[Any]] = {
        "by_state": Counter(each.state for each in lessons),
        "by_trust": Counter(each.trust for each in lessons),
        "by_kind": Counter(each.task_kind or "" for each in lessons),
        "by_support": Counter(sorted(each.support for each in lessons)),
    }
    if library.as_json:
        numbers = {**usage.counts, "share_withheld": usage.share_withheld()}
        ends = {
            name: [{"lesson": each, "lift": lift} for lift, each in found]
            for name, found in (("helps_most", best), ("helps_least", worst))
        }
        lift, stalest = known.library_lift(), {"stale": len(stale), "stalest": stale[:top]}
        held_too = {"count": len(lessons), **by, "quarantine": held}
        library.give({**held_too, **numbers, "library_lift": lift, **ends, **stalest})
        return
    waiting = counted(by["by_state"]["proposed"], "proposed lesson")
    library.screen.details(
        {
            "lessons": str(len(lessons)),
            **_holds(by),
            **_use(usage, known, len(ranked)),
            "stale": f"{counted(len(stale), 'lesson')} not recalled for {HALF_LIFE_DAYS:.0f} days",
            "waiting": f"{waiting}, {counted(held, 'text')} in quarantine",
        }
    )
    for what, found in (("helps most", best), ("helps least", worst)):
        for lift, each in found:
            library.screen.entry(brief(each, what=what, state=each.state, lift=lift_words(lift)))
    for one in stale[:top]:
        since = f"{'not' if one['ever'] else 'never'} recalled in {one['days']:.0f} days"
        library.screen.entry(brief(one["lesson"], what="stale", state=one["lesson"].state, since=since))


def _idle(lessons: Sequence[Lesson], usage: Usage) -> list[dict[str, Any]]:
    """The active lessons with the days since their last recall, the longest first; ``ever``: that there was one."""
    now = time.time()
    found = [
        {"lesson": each, "days": usage.idle_days(each, now), "ever": each.id in usage.last}
        for each in lessons
        if each.state == "active" and (each.provenance.created_at or each.id in usage.last)
    ]
    return sorted(found, key=lambda each: -each["days"])


def _holds(by: Mapping[str, Counter[Any]]) -> dict[str, str]:
    kinds = {kind or "without a kind": number for kind, number in by["by_kind"].most_common(_MOST_KINDS)}
    more, once = len(by["by_kind"]) - len(kinds), by["by_support"][1]
    return {
        "state": _tallied(by["by_state"]),
        "trust": _tallied(by["by_trust"]),
        "kind of task": _tallied(kinds) + (f", and {more} more kinds" if more else ""),
        "learned": f"{once} once, {by['by_support'].total() - once} more often",
    }


def _tallied(counts: Mapping[str, int]) -> str:
    """Counts by name on one line, the largest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{number} {name}" for name, number in ordered)


def _use(usage: Usage, known: Credits, with_lift: int) -> dict[str, str]:
    from jeeves_reflexion.lessons.credit.effects import MIN_EACH

    counts, library_lift = usage.counts, known.library_lift()
    empty = f", {counts['recalls_empty']} of them without a lesson" if counts["recalls_empty"] else ""
    whole = counts["recalls_withheld_whole"]
    of_whole = f"; {counted(whole, 'recall')} as a whole" if whole else ""
    drawn = f"{counts['lessons_withheld']} withheld by the draw ({usage.share_withheld():.0%}{of_whole})"
    offered = f"{counted(counts['lessons_offered'], 'lesson')} offered, {drawn}"
    later = f"; {counted(counts['later_scores'], 'score')} given later" if counts["later_scores"] else ""
    compared = "" if library_lift.value is None else ": recalling against not recalling"
    lifts = f"known of {counted(with_lift, 'lesson')}"
    if not with_lift:
        lifts = (
            f"known of none: a lesson needs {MIN_EACH} scored attempts with it and {MIN_EACH} drawn without"
        )
    return {
        "recalls": f"{counts['recalls']}{empty}; {offered}" if counts["recalls"] else "none",
        "scored": f"{counted(counts['scored_attempts'], 'attempt')}{later}",
        "library lift": lift_words(library_lift) + compared,
        "lesson lifts": lifts,
    }
