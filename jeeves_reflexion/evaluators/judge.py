"""A language model as the judge of an attempt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.evaluators.material import TEXTS, judged, material
from jeeves_reflexion.evaluators.replies import field_list, field_text
from jeeves_reflexion.evaluators.scores import ParsedScore, parse_score
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.protocols import ChatModel, Message, Sampling
from jeeves_reflexion.text import read_prompt
from jeeves_reflexion.types import NO_USAGE, Attempt, Evaluation, Task, Usage

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
        usage = NO_USAGE
        parsed = ParsedScore(None)
        for _ in range(2):
            completion = await ask(self.model, messages, sampling=_STEADY)
            usage += completion.usage
            parsed = parse_score(completion.text, shown=judged(task, attempt))
            if parsed.score is not None:
                return _verdict(parsed, completion.text, usage, quotes_gold=task.reference is not None)
            messages += [
                Message("assistant", completion.text),
                Message(
                    "user",
                    f"Your answer can't be used: {parsed.problem}. Begin with a line 'score: <0 to 1>'.",
                ),
            ]
        return Evaluation(
            None, rationale=f"the judge's reply could not be read: {parsed.problem}", usage=usage
        )


def _verdict(parsed: ParsedScore, text: str, usage: Usage, *, quotes_gold: bool) -> Evaluation:
    evaluation = Evaluation(parsed.score, rationale=text.strip(), usage=usage)
    if parsed.fields is not None:
        evaluation = replace(
            evaluation,
            rationale=field_text(parsed.fields, "rationale", "reason", "justification") or text.strip(),
            issues=field_list(parsed.fields, "issues"),
            suggestions=field_list(parsed.fields, "suggestions"),
        )
    return replace(evaluation, quotes_gold=TEXTS) if quotes_gold else evaluation
