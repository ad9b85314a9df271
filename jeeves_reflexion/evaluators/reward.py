"""An environment's own reward as the verdict."""

from __future__ import annotations

from jeeves_reflexion.types import Attempt, Evaluation, Task


class RewardEvaluator:
    """Takes the verdict from what the environment said: ``attempt.metadata[key]``, a bool or a number in [0, 1].

    An attempt that ended in an error before there was one has not passed, without a score. One without that entry
    otherwise, or with anything else in it, can't be scored.
    """

    def __init__(self, key: str = "reward") -> None:
        self.key = key

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the environment's verdict."""
        value = attempt.metadata.get(self.key)
        if value is None and attempt.error:
            return Evaluation(None, passed=False, rationale=f"it ended before any reward: {attempt.error}")
        if isinstance(value, bool):
            return Evaluation(
                float(value), passed=value, rationale=f"the environment says {self.key}={value}"
            )
        if isinstance(value, int | float) and 0.0 <= value <= 1.0:
            return Evaluation(float(value), rationale=f"the environment says {self.key}={value}")
        return Evaluation(None, rationale=f"the environment gave no {self.key} in [0, 1]: {value!r}")
