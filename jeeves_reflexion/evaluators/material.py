"""What a judge is shown of a task and an attempt, and how it is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping

from jeeves_reflexion.protocols import Sampling
from jeeves_reflexion.text import fence, fenced_attempt
from jeeves_reflexion.types import JSON, Attempt, Task

TRAJECTORY_TOKENS = 3000
OUTPUT_TOKENS = 12_000
"""What a judge of criteria sees of a text, in tokens; a longer one is cut from the middle and marked so."""

STEADY = Sampling(temperature=0.0, seed=0)
"""How a judge of criteria is asked: the same text gets the same score, as far as the model can."""

SHARE: Mapping[str, JSON] = {"type": "number", "minimum": 0, "maximum": 1}
TEXT_LIST: Mapping[str, JSON] = {"type": "array", "items": {"type": "string"}}

TEXTS = frozenset({"rationale", "issues", "suggestions", "errors"})
"""The fields of an evaluation that may quote the reference when the judge saw it."""


def material(task: Task, attempt: Attempt, *, trajectory: int, output: int) -> str:
    """Return what a judge sees of an attempt, each part in its fence and cut to its tokens; the reference too."""
    return "\n\n".join((*task_parts(task), *fenced_attempt(attempt, trajectory=trajectory, output=output)))


def task_parts(task: Task, *, reference: bool = True) -> list[str]:
    """Return the task, the form wanted and the reference, each in its fence."""
    parts = [fence("task", task.prompt)]
    if task.expected_output:
        parts.append(fence("expected_output", task.expected_output))
    if reference and task.reference is not None:
        parts.append(fence("reference", as_text(task.reference)))
    return parts


def judged(task: Task, attempt: Attempt) -> tuple[str, ...]:
    """Return the texts that a judge may quote from what it was shown: none of them is its own word."""
    steps = (part for step in attempt.steps for part in (step.thought, step.action, step.observation))
    texts = (attempt.output, task.prompt, task.expected_output, attempt.error, *steps)
    return tuple(dict.fromkeys(text for text in texts if text and text.strip()))


def as_text(reference: JSON) -> str:
    """Return a reference as a text: itself, or its JSON."""
    return reference if isinstance(reference, str) else json.dumps(reference, ensure_ascii=False)


def object_schema(properties: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return the JSON Schema of an object that has just these properties, all of them."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }
