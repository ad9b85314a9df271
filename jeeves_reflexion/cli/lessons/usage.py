"""``jeeves-reflexion lessons``: how lessons are used, their effect on scores, and what a task would recall."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, cast

import click

from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.lessons.library import (
    Library,
    all_lessons,
    brief,
    over_lessons,
    task_excerpt,
)
from jeeves_reflexion.cli.stores import credit_of
from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.lessons import LessonSettings, VectorLessonStore
from jeeves_reflexion.lessons.credit.effects import HALF_LIFE_DAYS
from jeeves_reflexion.lessons.credit.policies import (
    LoggedRecall,
    Policy,
    policy_value,
    read_log,
)
from jeeves_reflexion.lessons.credit.records import each_record
from jeeves_reflexion.lessons.credit.verdicts import OUTCOMES, RECALLS, Verdict
from jeeves_reflexion.redaction import redact_record
from jeeves_reflexion.summary import counted, lift_words
from jeeves_reflexion.types import Lesson, Task
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
_NAMED: Final = 5


async def _usage(records: RecordStore) -> tuple[Counter[str], dict[str, float]]:
    """Read a ledger: the counts, and when each lesson was last offered or withheld, in seconds since 1970."""
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


@click.command(short_help="Count lessons, and show their use and lift.")
@over_lessons()
async def stats(library: Library) -> None:
    """Count the lessons, and show how they are used and what they do for scores.

    Lists five lessons that help most, five that help least, and five that were not recalled for 90 days.
    """
    async with library.open() as store:
        lessons, held = await all_lessons(store), len(await store.quarantine.all())
        known = await store.ledger.credits(max_age=0.0)
        counts, last = await _usage(store.records)

    # Lessons with enough data, most helpful first.
    ranked: list[dict[str, Any]] = [{"lesson": each, "lift": known.lift(each.id)} for each in lessons]
    ranked = [each for each in ranked if each["lift"].value is not None]
    ranked.sort(key=lambda each: (-each["lift"].value, each["lesson"].id))
    best = [each for each in ranked if each["lift"].value > 0][:_NAMED]
    worst = [each for each in ranked[::-1] if each["lift"].value <= 0][:_NAMED]
    stale = _stale(lessons, last)
    offered, withheld = counts["lessons_offered"], counts["lessons_withheld"]
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
    shown = [("helps most", each["lesson"], lift_words(each["lift"])) for each in best]
    shown += [("helps least", each["lesson"], lift_words(each["lift"])) for each in worst]
    for each in stale[:_NAMED]:
        ever = "not" if each["ever"] else "never"
        shown.append(("stale", each["lesson"], f"{ever} recalled in {each['days']:.0f} days"))
    rows = [brief(lesson, what=what, state=lesson.state, known=words) for what, lesson, words in shown]
    answer = {**numbers, "helps_most": best, "helps_least": worst, "stalest": stale[:_NAMED]}
    library.give(answer, details=(numbers,), rows=rows)


def _stale(lessons: Sequence[Lesson], last: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the active lessons that were not recalled lately, longest first; ``ever``: whether they were at all."""
    found: list[dict[str, Any]] = []
    for each in lessons:
        since = max(last.get(each.id, 0.0), each.provenance.created_at)
        days = max(time.time() - since, 0.0) / 86_400.0
        if each.state == "active" and since and days >= HALF_LIFE_DAYS:
            found.append({"lesson": each, "days": days, "ever": each.id in last})
    return sorted(found, key=lambda each: -each["days"])


@click.command(short_help="Show what a task would recall, and why.")
@click.argument("task")
@options.kind
@click.option("--tool", "tools", metavar="TOOL", multiple=True, help="A tool of the task; may be repeated.")
@options.top_k(default=5, help="The most lessons to recall.")
@options.credit
@over_lessons(options.embedder)
async def why(
    library: Library, task: str, kind: str | None, tools: tuple[str, ...], k: int, *, credit: bool
) -> None:
    """Show which lessons TASK would recall and which not, each with the reason.

    This records no recall, retires no lesson, and withholds none.
    """
    if not task.strip():
        raise click.UsageError("the task is empty: describe it")
    asked, settings = Task(task, kind=kind, tools=tools), LessonSettings(credit=credit_of(asked=credit))
    async with library.open() as store:
        recall = await VectorLessonStore(store.store, settings=settings).explain(asked, k=k)

    rows = []
    for where, items in (("in", recall.offered), ("out", recall.left_out)):
        for item in items:
            known = item.lift is not None and item.lift.value is not None
            lift = lift_words(item.lift) if known else "-"
            said = {"similarity": f"{item.similarity:.2f}", "lift": lift, "reason": item.reason}
            rows.append(brief(item.lesson, where=where, **said, task=task_excerpt(item.lesson)))
    about = {"task": redact_record(asked).public(), "k": k, "credit": credit}
    would = counted(len(recall.offered), "lesson") if recall.offered else "nothing"
    library.give(
        {**about, "offered": recall.offered, "left_out": recall.left_out},
        rows=rows,
        note=f"{would} would be recalled {library.where}",
    )


@click.command(short_help="Estimate the score of recalling fewer lessons.")
@click.argument("namespaces", metavar="[NAMESPACE]...", nargs=-1)
@click.option("--k", type=click.IntRange(min=1), help="The most lessons to recall.")
@click.option(
    "--floor",
    metavar="SIMILARITY",
    type=options.Number(-1, 1),
    help="The lowest similarity of a recalled lesson.",
)
@over_lessons()
async def policy(library: Library, namespaces: tuple[str, ...], k: int | None, floor: float | None) -> None:
    """Estimate the score of a smaller k or a higher floor, from recalls that withheld lessons at random.

    Several namespaces are pooled. A run keeps one namespace for each arm and seed in its folder, for example:
    selective-0 selective-1 --lessons RUN/lessons. Too few logged attempts are an error.
    """
    named = namespaces or (library.namespace,)
    logs: dict[str, list[LoggedRecall]] = {}
    for namespace in named:
        async with replace(library, namespace=namespace).open() as store:
            logs[namespace] = await read_log(store.records)
    if empty := [each for each, log in logs.items() if not log]:
        raise LessonStoreError(f"no recall has a scored attempt in the namespace {', '.join(empty)}")
    found = policy_value([recall for log in logs.values() for recall in log], Policy(k, floor))
    gain, low, high = (f"{100 * each:+.1f}" for each in (found.gain.value, found.gain.low, found.gain.high))
    library.give(
        {"namespaces": named, "k": k, "floor": floor, **asdict(found)},
        f"{found.value:.3f} an attempt, {found.observed:.3f} as logged: {gain} points ({low} to {high})",
        note=f"{found.changed} of {found.recalls} recalls would have changed; effective sample size"
        f" {found.effective:.0f}",
    )
