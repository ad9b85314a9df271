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
from jeeves_reflexion.types import Outcome, Reflection, Task, Trial

_STEPS = re.compile(
    r"(?<!\s)\s*+[\[(]steps?\s+(?P<numbers>\d(?:[\d,\s\u2013-]|and)*)[\])](?P<end>[.\"']*)\s*$", re.IGNORECASE
)
_RANGE = re.compile(r"(\d{1,6})(?:\s*[\u2013-]\s*(\d{1,6}))?")


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
        lesson = read_lesson(completion.text) or completion.text
        evidence: set[int] = set()
        if match := _STEPS.search(lesson):
            lesson = lesson[: match.start()] + match["end"]
            # Numbers of steps that do not exist are left out.
            taken = len(trials[-1].attempt.steps)
            for first, last in _RANGE.findall(match["numbers"]):
                evidence |= set(range(max(int(first), 1), min(int(last or first), taken) + 1))
        if repeats(lesson, messages[0].content):
            lesson = ""  # an echo of the instructions
        outcome: Outcome = "success" if passed else "failed"
        return Reflection(lesson, outcome=outcome, evidence=tuple(sorted(evidence)), usage=completion.usage)


def material_of(task: Task, trials: Sequence[Trial], *, tokens: int) -> str:
    """Return the task, the lessons so far, and the last trial, each fenced as data; long parts are cut."""
    last = trials[-1]
    parts = [fence("task", task.prompt)]
    learned = [trial.reflection.lesson for trial in trials[:-1] if trial.reflection]
    if last.block or learned:
        parts.append(fence("lessons_so_far", last.block or bullets(learned)))
    parts += fenced_attempt(last.attempt, trajectory=tokens, output=tokens)
    verdict = last.evaluation
    score = "no score" if verdict.score is None else f"score {verdict.score:.2f}"
    faults = bullets([*verdict.faults, *verdict.suggestions])
    said = "\n".join(part for part in (score, verdict.rationale, faults) if part)
    parts.append(fence("verdict", cut_middle(said, tokens)))
    return "\n\n".join(parts)
