"""``jeeves-reflexion lessons why``: what a task would recall, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace

import anyio

from jeeves_reflexion.cli.desk import counted
from jeeves_reflexion.cli.lesson_desk import LessonDesk
from jeeves_reflexion.cli.lesson_rows import BELOW, lift_words, short, task
from jeeves_reflexion.cli.options import EmbedderChoice
from jeeves_reflexion.cli.plain import as_json as plain
from jeeves_reflexion.cli.stores import open_for_search
from jeeves_reflexion.lessons import LessonSettings, VectorLessonStore
from jeeves_reflexion.lessons.explaining import explain
from jeeves_reflexion.lessons.recalling import Picking, StrategyName
from jeeves_reflexion.lessons.settings import Credit
from jeeves_reflexion.redaction import redact_record
from jeeves_reflexion.types import JSON, Recall, RecalledLesson, Task


@dataclass(frozen=True, slots=True)
class Question:
    """A task, and how lessons would be recalled for it; ``None`` is what a lesson store does by itself."""

    task: Task
    k: int
    strategy: StrategyName | None
    floor: float | None
    credit: bool
    embedder: EmbedderChoice

    def settings(self) -> LessonSettings:
        """Return the settings of such a recall."""
        settings = LessonSettings(credit=Credit() if self.credit else None)
        if self.strategy is not None:
            settings = replace(settings, picking=Picking(strategy=self.strategy))
        return settings if self.floor is None else replace(settings, min_similarity=self.floor)


class WhyDesk(LessonDesk):
    """Explains recalls, without making one."""

    def why(self, question: Question) -> None:
        """Print what would be offered, best first, and what would not, with the reasons."""
        recall = anyio.run(self._explain, question)
        if self._as_json:
            self._document(
                {
                    "task": plain(redact_record(question.task).public()),
                    "offered": [_as_json(item) for item in recall.offered],
                    "left_out": [_as_json(item) for item in recall.left_out],
                }
            )
            return
        if recall.offered:
            self._screen.note(f"recalled, best first: {counted(len(recall.offered), 'lesson')}", "bold")
        else:
            self._screen.note(f"nothing would be recalled {self._where}", "bold")
        for item in recall.offered:
            self._screen.entry(_row(item, "in"), BELOW)
        if recall.left_out:
            self._screen.note(f"not recalled: {counted(len(recall.left_out), 'lesson')}", "bold")
        for item in recall.left_out:
            self._screen.entry(_row(item, "out"), BELOW)

    async def _explain(self, question: Question) -> Recall:
        async with open_for_search(self._place, self._namespace, question.embedder) as store:
            with self._screen.busy():
                self._screen.waiting_for("recalling")
                lessons = VectorLessonStore(store.store, settings=question.settings())
                return await explain(lessons, question.task, k=question.k)


def _row(item: RecalledLesson, where: str) -> dict[str, str]:
    known = item.lift is not None and item.lift.value is not None
    return {
        "id": short(item.lesson.id),
        "where": where,
        "similarity": f"{item.similarity:.2f}",
        "lift": lift_words(item.lift) if known else "-",
        "reason": item.reason,
        "task": task(item.lesson),
        "lesson": item.lesson.text,
    }


def _as_json(item: RecalledLesson) -> JSON:
    return {
        "similarity": item.similarity,
        "reason": item.reason,
        "lift": plain(item.lift),
        "lesson": plain(item.lesson),
    }
