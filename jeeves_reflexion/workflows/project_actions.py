"""The project's own actions: ``lessons.recall``, ``lessons.record`` and ``reflexion.run``.

They need a store of lessons, or a loop, that the caller makes::

    for name, action in {**lesson_actions(store), **reflexion_actions(loop)}.items():
        workflow.register_action(name, action)
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.protocols import LessonStore
from jeeves_reflexion.types import JSON, Provenance, Reflection, Task
from jeeves_reflexion.values import is_number
from jeeves_reflexion.workflows.parts import key_problem
from jeeves_reflexion.workflows.toolbox import OwnAction

DEFAULT_K = 5


def lesson_actions(store: LessonStore) -> dict[str, OwnAction]:
    """Return the two actions on a store of lessons.

    ``lessons.recall`` takes ``task`` and ``k`` (5) and returns ``{"lessons": [text, ...], "recall_id"}``.
    ``lessons.record`` takes ``task``, ``lesson`` and, if known, ``score``, and returns ``{"lesson_id", "lesson"}``.
    """

    async def recall(state: dict[str, JSON], parameters: dict[str, JSON]) -> JSON:
        given = _known(parameters, "lessons.recall", ("task",), ("k",))
        k = given.get("k", DEFAULT_K)
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ConfigurationError(f"lessons.recall: k must be a whole number of at least 1, not {k!r}")
        found = await store.recall(_task(given, "lessons.recall"), k=k)
        return {"lessons": list(found.texts), "recall_id": found.id}

    async def record(state: dict[str, JSON], parameters: dict[str, JSON]) -> JSON:
        given = _known(parameters, "lessons.record", ("task", "lesson"), ("score",))
        score = given.get("score")
        if score is not None and not (is_number(score) and 0.0 <= score <= 1.0):
            raise ConfigurationError(f"lessons.record: score must lie in [0, 1], not {score!r}")
        source = Provenance(
            os.urandom(16).hex(),
            1,
            None if score is None else float(score),
            agent="workflow",
            created_at=time.time(),
        )
        reflection = Reflection(_text(given, "lesson", "lessons.record"))
        lesson = await store.record(_task(given, "lessons.record"), reflection, provenance=source)
        return {"lesson_id": lesson.id, "lesson": lesson.text}

    return {"lessons.recall": recall, "lessons.record": record}


def reflexion_actions(loop: Reflexion) -> dict[str, OwnAction]:
    """Return the action ``reflexion.run``, which takes ``task`` and runs the outer loop on it.

    Returns ``{"output", "passed", "score", "attempts", "stop_reason", "lessons": [text, ...]}``.
    """

    async def run(state: dict[str, JSON], parameters: dict[str, JSON]) -> JSON:
        given = _known(parameters, "reflexion.run", ("task",), ())
        result = await loop.run(_task(given, "reflexion.run"))
        return {
            "output": result.text,
            "passed": result.passed,
            "score": result.score,
            "attempts": len(result.trials),
            "stop_reason": result.stop_reason,
            "lessons": [lesson.text for lesson in result.lessons],
        }

    return {"reflexion.run": run}


def _known(
    parameters: Mapping[str, JSON], action: str, required: tuple[str, ...], others: tuple[str, ...]
) -> Mapping[str, JSON]:
    said, _ = key_problem(parameters, required, others)
    if said:
        raise ConfigurationError(f"{action}: {said}")
    return parameters


def _task(given: Mapping[str, JSON], action: str) -> Task:
    return Task(_text(given, "task", action))


def _text(given: Mapping[str, JSON], key: str, action: str) -> str:
    value = given[key]
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{action}: {key} must be a text that is not empty")
    return value
