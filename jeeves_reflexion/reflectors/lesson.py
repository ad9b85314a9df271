"""A language model that writes one-sentence lessons."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.models.advice import read_lesson, repeats
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.protocols import ChatModel, Message
from jeeves_reflexion.text import bullets, cut_middle, fence, fenced_attempt, read_prompt
from jeeves_reflexion.types import Evaluation, Outcome, Reflection, Task, Trial


class LessonReflector:
    """Writes one sentence of advice from a trial (the self-reflection of Shinn et al. 2023, section 3).

    It sees the task, the whole trajectory (cut from the middle to ``trajectory_tokens``), the verdict without gold,
    and the lessons of the earlier trials, so as not to repeat them. A trial that passed is distilled with a prompt of
    its own. What is no part of the sentence (thinking, labels, preambles, marks) is left out. The numbers of steps
    that it gives as evidence go into ``Reflection.evidence``. Raises ``ModelError`` when the model can't be reached.
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
        material = material_of(task, trials, tokens=self._tokens)
        if problem:
            material += f"\n\nYour previous answer was refused: {problem}. Answer with one sentence."
        messages = [Message("system", self._success if passed else self._failed), Message("user", material)]
        completion = await ask(self.model, messages)
        said = read_lesson(completion.text) or completion.text
        lesson, evidence = _without_evidence(said, len(trials[-1].attempt.steps))
        if repeats(lesson, messages[0].content):
            lesson = ""  # an echo of the instructions
        outcome: Outcome = "success" if passed else "failed"
        return Reflection(lesson, outcome=outcome, evidence=evidence, usage=completion.usage)


_STEPS = re.compile(
    r"(?<!\s)\s*+[\[(]steps?\s+(?P<numbers>\d[\d,\s-]*)[\])](?P<end>[.\"']*)\s*$", re.IGNORECASE
)


def _without_evidence(text: str, n_steps: int) -> tuple[str, tuple[int, ...]]:
    """Take the numbers of steps from the end of an answer; those of steps that there were not are left out."""
    found = _STEPS.search(text)
    if found is None:
        return text, ()
    numbers: set[int] = set()
    for part in found["numbers"].split(","):
        ends = [int(end) for end in part.split("-") if end.strip().isdigit()]
        if ends:
            numbers |= set(range(max(ends[0], 1), min(ends[-1], n_steps) + 1))
    return text[: found.start()] + found["end"], tuple(sorted(numbers))


def material_of(task: Task, trials: Sequence[Trial], *, tokens: int) -> str:
    """Write down the task, what the agent had learned, and its last trial, fenced as data; long parts are cut."""
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
