"""A language model that fills in the form of an outcome: failed, partial, success, or decision."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from jeeves_reflexion.errors import ConfigurationError, UnreadableReplyError
from jeeves_reflexion.models.advice import read_lesson
from jeeves_reflexion.models.ask import ask, ask_and_read
from jeeves_reflexion.models.fields import listed, read_fields, says_nothing
from jeeves_reflexion.protocols import ChatModel, Completion, Message
from jeeves_reflexion.reflections.forms import (
    BULLET,
    CAUSES,
    FORMS,
    Form,
    ReflectionFormError,
    make_reflection,
    outcome_of,
    with_cause,
)
from jeeves_reflexion.reflectors.lesson import material_of
from jeeves_reflexion.text import abridge, fence, read_prompt
from jeeves_reflexion.types import JSON, Reflection, Task, Trial

TRAJECTORY_TOKENS: Final = 3000


class StructuredReflector:
    """Writes structured reflections on trials and on decisions.

    The verdict decides the form: ``success`` for a trial that passed, ``partial`` for a score of at least 0.5, else
    ``failed``. If the form is not filled in correctly (a missing field, a rule of two sentences), the model is asked
    once more with the problem named. A principle or procedure is kept only if the model calls the reflection important
    by the measure of the form.

    Raises :class:`UnreadableReplyError`, which names the field, if the second answer is refused too, and ``ModelError``
    if the model can't be reached.
    """

    def __init__(self, model: ChatModel) -> None:
        self.model = model

    async def __call__(
        self, task: Task, trials: Sequence[Trial], *, problem: str | None = None
    ) -> Reflection:
        """Return the reflection on the last of ``trials``."""
        if not trials:
            raise ConfigurationError("a reflector needs at least one trial to reflect on")
        last = trials[-1]
        outcome = outcome_of(last.evaluation, passed=last.passed)
        material = material_of(task, trials, tokens=TRAJECTORY_TOKENS)
        reflection = await self._filled(FORMS[outcome], material, problem)
        steps = len(last.attempt.steps)
        return replace(reflection, evidence=tuple(n for n in reflection.evidence if 1 <= n <= steps))

    async def decide(self, task: Task, decision: str) -> Reflection:
        """Return the reflection on an important decision for a task, which no trial asks for by itself.

        ``decision`` says what was chosen, from which options, and why. To write a reflection yourself, use
        :func:`~jeeves_reflexion.reflections.forms.make_reflection`.
        """
        material = f"{fence('task', task.prompt)}\n\n{fence('decision', decision)}"
        return await self._filled(FORMS["decision"], material, None)

    async def _filled(self, form: Form, material: str, problem: str | None) -> Reflection:
        """Ask the model; once more with the problem, unless ``problem`` says that this is the second time."""
        keys = (*form.keys, "cause", "important", "rule", "steps", "evidence")
        names = {each.heading: each.key for each in form.fields} | {key: key for key in keys} | _OTHER_NAMES

        def read(completion: Completion) -> tuple[Reflection | ReflectionFormError, str]:
            try:
                return _reflection(form, read_fields(completion.text, names)), ""
            except ReflectionFormError as error:
                return error, "" if problem else str(error)

        if problem:
            material += f"\n\nYour previous answer was refused: {problem}. {_AGAIN}"
        prompt = read_prompt(None, "jeeves_reflexion.reflections", f"{form.outcome}.md")
        messages = [Message("system", prompt), Message("user", material)]
        call = partial(ask, self.model, schema=_schema(form))
        answer, usage = await ask_and_read(call, messages, read, form=_AGAIN)
        if isinstance(answer, ReflectionFormError):
            raise UnreadableReplyError(f"the reflection was refused: {answer}") from answer
        return replace(answer, usage=usage)


_AGAIN: Final = "Answer with the whole form again."
_NO: Final = frozenset({"false", "no", "0", ""})
_OTHER_NAMES: Final = {
    "principle": "rule",
    "procedure": "steps",
    "root cause": "cause",
    "systemic": "important",
}


def _reflection(form: Form, answers: Mapping[str, JSON]) -> Reflection:
    """Return a model's answers as a reflection; raises :class:`ReflectionFormError` if they don't fit the form."""
    fields = {key: _text(answers[key]) for key in form.keys if _text(answers.get(key))}
    if "why" in fields:
        fields["why"] = with_cause(fields["why"], _text(answers.get("cause")))
    rule, steps = "", tuple[str, ...]()
    if form.mars and _text(answers.get("important")).strip().casefold().rstrip(".") not in _NO:
        rule, given = _text(answers.get("rule")), answers.get("steps")
        rule = "" if says_nothing(rule) else rule
        if isinstance(given, str) or not isinstance(given, Sequence):
            given = _text(given).split("\n")
        steps = listed(BULLET.sub("", _text(each)) for each in given)
        for name, key, written in (("principle", "rule", rule), ("procedure", "steps", steps)):
            if name in form.mars and not written:
                raise ReflectionFormError(f"the {name} ({key}) is missing: you said that {form.important}")
    numbers = tuple(int(number) for number in re.findall(r"\d{1,6}", _text(answers.get("evidence"))))
    reflection = make_reflection(form.outcome, fields, rule=rule, steps=steps, evidence=numbers)
    if not read_lesson(reflection.lesson):
        raise ReflectionFormError(f"it holds no lesson: {abridge(reflection.lesson, 80)!r} gives no advice")
    return reflection


def _text(value: JSON) -> str:
    if value is None or isinstance(value, Mapping):
        return ""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "\n".join(filter(None, map(_text, value)))
    return value.strip() if isinstance(value, str) else str(value)


def _schema(form: Form) -> Mapping[str, JSON]:
    """Return the JSON Schema of a form."""
    properties: dict[str, JSON] = {}
    for key in form.keys:
        if key == "why":
            properties["cause"] = {"type": "string", "enum": [*CAUSES]}
        properties[key] = {"type": "string"}
    if form.mars:
        properties["important"] = {"type": "boolean"}
        properties["rule"] = {"type": "string"}
        properties["steps"] = {"type": "array", "items": {"type": "string"}}
    if form.outcome != "decision":
        properties["evidence"] = {"type": "array", "items": {"type": "integer"}}
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }
