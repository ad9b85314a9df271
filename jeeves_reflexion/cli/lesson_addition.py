"""``jeeves-reflexion lessons add``: what it does."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import anyio

from jeeves_reflexion.cli.lesson_desk import LessonDesk
from jeeves_reflexion.cli.lesson_rows import BELOW, row
from jeeves_reflexion.cli.options import EmbedderChoice
from jeeves_reflexion.cli.plain import as_json as plain
from jeeves_reflexion.cli.stores import open_for_run, open_for_search
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons import shape_problem
from jeeves_reflexion.types import Lesson, Provenance, Reflection, Task


@dataclass(frozen=True, slots=True)
class Addition:
    """A lesson that a person writes, for a task."""

    text: str
    task: str
    kind: str | None
    embedder: EmbedderChoice
    create: bool
    by: str


class AdditionDesk(LessonDesk):
    """Stores a lesson that nobody's attempt taught."""

    def add(self, order: Addition) -> None:
        """Store it and show it; raises :class:`ConfigurationError` for a text that is no lesson."""
        if problem := shape_problem(order.text):
            raise ConfigurationError(f"the text is no lesson: {problem}")
        lesson = anyio.run(self._add, order)
        if self._as_json:
            self._document({"lesson": plain(lesson)})
        else:
            self._screen.entry(row(lesson, ("state", lesson.state)), BELOW)

    async def _add(self, order: Addition) -> Lesson:
        opened = open_for_run if order.create else open_for_search
        async with opened(self._place, self._namespace, order.embedder) as store:
            # No attempt taught it, so it has no score, and a run of its own.
            source = Provenance(f"added-{uuid.uuid4().hex}", 0, None, agent=order.by)
            task = Task(order.task, kind=order.kind)
            return await store.record(task, Reflection(order.text), provenance=source)
