"""What a recall would give, and why: what is offered, what is left out, and what is not even looked at.

It is the recall itself, on a store that notes nothing: so the explanation can't drift away from what is explained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from jeeves_reflexion.lessons.credit.effects import NO_DRAW, Draw, Withholding
from jeeves_reflexion.lessons.credit.ledger import Ledger
from jeeves_reflexion.lessons.credit.tally import Credits
from jeeves_reflexion.lessons.gate import clean_prompt, clean_task
from jeeves_reflexion.lessons.narrowing import Narrowing, both, narrowing
from jeeves_reflexion.lessons.recalling import below_floor
from jeeves_reflexion.lessons.records import RECALLED, one_each, readable
from jeeves_reflexion.lessons.settings import Credit
from jeeves_reflexion.lessons.shelf import store_errors
from jeeves_reflexion.lessons.store import VectorLessonStore
from jeeves_reflexion.types import Lesson, Recall, RecalledLesson, Task
from vectorstores.base import Filter, VectorStore

# The faces by which a lesson would be recalled if it were active.
_OFF: Final[Filter] = {
    "$and": [{"use": "off"}, {"$or": [{"holds": "task"}, {"key": {"$in": ["lesson", "both"]}}]}]
}


async def explain(lessons: VectorLessonStore, task: Task, *, k: int) -> Recall:
    """Return what :meth:`VectorLessonStore.recall` would, without the draw, and write nothing.

    ``left_out`` also holds what a recall does not read, each with its reason: up to ``k`` lessons that are proposed or
    retired, and up to ``k`` below the similarity floor however many are above it; and those that it would retire.
    """
    settings = lessons.settings
    where = settings.where(clean_task(task)) if settings.where else None
    query = clean_prompt(task.prompt)
    known = None if settings.credit is None else await lessons.ledger.credits(max_age=0.0)
    harmful = _harmful(known, settings.credit)
    kept: Filter | None = {"lesson_id": {"$nin": list(harmful)}} if harmful else None
    credit = (
        None if settings.credit is None else replace(settings.credit, withholding=Withholding(), retire=False)
    )
    silent = VectorLessonStore(
        lessons.store, settings=replace(settings, credit=credit, where=lambda _: both(kept, where))
    )
    silent.ledger = _Silent(lessons.records)
    recall = await silent.recall(task, k=k)
    floor = settings.min_similarity
    async with store_errors("explain a recall"):
        looked_at = {item.lesson.id for item in (*recall.offered, *recall.left_out)}
        number = len(looked_at) + len(harmful) + k
        found = await _near(lessons.store, query, narrowing(where).within(RECALLED), number)
        seen = [(lessons.shelf.reader.seen(lesson), similarity) for lesson, similarity in found]
        near = [each for each in seen if each[0].state == "active"]
        others = [each for each in seen if each[0].state != "active"]
        off = await _near(lessons.store, query, narrowing(where).within(_OFF), k)
    far = [each for each in near if each[1] < floor and each[0].id not in looked_at]
    already = sum(item.similarity < floor for item in recall.left_out)
    below = [(each, below_floor(floor)) for each in far[: k - already]]
    beaten = [(each, f"to be retired: {harmful[each[0].id]}") for each in near if each[0].id in harmful]
    inactive = [(each, _why_off(each[0])) for each in (*off, *others[:k])]
    passed = [
        RecalledLesson(lesson, similarity, reason, None if known is None else known.lift(lesson.id))
        for (lesson, similarity), reason in (
            *_near_enough(beaten, floor),
            *below,
            *_near_enough(inactive, floor),
        )
    ]
    return replace(recall, left_out=(*recall.left_out, *passed))


class _Silent(Ledger):
    """A ledger that reads, and notes nothing."""

    async def note_recall(
        self,
        recall: Recall,
        *,
        run_id: str = "",
        attempt: int = 0,
        task_kind: str | None = None,
        draw: Draw = NO_DRAW,
    ) -> None:
        """Do nothing."""


_Near: TypeAlias = tuple[Lesson, float]


def _near_enough(found: Sequence[tuple[_Near, str]], floor: float) -> list[tuple[_Near, str]]:
    return [item for item in found if item[0][1] >= floor]


async def _near(store: VectorStore, query: str, where: Narrowing, number: int) -> Sequence[_Near]:
    wanted = 2 * number
    while True:
        hits = await store.search(query, k=wanted, filter=where.asked)
        found = one_each([hit for hit in hits if where.admits(hit.chunk.metadata)])[:number]
        if len(found) == number or len(hits) < wanted:
            return [(lesson, hit.score) for hit, lesson in readable(found)]
        wanted *= 2


def _harmful(known: Credits | None, credit: Credit | None) -> dict[str, str]:
    if known is None or credit is None or not credit.retire:
        return {}
    verdicts = {lesson_id: known.judge(lesson_id) for lesson_id in known.tallies}
    return {lesson_id: verdict.reason for lesson_id, verdict in verdicts.items() if verdict.kind == "retire"}


def _why_off(lesson: Lesson) -> str:
    reason = f": {lesson.state_reason}" if lesson.state_reason else ""
    return f"{lesson.state}{reason}" if lesson.state == "retired" else f"waits for review{reason}"
