"""``jeeves-reflexion lessons why``: what a task would recall, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import click

from jeeves_reflexion.cli.lessons.service import LessonService
from jeeves_reflexion.cli.lessons.views import lift_words, short, task_excerpt
from jeeves_reflexion.cli.options import EmbedderChoice
from jeeves_reflexion.cli.plain import as_json as plain
from jeeves_reflexion.cli.service import counted
from jeeves_reflexion.cli.stores import credit_of
from jeeves_reflexion.lessons import LessonSettings, VectorLessonStore
from jeeves_reflexion.lessons.retrieval import Picking
from jeeves_reflexion.loop.presets import preset_of
from jeeves_reflexion.redaction import redact_record
from jeeves_reflexion.types import JSON, Recall, RecalledLesson, Task
from vectorstores.base import Filter


@dataclass(frozen=True, slots=True)
class Recalling:
    """How a program recalls; what is None is as a lesson store does by itself.

    ``k`` is how many lessons it asks for, ``preset`` the loop's; ``floor`` is a cosine similarity. ``narrow`` holds
    what the metadata of a lesson must say. The others are those of ``Picking`` and ``Credit``.
    """

    k: int | None = None
    preset: str | None = None
    strategy: str | None = None
    floor: float | None = None
    max_tokens: int | None = None
    max_likeness: float | None = None
    utility_weight: float | None = None
    half_life: float | None = None
    narrow: Mapping[str, JSON] | None = None
    credit: bool | None = None

    @property
    def number(self) -> int:
        """How many lessons an attempt asks for."""
        return preset_of(self.preset).top_k_lessons if self.k is None else self.k

    def settings(self) -> LessonSettings:
        """Return the settings of such a recall."""
        picking = {
            "strategy": self.strategy,
            "max_tokens": self.max_tokens,
            "max_likeness": self.max_likeness,
            "utility_weight": self.utility_weight,
        }
        weighed = True if self.utility_weight is not None else self.credit
        narrow = cast("Filter", self.narrow)
        settings = LessonSettings(
            picking=Picking(
                **cast("Any", {name: value for name, value in picking.items() if value is not None})
            ),
            credit=credit_of(weighed, half_life=self.half_life),
            where=(lambda _: narrow) if narrow else None,
        )
        return settings if self.floor is None else replace(settings, min_similarity=self.floor)

    def described(self) -> dict[str, JSON]:
        """Return the settings by their names, as they are shown."""
        settings = self.settings()
        picking, credit = settings.picking, settings.credit
        return {
            "k": self.number,
            "strategy": cast("str", picking.strategy),
            "floor": settings.min_similarity,
            "max_tokens": picking.max_tokens,
            "max_likeness": picking.max_likeness,
            "credit": credit is not None,
            "utility_weight": picking.utility_weight if credit else None,
            "half_life_days": credit.half_life_days if credit else None,
            "where": dict(self.narrow or {}),
        }


class ExplanationService(LessonService):
    """Explains recalls, without making one."""

    def why(
        self,
        task: str,
        kind: str | None,
        tools: tuple[str, ...],
        embedder: EmbedderChoice,
        **given: Any,  # noqa: ANN401 - as click gives them
    ) -> None:
        """Print what would be offered, best first, and what would not, with the reasons."""
        for name in ("half_life", "utility_weight"):
            if given["credit"] is False and given[name] is not None:
                option = f"--{name.replace('_', '-')}"
                raise click.UsageError(f"{option} says how credit counts: it excludes --no-credit")
        if not task.strip():
            raise click.UsageError("the task is empty: say what would be asked")
        asked, recalling = Task(task, kind=kind, tools=tools), Recalling(**given)

        async def explained(store: VectorLessonStore) -> Recall:
            lessons = VectorLessonStore(store.store, settings=recalling.settings())
            return await lessons.explain(asked, k=recalling.number)

        recall = self._look_up(explained, embedder, "recalling")
        if self._as_json:
            self._document(
                {
                    "task": plain(redact_record(asked).public()),
                    "settings": recalling.described(),
                    "offered": [_as_json(item) for item in recall.offered],
                    "left_out": [_as_json(item) for item in recall.left_out],
                }
            )
            return
        self._screen.note(_settings_line(recalling.described()), "dim")
        if recall.offered:
            self._screen.note(f"recalled, best first: {counted(len(recall.offered), 'lesson')}", "bold")
        else:
            self._screen.note(f"nothing would be recalled {self._where}", "bold")
        for item in recall.offered:
            self._screen.entry(_row(item, "in"))
        if recall.left_out:
            self._screen.note(f"not recalled: {counted(len(recall.left_out), 'lesson')}", "bold")
        for item in recall.left_out:
            self._screen.entry(_row(item, "out"))


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
        "task": task_excerpt(item.lesson),
        "lesson": item.lesson.text,
    }


def _as_json(item: RecalledLesson) -> JSON:
    return {
        "similarity": item.similarity,
        "reason": item.reason,
        "lift": plain(item.lift),
        "lesson": plain(item.lesson),
    }
