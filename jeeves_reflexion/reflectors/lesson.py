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

    The model sees the task, the whole trajectory (cut in the middle to ``trajectory_tokens``), the verdict without
    gold, and the lessons of the earlier trials, so as not to repeat them. A trial that passed has a prompt of its own.
    Thinking, labels, preambles and marks around the sentence are removed. The step numbers that the model gives as
    evidence go into ``Reflection.evidence``. Raises ``ModelError`` if the model can't be reached.
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
        answer = read_lesson(completion.text) or completion.text
        lesson, evidence = _without_evidence(answer, len(trials[-1].attempt.steps))
        if repeats(lesson, messages[0].content):
            lesson = ""  # an echo of the instructions
        outcome: Outcome = "success" if passed else "failed"
        return Reflection(lesson, outcome=outcome, evidence=evidence, usage=completion.usage)


_STEPS = re.compile(
    r"(?<!\s)\s*+[\[(]steps?\s+(?P<numbers>\d(?:[\d,\s\u2013-]|and)*)[\])](?P<end>[.\"']*)\s*$", re.IGNORECASE
)
_RANGE = re.compile(r"(\d{1,6})(?:\s*[\u2013-]\s*(\d{1,6}))?")


def _without_evidence(text: str, n_steps: int) -> tuple[str, tuple[int, ...]]:
    """Split step numbers from the end of an answer; numbers of steps that do not exist are left out."""
    match = _STEPS.search(text)
    if match is None:
        return text, ()
    numbers: set[int] = set()
    for first, last in _RANGE.findall(match["numbers"]):
        numbers |= set(range(max(int(first), 1), min(int(last or first), n_steps) + 1))
    return text[: match.start()] + match["end"], tuple(sorted(numbers))


def material_of(task: Task, trials: Sequence[Trial], *, tokens: int) -> str:
    """Return the task, the lessons so far, and the last trial, each fenced as data; long parts are cut."""
    last = trials[-1]
    parts = [fence("task", task.prompt)]
    learned = [trial.reflection.lesson for trial in trials[:-1] if trial.reflection]
    if last.block or learned:
        parts.append(fence("lessons_so_far", last.block or bullets(learned)))
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
