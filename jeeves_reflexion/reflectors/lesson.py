"""A language model that writes one-sentence lessons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.protocols import ChatModel, Message
from jeeves_reflexion.text import bullets, cut_middle, fence, read_prompt, render_steps
from jeeves_reflexion.types import Evaluation, Reflection, Task, Trial


class LessonReflector:
    """Writes one sentence of advice from a trial (the self-reflection of Shinn et al. 2023, section 3).

    It sees the task, the whole trajectory (cut from the middle to ``trajectory_tokens``), the verdict without gold,
    and the lessons of the earlier trials, so as not to repeat them. A trial that passed is distilled with a prompt of
    its own. Raises ``ModelError`` when the model can't be reached.
    """

    def __init__(
        self, model: ChatModel, *, prompt: str | Path | None = None, trajectory_tokens: int = 3000
    ) -> None:
        if trajectory_tokens < 1:
            raise ConfigurationError(f"trajectory_tokens must be at least 1, not {trajectory_tokens}")
        self.model = model
        self._failed = read_prompt(prompt, "jeeves_reflexion.reflectors", "lesson.md")
        self._success = read_prompt(None, "jeeves_reflexion.reflectors", "success.md")
        self._tokens = trajectory_tokens

    async def __call__(
        self, task: Task, trials: Sequence[Trial], *, problem: str | None = None
    ) -> Reflection:
        """Return the reflection on the last of ``trials``."""
        if not trials:
            raise ConfigurationError("a reflector needs at least one trial to reflect on")
        passed = trials[-1].passed
        material = self._material(task, trials)
        if problem:
            material += f"\n\nYour previous answer was refused: {problem}. Answer with one sentence."
        messages = [Message("system", self._success if passed else self._failed), Message("user", material)]
        completion = await ask(self.model, messages)
        lesson = completion.text.strip().strip("\"'").removeprefix("- ").strip()
        return Reflection(lesson, outcome="success" if passed else "failed", usage=completion.usage)

    def _material(self, task: Task, trials: Sequence[Trial]) -> str:
        last = trials[-1]
        parts = [fence("task", task.prompt)]
        had = [line for trial in trials[:-1] if trial.reflection for line in [trial.reflection.lesson]]
        if last.block or had:
            parts.append(fence("lessons_so_far", last.block or bullets(had)))
        if last.attempt.steps:
            parts.append(fence("trajectory", render_steps(last.attempt.steps, self._tokens)))
        parts.append(fence("output", cut_middle(last.attempt.output, self._tokens)))
        for label, text in (("error", last.attempt.error), ("interrupted", last.attempt.interrupted)):
            if text:
                parts.append(fence(label, cut_middle(text, self._tokens)))
        parts.append(fence("verdict", cut_middle(_verdict(last.evaluation), self._tokens)))
        return "\n\n".join(parts)


def _verdict(evaluation: Evaluation) -> str:
    score = "no score" if evaluation.score is None else f"score {evaluation.score:.2f}"
    faults = [
        *evaluation.issues,
        *(f"{e.path}: {e.message}" for e in evaluation.errors),
        *evaluation.suggestions,
    ]
    return "\n".join(part for part in (score, evaluation.rationale, bullets(faults)) if part)
