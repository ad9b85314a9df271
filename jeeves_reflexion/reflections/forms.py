"""What a structured reflection consists of: the forms of the four outcomes, as data, and what a filled-in one must say.

Five fields for a failed task, three for a partial one, two for a success, three for a decision; and for the important
ones a principle and a procedure (``principles.py``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.reflections.principles import (
    BULLET,
    PRINCIPLE,
    PROCEDURE,
    RULE_CHARACTERS,
    principle_of,
    procedure_of,
    rule_of,
    sentence_problem,
    steps_of,
)
from jeeves_reflexion.text import abridge, one_line, sentences
from jeeves_reflexion.types import NO_USAGE, Evaluation, Outcome, Reflection

Cause: TypeAlias = Literal["strategy", "input", "knowledge", "external", "unclassified"]
Policy: TypeAlias = Literal["mandatory", "optional", "recommended"]

FIELD_CHARACTERS: Final = 4000
PARTIAL_FROM: Final = 0.5
"""The score from which an attempt that did not pass counts as partial: half of what was asked for, or more."""

CAUSES: Final[Mapping[Cause, str]] = MappingProxyType(
    {
        "strategy": "Wrong strategy",
        "input": "Bad input",
        "knowledge": "Missing knowledge",
        "external": "External failure",
    }
)
"""The four classes of root causes, and the words that name them; a "why" that names none is ``unclassified``."""


class ReflectionFormError(LessonStoreError):
    """A reflection that its form refuses; ``field`` is the heading of the field at fault, empty where there is none."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class FormField:
    """One field: its key in :attr:`Reflection.fields`, its heading, and what it should say."""

    key: str
    heading: str
    asks: str


