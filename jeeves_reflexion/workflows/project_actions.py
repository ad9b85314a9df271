"""The project's own actions: ``lessons.recall``, ``lessons.record`` and ``reflexion.run``.

They need a store of lessons, or a loop, that the caller makes::

    for name, action in {**lesson_actions(store), **reflexion_actions(loop)}.items():
        workflow.register_action(name, action)
"""

from __future__ import annotations

import os
import time
from typing import Any, Final

from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.protocols import LessonStore
from jeeves_reflexion.types import JSON, Provenance, Reflection, Task
from jeeves_reflexion.workflows.documents import Document, Place
from jeeves_reflexion.workflows.plan import check_shape
from jeeves_reflexion.workflows.steps import OwnAction

DEFAULT_K: Final = 5


def lesson_actions(store: LessonStore) -> dict[str, OwnAction]:
    """Return the two actions on a store of lessons.

    ``lessons.recall`` takes ``task`` and ``k`` (5) and returns ``{"lessons": [text, ...], "recall_id"}``.
    ``lessons.record`` takes ``task``, ``lesson`` and, if known, ``score``, and returns ``{"lesson_id", "lesson"}``.
    """

    async def recall(state: dict[str, JSON], parameters: dict[str, JSON]) -> JSON:
        given = _checked(parameters, "lessons.recall")
        found = await store.recall(Task(given["task"]), k=given.get("k", DEFAULT_K))
        return {"lessons": list(found.texts), "recall_id": found.id}

    async def record(state: dict[str, JSON], parameters: dict[str, JSON]) -> JSON:
        given = _checked(parameters, "lessons.record")
        source = Provenance(
            os.urandom(16).hex(), 1, given.get("score"), agent="workflow", created_at=time.time()
        )
        reflection = Reflection(given["lesson"])
        lesson = await store.record(Task(given["task"]), reflection, provenance=source)
        return {"lesson_id": lesson.id, "lesson": lesson.text}

    return {"lessons.recall": recall, "lessons.record": record}


def reflexion_actions(loop: Reflexion) -> dict[str, OwnAction]:
    """Return the action ``reflexion.run``, which takes ``task`` and runs the outer loop on it.

    Returns ``{"output", "passed", "score", "attempts", "stop_reason", "lessons": [text, ...]}``.
    """

    async def run(state: dict[str, JSON], parameters: dict[str, JSON]) -> JSON:
        result = await loop.run(Task(_checked(parameters, "reflexion.run")["task"]))
        return {
            "output": result.text,
            "passed": result.passed,
            "score": result.score,
            "attempts": len(result.trials),
            "stop_reason": result.stop_reason,
            "lessons": [lesson.text for lesson in result.lessons],
        }

    return {"reflexion.run": run}


def _checked(parameters: dict[str, JSON], action: str) -> Any:  # noqa: ANN401 - of the shape of the action
    return check_shape(parameters, action, Place(Document(None, action)))
