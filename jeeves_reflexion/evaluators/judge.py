"""A language model as the judge of an attempt."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.evaluators.material import TEXTS, judged, material
from jeeves_reflexion.evaluators.replies import field_list, field_text
from jeeves_reflexion.evaluators.scores import parse_score
from jeeves_reflexion.models.ask import ask, ask_and_read
from jeeves_reflexion.protocols import ChatModel, Message, Sampling
from jeeves_reflexion.text import read_prompt
from jeeves_reflexion.types import Attempt, Evaluation, Task

_STEADY = Sampling(temperature=0.0)


class Judge:
    """Scores an attempt by a model's word (the evaluator of Shinn et al. 2023, section 3).

    The model sees the task, the trajectory, the output and, if there is one, the reference; the trajectory is cut
    from the middle to ``trajectory_tokens``. A reply whose score can't be read is asked for once more with the
    problem shown; after that the verdict is ``score=None``. With a reference the judge's text may quote it and is
    marked so. Raises ``ModelError`` when the model can't be reached.
    """

    def __init__(
        self, model: ChatModel, *, prompt: str | Path | None = None, trajectory_tokens: int = 3000
    ) -> None:
        if trajectory_tokens < 1:
            raise ConfigurationError(f"trajectory_tokens must be at least 1, not {trajectory_tokens}")
        self.model = model
        self._system = Message("system", read_prompt(prompt, "jeeves_reflexion.evaluators", "judge.md"))
        self._tokens = trajectory_tokens

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the verdict on an attempt."""
        shown = material(task, attempt, trajectory=self._tokens, output=self._tokens)
        messages = [self._system, Message("user", shown)]
        texts = judged(task, attempt)
        verdict, usage = await ask_and_read(
            functools.partial(ask, self.model, sampling=_STEADY),
            messages,
            lambda completion: _verdict(completion.text, texts),
            form="Begin with a line 'score: <0 to 1>'.",
        )
        marked = TEXTS if task.reference is not None and verdict.score is not None else frozenset[str]()
        return replace(verdict, usage=usage, quotes_gold=marked)


def _verdict(text: str, texts: Sequence[str]) -> tuple[Evaluation, str]:
    """Return the verdict in a reply, and the problem of one that can't be read."""
    parsed = parse_score(text, shown=texts)
    if parsed.score is None:
        said = f"the judge's reply could not be read: {parsed.problem}"
        return Evaluation(None, rationale=said), parsed.problem
    fields = parsed.fields or {}
    verdict = Evaluation(
        parsed.score,
        rationale=field_text(fields, "rationale", "reason", "justification") or text.strip(),
        issues=field_list(fields, "issues"),
        suggestions=field_list(fields, "suggestions"),
    )
    return verdict, ""
