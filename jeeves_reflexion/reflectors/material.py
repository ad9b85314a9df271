"""What a reflector's model gets to see of a task and its trials: all of it data, fenced."""

from __future__ import annotations

from collections.abc import Sequence

from jeeves_reflexion.text import bullets, cut_middle, fence, fenced_attempt
from jeeves_reflexion.types import Evaluation, Task, Trial


def material_of(task: Task, trials: Sequence[Trial], *, tokens: int) -> str:
    """Write down the task, what the agent had learned, and its last trial; each long part cut to ``tokens``."""
    last = trials[-1]
    parts = [fence("task", task.prompt)]
    had = [line for trial in trials[:-1] if trial.reflection for line in [trial.reflection.lesson]]
    if last.block or had:
        parts.append(fence("lessons_so_far", last.block or bullets(had)))
    parts += fenced_attempt(last.attempt, trajectory=tokens, output=tokens)
    parts.append(fence("verdict", cut_middle(_verdict(last.evaluation), tokens)))
    return "\n\n".join(parts)


def _verdict(evaluation: Evaluation) -> str:
    score = "no score" if evaluation.score is None else f"score {evaluation.score:.2f}"
    faults = [
        *evaluation.issues,
        *(f"{e.path}: {e.message}" for e in evaluation.errors),
        *evaluation.suggestions,
    ]
    return "\n".join(part for part in (score, evaluation.rationale, bullets(faults)) if part)
