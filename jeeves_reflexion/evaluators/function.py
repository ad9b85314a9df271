"""Evaluators made of a callable, which may fail or hang, or of an environment's own reward."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable
from dataclasses import replace

import anyio

from jeeves_reflexion.callables import run, signature_of, takes
from jeeves_reflexion.errors import HOPELESS, ConfigurationError, described, hopeless
from jeeves_reflexion.text import one_line
from jeeves_reflexion.types import Attempt, Evaluation, Task
from jeeves_reflexion.values import is_number, plain_number


def as_evaluator(function: Callable[..., object]) -> FunctionEvaluator:
    """Make an evaluator of a sync or async callable that takes ``(task, attempt)``, or the output alone.

    The output is what the agent returned, a text or another object. A callable that can be called either way gets task
    and attempt if its first parameter is called ``task`` or annotated so. It may return an :class:`Evaluation`, a bool,
    a number in [0, 1], either of them with a message, as ``(False, "too long")``, or ``None`` if it can't score the
    attempt. If it asks models of other packages, it has to return an :class:`Evaluation` with their ``usage``. A sync
    callable runs in a worker thread, which is left behind if the run is cancelled. Raises :class:`ConfigurationError`
    for other parameters.
    """
    return FunctionEvaluator(function)


class FunctionEvaluator:
    """An evaluator made of a callable; see :func:`as_evaluator`."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        signature = signature_of(function, f"evaluator {self.name}")
        two, one = takes(signature, 2), takes(signature, 1)
        if not (two or one):
            raise ConfigurationError(f"evaluator {self.name}: it must take (task, attempt) or (output)")
        self._takes_task = two
        if two and one:
            first = next(iter(signature.parameters.values()))
            named = first.name == "task" or first.annotation in (Task, "Task")
            self._takes_task = named or first.kind is first.VAR_POSITIONAL

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the callable's verdict, as an :class:`Evaluation`."""
        output = attempt.output if attempt.value is None else attempt.value
        call = functools.partial(self._function, *((task, attempt) if self._takes_task else (output,)))
        value = await run(self._function, call)
        if isinstance(value, Evaluation):
            return value
        match value:
            case (verdict, str() as message):
                verdict = plain_number(verdict)
            case _:
                verdict, message = plain_number(value), ""
        if verdict is None:
            return Evaluation(None, rationale=message or f"{self.name} could not score the attempt")
        if isinstance(verdict, bool):
            issues = () if verdict or not message.strip() else (message,)
            return Evaluation(float(verdict), passed=verdict, rationale=message, issues=issues)
        if isinstance(verdict, numbers.Real) and 0 <= verdict <= 1:  # type: ignore[operator] # mypy knows no Real
            return Evaluation(float(verdict), rationale=message)
        raise ConfigurationError(
            f"evaluator {self.name} returned {value!r}: it must return an Evaluation, a bool, a number in [0, 1], "
            "(bool, message), (number, message) or None"
        )


class RewardEvaluator:
    """Takes the verdict from the environment: ``attempt.metadata[key]``, a bool or a number in [0, 1].

    An attempt that ended in an error without a reward has not passed and has no score. Any other attempt without a
    valid reward can't be scored.
    """

    def __init__(self, key: str = "reward") -> None:
        self.key = key

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the environment's verdict."""
        value = plain_number(attempt.metadata.get(self.key))
        if value is None and attempt.error:
            return Evaluation(None, passed=False, rationale=f"it ended before any reward: {attempt.error}")
        if isinstance(value, int | float) and 0.0 <= value <= 1.0:
            passed = value if isinstance(value, bool) else None
            return Evaluation(
                float(value), passed=passed, rationale=f"the environment says {self.key}={value}"
            )
        return Evaluation(None, rationale=f"the environment gave no {self.key} in [0, 1]: {value!r}")


FUNCTION_TIMEOUT = 60.0
"""Seconds that a function may take to check a text, by default."""


class FunctionCheck:
    """Calls a function as :func:`as_evaluator` does, for at most ``timeout`` seconds, and survives what it raises.

    If the function raises or takes too long, the attempt is unscored and an issue says why; a sync function that takes
    too long goes on in its thread. Errors of this package that no retry would fix are raised, such as a used-up budget
    or an invalid return value.
    """

    def __init__(self, function: Callable[..., object], *, timeout: float = FUNCTION_TIMEOUT) -> None:
        if not callable(function):
            raise ConfigurationError(f"function must be a callable, not {function!r}")
        if not is_number(timeout) or not timeout > 0:
            raise ConfigurationError(f"timeout must be above 0 seconds, not {timeout!r}")
        self._evaluator = as_evaluator(function)
        self._timeout = timeout

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the function's verdict, with a confidence of 1.0 unless it gives another."""
        problem = f"it took longer than {self._timeout:g} s"
        with anyio.move_on_after(self._timeout):
            try:
                verdict = await self._evaluator(task, attempt)
            except HOPELESS:
                raise
            except Exception as error:
                if (found := hopeless(error)) is not None:
                    raise found from error
                problem = one_line(described(error))
            else:
                score, passed, confidence = verdict.score, verdict.passed, verdict.confidence
                return replace(
                    verdict,
                    score=float(passed) if score is None and passed is not None else score,
                    confidence=1.0 if confidence is None else confidence,
                )
        said = f"it could not be checked: {problem}"
        return Evaluation(None, rationale=said, issues=(said,), confidence=0.0)
