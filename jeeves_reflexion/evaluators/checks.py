"""The checks that need no judge: what a criterion's ``evaluator`` and ``evaluator_config`` come to."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import anyio

from jeeves_reflexion.errors import HOPELESS, ConfigurationError, described
from jeeves_reflexion.evaluators.compare import check_terms
from jeeves_reflexion.evaluators.function import as_evaluator
from jeeves_reflexion.evaluators.panel import hopeless
from jeeves_reflexion.evaluators.regex import RegexCheck
from jeeves_reflexion.protocols import Evaluator
from jeeves_reflexion.text import one_line
from jeeves_reflexion.types import Attempt, Evaluation, Task
from jeeves_reflexion.values import is_number

Kind: TypeAlias = Literal["llm", "regex", "function", "compare"]

FUNCTION_TIMEOUT = 60.0
"""Seconds that a function may take to check a text."""


class FunctionCheck:
    """Calls a function as :func:`as_evaluator` does, for ``timeout`` seconds at most, and outlives what it raises.

    One that raises or takes too long leaves the attempt unscored and says so as an issue; a sync one that takes too
    long goes on in its thread. Errors of this package that no retry would mend, such as a used-up budget or a
    return value that is no verdict, are raised.
    """

    def __init__(self, function: Callable[..., object], *, timeout: float = FUNCTION_TIMEOUT) -> None:
        if not callable(function):
            raise ConfigurationError(f"function must be a callable, not {function!r}")
        if not is_number(timeout) or not timeout > 0:
            raise ConfigurationError(f"timeout must be above 0 seconds, not {timeout!r}")
        self._evaluator = as_evaluator(function)
        self._timeout = timeout

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the function's verdict, with a confidence of 1.0 unless it says its own."""
        with anyio.move_on_after(self._timeout):
            try:
                verdict = await self._evaluator(task, attempt)
            except HOPELESS:
                raise
            except Exception as error:
                if (found := hopeless(error)) is not None:
                    raise found from error
                return _unchecked(one_line(described(error)))
            return _complete(verdict)
        return _unchecked(f"it took longer than {self._timeout:g} s")


def _complete(verdict: Evaluation) -> Evaluation:
    """Return a function's verdict with a score where it said no more than yes or no, and with a confidence."""
    score = verdict.score
    if score is None and verdict.passed is not None:
        score = float(verdict.passed)
    return replace(verdict, score=score, confidence=1.0 if verdict.confidence is None else verdict.confidence)


def _unchecked(why: str) -> Evaluation:
    said = f"{_PREFIX}{why}"
    return Evaluation(None, rationale=said, issues=(said,), confidence=0.0)


_PREFIX = "it could not be checked: "


def _nothing() -> None:
    """What a judge is configured by."""


_MAKERS: Mapping[str, Callable[..., Evaluator | None]] = {
    "llm": _nothing,
    "regex": RegexCheck,
    "function": FunctionCheck,
    "compare": check_terms,
}
_NEEDED = {"regex": "pattern", "function": "function"}


def check_of(name: str, kind: str, config: Mapping[str, Any]) -> Evaluator | None:
    """Make the evaluator of a criterion of the kind ``regex`` or ``function``; of the others, check the configuration.

    Raises :class:`ConfigurationError`, naming the criterion.
    """
    make = _MAKERS[kind]
    if kind in _NEEDED and _NEEDED[kind] not in config:
        raise ConfigurationError(f"criterion {name!r}: evaluator_config needs {_NEEDED[kind]!r}")
    known = [*inspect.signature(make).parameters]
    if unknown := sorted(str(key) for key in config if key not in known):
        raise ConfigurationError(
            f"criterion {name!r}: evaluator_config has {', '.join(unknown)}; known for the kind {kind} are: "
            f"{', '.join(known) or 'none'}"
        )
    try:
        return make(**config)
    except ConfigurationError as error:
        raise ConfigurationError(f"criterion {name!r}: {error}") from error
