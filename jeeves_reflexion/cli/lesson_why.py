"""``jeeves-reflexion lessons why``: what a task would recall, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import anyio

from jeeves_reflexion.cli.desk import counted
from jeeves_reflexion.cli.lesson_asking import Recalling
from jeeves_reflexion.cli.lesson_credit import credit_of
from jeeves_reflexion.cli.lesson_desk import LessonDesk
from jeeves_reflexion.cli.lesson_rows import BELOW, lift_words, short, task
from jeeves_reflexion.cli.options import EmbedderChoice
from jeeves_reflexion.cli.plain import as_json as plain
from jeeves_reflexion.cli.stores import open_for_search
from jeeves_reflexion.lessons import LessonSettings, VectorLessonStore
from jeeves_reflexion.lessons.retrieval import Picking
from jeeves_reflexion.loop.presets import preset_of
from jeeves_reflexion.redaction import redact_record
from jeeves_reflexion.types import JSON, Recall, RecalledLesson, Task
from vectorstores.base import Filter


@dataclass(frozen=True, slots=True)
class Question:
    """A task, and how lessons would be recalled for it."""

    task: Task
    recalling: Recalling
    embedder: EmbedderChoice

    @property
    def k(self) -> int:
        """How many lessons an attempt asks for."""
        given = self.recalling.k
        return preset_of(self.recalling.preset).top_k_lessons if given is None else given

    def settings(self) -> LessonSettings:
        """Return the settings of such a recall."""
        asked = self.recalling
        picking = {
            "strategy": asked.strategy,
            "max_tokens": asked.max_tokens,
            "max_likeness": asked.max_likeness,
            "utility_weight": asked.utility_weight,
        }
        weighed = True if asked.utility_weight is not None else asked.credit
        narrow = cast("Filter", asked.narrow)
        settings = LessonSettings(
            picking=Picking(
                **cast("Any", {name: value for name, value in picking.items() if value is not None})
            ),
            credit=credit_of(weighed, half_life=asked.half_life),
            where=(lambda _: narrow) if narrow else None,
        )
        return settings if asked.floor is None else replace(settings, min_similarity=asked.floor)

    def described(self) -> dict[str, JSON]:
        """Return the settings by their names, as they are shown."""
        settings = self.settings()
        picking, credit = settings.picking, settings.credit
        return {
            "k": self.k,
            "strategy": cast("str", picking.strategy),
            "floor": settings.min_similarity,
            "max_tokens": picking.max_tokens,
            "max_likeness": picking.max_likeness,
            "credit": credit is not None,
            "utility_weight": picking.utility_weight if credit else None,
            "half_life_days": credit.half_life_days if credit else None,
            "where": dict(self.recalling.narrow or {}),
        }


class WhyDesk(LessonDesk):
    """Explains recalls, without making one."""

    def why(self, question: Question) -> None:
        """Print what would be offered, best first, and what would not, with the reasons."""
        recall = anyio.run(self._explain, question)
        if self._as_json:
            self._document(
                {
                    "task": plain(redact_record(question.task).public()),
                    "settings": question.described(),
                    "offered": [_as_json(item) for item in recall.offered],
                    "left_out": [_as_json(item) for item in recall.left_out],
                }
            )
            return
        self._screen.note(_settings_line(question.described()), "dim")
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
                return await lessons.explain(question.task, k=question.k)


def _settings_line(settings: Mapping[str, JSON]) -> str:
    told = {name: value for name, value in settings.items() if value not in (None, {}, False)}
    return "as recalled with " + ", ".join(
        name.replace("_", " ") if value is True else f"{name.replace('_', ' ')} {_said(value)}"
        for name, value in told.items()
    )


def _said(value: JSON) -> str:
    return (
        " ".join(f"{key}={item}" for key, item in value.items()) if isinstance(value, Mapping) else str(value)
    )


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
