"""Recalls to note."""

from __future__ import annotations

from collections.abc import Sequence

from jeeves_reflexion.lessons.credit.effects import Draw
from jeeves_reflexion.lessons.credit.ledger import Ledger
from jeeves_reflexion.lessons.credit.verdicts import OUTCOMES, Verdict
from jeeves_reflexion.types import Lesson, Provenance, Recall, RecalledLesson

DRAWN = Draw(share=0.2, whole_share=0.04)


def recalled(lesson_id: str) -> RecalledLesson:
    lesson = Lesson(lesson_id, f"the text of {lesson_id}", "task", "excerpt", Provenance("r", 1, None))
    return RecalledLesson(lesson, 0.5, "near the task")


def recall(
    id: str, offered: Sequence[str], withheld: Sequence[str] = (), left_out: Sequence[str] = ()
) -> Recall:
    parts = [tuple(map(recalled, ids)) for ids in (offered, withheld, left_out)]
    return Recall(id, "task", *parts)


def figures(known, lesson_id: str) -> tuple[int, float, int, float]:
    """How many with and without, each with the sum of their scores, over all strata."""
    cells = known.tally(lesson_id).cells.values()
    return (
        sum(c.n_with for c in cells),
        sum(c.sum_with for c in cells),
        sum(c.n_without for c in cells),
        sum(c.sum_without for c in cells),
    )


async def verdicts(ledger: Ledger, recall_id: str) -> list[Verdict]:
    """What was said of the attempt that a recall was for, in the order in which it counts."""
    found: list[Verdict] = []
    slot = recall_id
    while (record := await ledger.records.get(OUTCOMES, slot)) is not None:
        found.append(Verdict.read(record))
        slot = f"{recall_id}:{len(found)}"
    return found


async def note(ledger: Ledger, id: str, offered: Sequence[str], withheld: Sequence[str] = (), **more) -> None:
    await ledger.note_recall(recall(id, offered, withheld), **{"draw": DRAWN, **more})