@dataclass(frozen=True, slots=True)
class Form:
    """The form of one outcome.

    ``title`` is the first word of its heading. ``policy`` says whether a reflection must be written. ``important``
    says when a principle or procedure goes with it; ``mars`` names the ones that must then be there, and is empty where
    neither may be.
    """

    outcome: Outcome
    title: str
    policy: Policy
    fields: tuple[FormField, ...]
    important: str = ""
    mars: tuple[Literal["principle", "procedure"], ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the fields, in order."""
        return tuple(field.key for field in self.fields)


_HAPPENED = FormField(
    "what_happened", "What happened?", "the facts of the task and of how it ended, without judgement"
)
_WRONG = FormField(
    "what_went_wrong", "What went wrong?", "the very point of failure: which step, which tool, which input"
)
_WHY = FormField(
    "why",
    "Why did it go wrong?",
    "the root cause, its class first: wrong strategy, bad input, missing knowledge or external failure",
)
_DIFFERENTLY = FormField(
    "do_differently", "What should I do differently?", "a correction that is specific enough to follow"
)
_RULE = FormField(
    "tactical_rule", "Tactical rule candidate", "one sentence: the rule that would have prevented this"
)

FORMS: Final[Mapping[Outcome, Form]] = MappingProxyType(
    {
        "failed": Form(
            "failed",
            "Reflection",
            "mandatory",
            (_HAPPENED, _WRONG, _WHY, _DIFFERENTLY, _RULE),
            "the cause is systemic: other tasks of this kind will meet it again",
            ("principle",),
        ),
        "partial": Form("partial", "Reflection", "mandatory", (_HAPPENED, _WRONG, _DIFFERENTLY)),
        "success": Form(
            "success",
            "Procedure",
            "optional",
            (
                FormField("strategy", "Strategy", "the way that led to success, in one sentence"),
                FormField("why_it_worked", "Why it worked", "what made it work here"),
            ),
            "the strategy is replicable: its steps would solve other tasks of this kind",
            ("procedure",),
        ),
        "decision": Form(
            "decision",
            "Reflection",
            "recommended",
            (
                FormField("decision", "What was the decision?", "what was chosen, in one sentence"),
                FormField("alternatives", "What alternatives existed?", "what else could have been chosen"),
                FormField(
                    "why_chosen", "Why was this option chosen?", "what spoke for it against the others"
                ),
            ),
            "the decision is significant: later tasks will face it again",
            ("principle",),
        ),
    }
)


def outcome_of(evaluation: Evaluation, *, passed: bool, partial_from: float = PARTIAL_FROM) -> Outcome:
    """Say which form a verdict asks for.

    ``success`` for an attempt that passed; else ``partial`` from a score of ``partial_from`` on; else ``failed``, also
    where there is no score. No verdict means a decision: those are made, see :func:`decision_reflection`.
    """
    if passed:
        return "success"
    score = evaluation.score
    return "partial" if score is not None and score >= partial_from else "failed"


def fills(outcome: Outcome, due: Outcome) -> bool:
    """Whether a reflection on ``outcome`` does where one on ``due`` is due: the full form does for the short one."""
    return outcome == due or (due, outcome) == ("partial", "failed")


def make_reflection(
    outcome: Outcome,
    fields: Mapping[str, str],
    *,
    rule: str = "",
    steps: Sequence[str] = (),
    evidence: tuple[int, ...] = (),
) -> Reflection:
    """Return a reflection in its form.

    ``rule`` and ``steps`` become the principle and the procedure. Raises :class:`ReflectionFormError`, which names the
    field, for one that its form refuses.
    """
    texts = {key: clean_text(text) for key, text in fields.items()}
    if "why" in texts:
        texts["why"] = with_cause(texts["why"])
    made = Reflection(
        lesson_sentence(outcome, texts),
        outcome,
        texts,
        principle_of(rule) if rule.strip() else None,
        procedure_of(steps) if steps else None,
        evidence,
    )
    check_form(made)
    return made


def decision_reflection(
    decision: str, *, alternatives: str, why: str, rule: str = "", steps: Sequence[str] = ()
) -> Reflection:
    """Return the reflection on an important decision; see :func:`make_reflection`."""
    fields = {"decision": decision, "alternatives": alternatives, "why_chosen": why}
    return make_reflection("decision", fields, rule=rule, steps=steps)


def check_form(reflection: Reflection) -> None:
    """Raise :class:`ReflectionFormError` for a reflection that its form refuses; the message names the field."""
    form = FORMS.get(reflection.outcome)
    if form is None:
        raise ReflectionFormError(
            f"there is no form for the outcome {reflection.outcome!r}: use one of {', '.join(FORMS)}"
        )
    for field in form.fields:
        if problem := _field_problem(form, field, reflection.fields.get(field.key, "")):
            raise ReflectionFormError(f"the field {field.heading!r} {problem}", field=field.heading)
    for key in reflection.fields:
        if key not in form.keys:
            raise ReflectionFormError(
                f"a {form.outcome} reflection has no field {key!r}: its fields are {', '.join(form.keys)}",
                field=key,
            )
    principle, procedure = reflection.principle, reflection.procedure
    for name, text in (("principle", principle), ("procedure", procedure)):
        if text is not None and not form.mars:
            raise ReflectionFormError(f"a {form.outcome} reflection has no {name}: leave it out", field=name)
    if principle is not None and rule_of(principle) is None:
        raise ReflectionFormError(
            f"the principle must read {PRINCIPLE + '<one sentence>'!r}, not {abridge(principle, 80)!r}",
            field="principle",
        )
    if procedure is not None and steps_of(procedure) is None:
        raise ReflectionFormError(
            f"the procedure must read {PROCEDURE + '1. <step>'!r} with the steps on lines of their own, numbered from "
            f"1, not {abridge(procedure, 80)!r}",
            field="procedure",
        )


def form_problem(reflection: Reflection) -> str | None:
    """Say why a reflection's form refuses it, in words for who wrote it; None if it is fine."""
    try:
        check_form(reflection)
    except ReflectionFormError as error:
        return str(error)
    return None


def _field_problem(form: Form, field: FormField, text: str) -> str | None:
    if not text.strip():
        return f"({field.key}) is missing: a {form.outcome} reflection needs {field.asks}"
    if len(text) > FIELD_CHARACTERS:
        return f"has {len(text)} characters: keep it below {FIELD_CHARACTERS}"
    problem = sentence_problem(text) if field is _RULE else None
    return f"({field.key}) must be one sentence: {problem}" if problem else None


_CAUSE: Final = re.compile(
    r"[\s*_\[(\"'-]*(?:(?:the\s+)?(?:root\s+)?cause\s*(?:is|was|:)[\s*_]*)?(?:(?:an?|the)\s+)?"
    r"(?P<words>(?:wrong\s+strategy|bad\s+input|missing\s+knowledge|external\s+failure)\b"
    r"|(?:(?:wrong|bad|missing)\s+)?(?:strategy|input|knowledge|external)(?:\s+(?:failure|cause|error))?"
    r"(?=[\s*_\])\"']*(?:[:.;,\u2013\u2014-]|$|\n)))"
    r"(?P<end>[\s*_\])\"']*(?:[:.;,\u2013\u2014-]+[*_\s]*|$|\n))?",
    re.IGNORECASE,
)


def cause_of(text: str) -> Cause:
    """Return the class of the root cause that a "why" begins with, ``unclassified`` where it begins with none.

    Further on, the words around a class might deny it.
    """
    match = _CAUSE.match(text)
    words = match["words"].lower() if match else ""
    return next((cause for cause in CAUSES if cause in words), "unclassified")


def with_cause(text: str, cause: str = "") -> str:
    """Write a "why" with its class first, in the form's own words; as it is where it begins so, or none is named."""
    own, of_text = _CAUSE.match(text), cause_of(text)
    found = cause_of(cause.strip() + ":") if cause.strip() else of_text
    labelled = own is not None and own["end"] is not None
    if found == "unclassified" or (found == of_text and not labelled):
        return text
    rest = text[own.end() :] if own is not None and labelled and found == of_text else text
    return f"{CAUSES[found]}: {rest.strip()}" if rest.strip() else f"{CAUSES[found]}."


def lesson_sentence(outcome: Outcome, fields: Mapping[str, str]) -> str:
    """Return the one sentence that is stored of a reflection; empty where the field it comes from is.

    The tactical rule of a failed one, the first sentence of what a partial one would do differently and of a success's
    strategy, and of a decision what was decided and why.
    """
    if outcome == "decision":
        decision, why = _first(fields.get("decision", "")), _first(fields.get("why_chosen", ""))
        said = f"{decision.rstrip('.')}: {why}" if decision and why else decision or why
    else:
        source = {"failed": "tactical_rule", "partial": "do_differently", "success": "strategy"}[outcome]
        said = _first(fields.get(source, ""))
    return abridge(said, RULE_CHARACTERS)


def _first(text: str) -> str:
    if BULLET.match(text.lstrip()):
        text = BULLET.sub("", text.lstrip()).split("\n")[0]
    found = sentences(one_line(text))
    return found[0] if found else ""


def clean_text(text: str) -> str:
    """Return a field's text as it is kept: lines end in a line feed, and nothing blank stands around it."""
    return flat_text(text).strip()


def flat_text(text: str) -> str:
    """Return a text whose lines end in a line feed, and that a UTF-8 file can hold."""
    flat = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    return flat.encode("utf-8", "replace").decode("utf-8")


def normalised(reflection: Reflection) -> Reflection:
    """Return a reflection as it is kept: its texts cleaned, its lesson the form's own, without usage."""
    fields = {key: clean_text(text) for key, text in reflection.fields.items()}
    lesson = lesson_sentence(reflection.outcome, fields)
    return Reflection(
        lesson,
        reflection.outcome,
        fields,
        reflection.principle,
        reflection.procedure,
        reflection.evidence,
        NO_USAGE,
    )
