"""Compares the output with the reference or with an earlier text."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from jeeves_reflexion.callables import side_by_side
from jeeves_reflexion.evaluators.judge import (
    OUTPUT_TOKENS,
    SHARE,
    STEADY,
    TEXT_LIST,
    TEXTS,
    as_text,
    object_schema,
    task_parts,
)
from jeeves_reflexion.evaluators.replies import UNSTATED_CONFIDENCE, field_list, field_text, share
from jeeves_reflexion.models.ask import ask, ask_and_read
from jeeves_reflexion.models.replies import agreed, reading_of
from jeeves_reflexion.protocols import ChatModel, Completion, Message
from jeeves_reflexion.text import cut_middle, fence, read_prompt
from jeeves_reflexion.types import JSON, Attempt, Evaluation, Task
from jeeves_reflexion.values import check_choice

Against: TypeAlias = Literal["reference", "prior"]

# Neither text may pose as the other: a fence escapes only its own name.
_TAG = re.compile(r"<(?=\s*/?\s*text_[ab](?!\w))", re.IGNORECASE)
_LETTERS = {"a": "A", "b": "B", "same": "same", "tie": "same", "equal": "same", "neither": "same"}
_BETTER = {1.0: "new", 0.0: "old", 0.5: "same"}
_SCHEMA: Mapping[str, JSON] = object_schema(
    {
        "rationale": {"type": "string"},
        "better": {"type": "string", "enum": ["A", "B", "same"]},
        "confidence": SHARE,
        "issues_a": TEXT_LIST,
        "issues_b": TEXT_LIST,
    }
)


class Comparison:
    """Compares the output with the task's reference, or with an earlier text (:meth:`with_prior`).

    The model is asked twice, once for each order of the texts, because judges prefer one position to the other (Zheng
    et al. 2023, "Judging LLM-as-a-Judge", section 3.4). An opinion counts only if both orders give it. If they
    contradict each other, neither text is better, at a quarter of the confidence; if one of them decides and the other
    doesn't, neither is, at half of it.

    It scores 1.0 if the output is better, 0.0 if it is worse, and 0.5 if neither is, or if the orders disagree. With
    nothing to compare with there is no score. Raises ``ModelError`` if the model can't be reached.
    """

    def __init__(self, model: ChatModel, *, against: Against = "reference", prior: str | None = None) -> None:
        check_choice("against", against, Against)
        self.against = against
        self.prior = prior
        self._model = model
        self._system = Message("system", read_prompt(None, "jeeves_reflexion.evaluators", "compare.md"))

    def with_prior(self, text: str) -> Comparison:
        """Return an evaluator that compares with an earlier text."""
        return Comparison(self._model, against="prior", prior=text)

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Compare the output and return the verdict."""
        gold = self.against == "reference"
        old = self.prior if not gold else None if task.reference is None else as_text(task.reference)
        if old is None:
            lacking = "the task has no reference" if gold else "there is no earlier text"
            return Evaluation(None, rationale=f"nothing to compare with: {lacking}", confidence=0.0)
        verdict = await self.compare(task, attempt.output, old)
        return replace(verdict, quotes_gold=TEXTS if gold else frozenset())

    async def compare(self, task: Task, new: str, old: str) -> Evaluation:
        """Compare two texts and return the verdict on the new one.

        The issues are those of the new text; the model sees the reference only if it is one of the texts.
        """
        one, other = await side_by_side(
            [
                lambda: self._ask(task, new, old, swapped=False),
                lambda: self._ask(task, old, new, swapped=True),
            ]
        )
        usage = one.usage + other.usage
        if one.score is None or other.score is None:
            problem = one.rationale if one.score is None else other.rationale
            said = f"the judge's reply could not be read: {problem}"
            return Evaluation(None, rationale=said, confidence=0.0, usage=usage)
        score, rationale = one.score, one.rationale
        confidence = ((one.confidence or 0.0) + (other.confidence or 0.0)) / 2
        if one.score != other.score:
            score, confidence = 0.5, confidence * (0.5 if 0.5 in {one.score, other.score} else 0.25)
            first, second = _BETTER[one.score], _BETTER[other.score]
            rationale = f"the order of the texts made a difference: {first} is better, or {second}"
        issues = tuple(dict.fromkeys(one.issues + other.issues))
        return Evaluation(score, rationale=rationale, issues=issues, confidence=confidence, usage=usage)

    async def _ask(self, task: Task, first: str, second: str, *, swapped: bool) -> Evaluation:
        texts = (("text_a", first), ("text_b", second))
        shown = [
            *task_parts(task, reference=False),
            *(fence(n, _TAG.sub("&lt;", cut_middle(t, OUTPUT_TOKENS))) for n, t in texts),
        ]
        opinion, usage = await ask_and_read(
            functools.partial(ask, self._model, schema=_SCHEMA, sampling=STEADY),
            [self._system, Message("user", "\n\n".join(shown))],
            functools.partial(_read, shown=(first, second), swapped=swapped),
        )
        return replace(opinion, usage=usage)


def _read(completion: Completion, shown: Sequence[str], *, swapped: bool) -> tuple[Evaluation, str]:
    """Return the verdict of a reply on the new text, and the problem with a reply that can't be read."""
    opinions = [each for each in reading_of(completion.text, shown).objects if "better" in each.value]
    one = agreed(opinions, lambda fields: _letter(fields["better"]))
    if one is None:
        problem = 'there is no JSON object with "better" in the reply, or several'
        return Evaluation(None, rationale=problem), problem
    fields = one.value
    said, letter = fields["better"], _letter(fields["better"])
    if letter is None:
        problem = f'better must be "A", "B" or "same", not {said!r}'
        return Evaluation(None, rationale=problem), problem
    new = "B" if swapped else "A"
    confidence = share(fields.get("confidence"))
    verdict = Evaluation(
        0.5 if letter == "same" else float(letter == new),
        rationale=f"{field_text(fields, 'rationale', 'reason')} (text {new} is the new one)".strip(),
        issues=field_list(fields, f"issues_{new.lower()}"),
        confidence=UNSTATED_CONFIDENCE if confidence is None else confidence,
    )
    return verdict, ""


def _letter(said: JSON) -> str | None:
    return _LETTERS.get(said.strip().lower().removeprefix("text ")) if isinstance(said, str) else None
