"""The verdict on an output, and how it is read from the result of custom code or from a judge's reply."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from jeeves_reflexion.evaluators.replies import field_list, field_text
from jeeves_reflexion.evaluators.scores import parse_fields
from jeeves_reflexion.models.replies import agreed, reading_of
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import JSON, Evaluation, EvaluationError
from jeeves_reflexion.values import is_number
from jeeves_reflexion.workflows.values import shown, text_of

PASSING: Final = 0.5
"""The lowest score that approves, if an evaluator returns just a number."""

_WORDS: Final = {
    **dict.fromkeys(("true", "yes", "valid", "pass", "passed"), True),
    **dict.fromkeys(("false", "no", "invalid", "fail", "failed"), False),
}
_UNREADABLE: Final = "the verdict could not be read, so nothing is approved"
_REFUSED: Final = "the output was not approved"
_MOST: Final = 50


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of an output: its path (keys joined by dots), a message, and a suggestion if there is one."""

    path: str
    message: str
    suggestion: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An evaluator's verdict on an output.

    ``output`` is the output as it was judged: parsed and coerced. ``made`` is false if the output could not be judged,
    for example because the judge's reply could not be read; such a verdict never approves.
    """

    valid: bool
    score: float
    errors: tuple[Problem, ...] = ()
    advice: tuple[str, ...] = ()
    output: JSON = None
    made: bool = True

    @property
    def suggestions(self) -> list[str]:
        """The advice and the suggestions of the errors, each once."""
        return list(dict.fromkeys([*self.advice, *(e.suggestion for e in self.errors if e.suggestion)]))

    def error_list(self) -> list[JSON]:
        """Return the errors as the state holds them."""
        return [asdict(error) for error in self.errors]

    def as_evaluation(self) -> Evaluation:
        """Return the verdict as an evaluation of the inner loop."""
        errors = tuple(EvaluationError(error.path, error.message) for error in self.errors)
        return Evaluation(
            self.score,
            passed=self.valid,
            issues=tuple(map(str, errors)),
            suggestions=tuple(self.suggestions),
            errors=errors,
        )


def refusal(message: str, output: JSON = None) -> Verdict:
    """Return the verdict on an output that could not be judged."""
    return Verdict(valid=False, score=0.0, errors=(Problem("", message),), output=output, made=False)


def of_code(value: JSON, output: JSON) -> Verdict:
    """Read the result of custom code: a mapping with ``valid`` and ``score``, a boolean, or a number.

    A number approves if it is at least 0.5. A mapping without a readable ``valid``, or anything else, approves nothing.
    """
    if isinstance(value, Mapping):
        return _of_mapping(value, output) or refusal(f"{_UNREADABLE}: 'valid' must be true or false", output)
    if isinstance(value, bool) or (is_number(value) and math.isfinite(value)):
        score = min(max(float(value), 0.0), 1.0)
        errors = () if score >= PASSING else (Problem("", _REFUSED),)
        return Verdict(score >= PASSING, score, errors, output=output)
    result = "no value in `result`" if value is None else shown(value)
    return refusal(
        f"{_UNREADABLE}: the evaluator gave {result}, not a mapping, a boolean or a number", output
    )


def of_reply(text: str, output: JSON) -> Verdict | None:
    """Read a judge's reply: the JSON object in it that has ``valid`` and is not quoted from the output.

    Returns None if no such object can be read, or if several of them differ.
    """
    objects = reading_of(text, (text_of(output),)).objects
    stated = [one.read_as(verdict) for one in objects if (verdict := _of_mapping(one.value, output))]
    one = agreed(stated, lambda verdict: (verdict.valid, verdict.score))
    return None if one is None else one.value


def _of_mapping(fields: Mapping[str, JSON], output: JSON) -> Verdict | None:
    valid = fields.get("valid")
    if isinstance(valid, str):
        valid = _WORDS.get(valid.strip().lower())
    if not isinstance(valid, bool):
        return None
    # A score beyond the scale counts as its end. `valid` is the verdict: it sets the score if that can't be read.
    score = parse_fields(fields).score
    reason = field_text(fields, "reason", "rationale", "explanation").strip()
    errors = _problems(fields.get("errors"))
    if not valid and not errors:
        errors = (Problem("", reason or _REFUSED),)
    advice = field_list(fields, "suggestions")
    return Verdict(valid, float(valid) if score is None else score, errors, advice, output)


def _problems(value: JSON) -> tuple[Problem, ...]:
    problems: list[Problem] = []
    items = value if isinstance(value, list) else [] if value is None or value == "" else [value]
    for item in items[:_MOST]:
        if not isinstance(item, Mapping):
            problems.append(Problem("", text_of(item)))
            continue
        path, message, suggestion = item.get("path"), item.get("message"), item.get("suggestion")
        at = ".".join(map(str, path)) if isinstance(path, list) else "" if path is None else str(path)
        what = message if isinstance(message, str) else abridge(text_of(item), 300)
        problems.append(Problem(at, what, suggestion if isinstance(suggestion, str) else ""))
    return tuple(problems)


def read_problems(value: JSON) -> list[JSON]:
    """Return errors of any form with the three fields that templates rely on."""
    return [asdict(problem) for problem in _problems(value)]
