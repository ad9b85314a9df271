"""A language model as the judge of an attempt, and the parts of a task and an attempt that judges see."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from jeeves_reflexion.evaluators.replies import field_list, field_text
from jeeves_reflexion.evaluators.scores import parse_score
from jeeves_reflexion.models.ask import ask, ask_and_read
from jeeves_reflexion.protocols import ChatModel, Message, Sampling
from jeeves_reflexion.text import fence, fenced_attempt, read_prompt
from jeeves_reflexion.types import JSON, Attempt, Evaluation, Task
from jeeves_reflexion.values import check_whole

TRAJECTORY_TOKENS = 3000
OUTPUT_TOKENS = 12_000
"""The most tokens of a text that a judge of criteria sees; a longer text is cut from the middle and marked."""

STEADY = Sampling(temperature=0.0, seed=0)
"""The sampling of a judge: the same text should get the same score."""

SHARE: Mapping[str, JSON] = {"type": "number", "minimum": 0, "maximum": 1}
TEXT_LIST: Mapping[str, JSON] = {"type": "array", "items": {"type": "string"}}

TEXTS = frozenset({"rationale", "issues", "suggestions", "errors"})
"""The fields of an evaluation that may quote the reference if the judge saw it."""


def material(task: Task, attempt: Attempt, *, trajectory: int, output: int) -> str:
    """Return what a judge sees of a task, its reference and an attempt, each part fenced and cut to its tokens."""
    return "\n\n".join((*task_parts(task), *fenced_attempt(attempt, trajectory=trajectory, output=output)))


def task_parts(task: Task, *, reference: bool = True) -> list[str]:
    """Return the task, the expected output and the reference, each in its fence."""
    parts = [fence("task", task.prompt)]
    if task.expected_output:
        parts.append(fence("expected_output", task.expected_output))
    if reference and task.reference is not None:
        parts.append(fence("reference", as_text(task.reference)))
    return parts


def judged(task: Task, attempt: Attempt) -> tuple[str, ...]:
    """Return the texts that a judge sees and may quote; a quotation of them is not the judge's own verdict."""
    steps = (part for step in attempt.steps for part in (step.thought, step.action, step.observation))
    texts = (attempt.output, task.prompt, task.expected_output, attempt.error, *steps)
    return tuple(dict.fromkeys(text for text in texts if text and text.strip()))


def as_text(reference: JSON) -> str:
    """Return a reference as a text: itself, or its JSON."""
    return reference if isinstance(reference, str) else json.dumps(reference, ensure_ascii=False)


def object_schema(properties: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return the JSON Schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


class Judge:
    """Has a model score an attempt (the evaluator of Shinn et al. 2023, section 3).

    The model sees the task, the trajectory, the output and, if there is one, the reference; the trajectory is cut
    from the middle to ``trajectory_tokens``. If the score of a reply can't be read, the model is asked once more and
    shown the problem; after that ``score`` is ``None``. If there is a reference, the judge's text may quote it and is
    marked accordingly. Raises ``ModelError`` if the model can't be reached.
    """

    def __init__(
        self, model: ChatModel, *, prompt: str | Path | None = None, trajectory_tokens: int = 3000
    ) -> None:
        self._tokens = check_whole("trajectory_tokens", trajectory_tokens)
        self.model = model
        self._system = Message("system", read_prompt(prompt, "jeeves_reflexion.evaluators", "judge.md"))

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the verdict on an attempt."""
        shown = material(task, attempt, trajectory=self._tokens, output=self._tokens)
        messages = [self._system, Message("user", shown)]
        texts = judged(task, attempt)
        verdict, usage = await ask_and_read(
            functools.partial(ask, self.model, sampling=Sampling(temperature=0.0)),
            messages,
            lambda completion: _verdict(completion.text, texts),
            form="Begin with a line 'score: <0 to 1>'.",
        )
        marked = TEXTS if task.reference is not None and verdict.score is not None else frozenset[str]()
        return replace(verdict, usage=usage, quotes_gold=marked)


def _verdict(text: str, texts: Sequence[str]) -> tuple[Evaluation, str]:
    """Return the verdict in a reply, and the problem with a reply that can't be read."""
    parsed = parse_score(text, shown=texts)
    if parsed.score is None:
        rationale = f"the judge's reply could not be read: {parsed.problem}"
        return Evaluation(None, rationale=rationale), parsed.problem
    fields = parsed.fields or {}
    verdict = Evaluation(
        parsed.score,
        rationale=field_text(fields, "rationale", "reason", "justification") or text.strip(),
        issues=field_list(fields, "issues"),
        suggestions=field_list(fields, "suggestions"),
    )
    return verdict, ""
