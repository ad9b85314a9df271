"""The forms of structured reflections: one for each of the four outcomes, as data, and the checks of a filled-in form.

A failed task has five fields, a partial one three, a success two, a decision three. Important reflections also have the
dual reflection of MARS: a principle, which prevents the failure, or a procedure, which can be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.text import abridge, one_line, sentences
from jeeves_reflexion.types import NO_USAGE, Evaluation, Outcome, Reflection

Cause: TypeAlias = Literal["strategy", "input", "knowledge", "external", "unclassified"]
Policy: TypeAlias = Literal["mandatory", "optional", "recommended"]

FIELD_CHARACTERS: Final = 4000
RULE_CHARACTERS: Final = 500
STEPS_MOST: Final = 30
PRINCIPLE: Final = "I should follow this rule: "
PROCEDURE: Final = "These steps worked: "
BULLET: Final = re.compile(r"^\s*(?:[-*\u2022]|\(?\d{1,3}[.)])\s+")
PARTIAL_FROM: Final = 0.5
"""The score from which an attempt that did not pass counts as partial."""

CAUSES: Final[Mapping[Cause, str]] = MappingProxyType(
    {
        "strategy": "Wrong strategy",
        "input": "Bad input",
        "knowledge": "Missing knowledge",
        "external": "External failure",
    }
)
"""The four classes of root causes and their names; a "why" without one of these names is ``unclassified``."""


class ReflectionFormError(LessonStoreError):
    """A reflection does not fit its form; the message names the field."""


@dataclass(frozen=True, slots=True)
class FormField:
    """One field: its key in :attr:`Reflection.fields`, its heading, and what it asks for."""

    key: str
    heading: str
    asks: str


@dataclass(frozen=True, slots=True)
class Form:
    """The form of one outcome.

    ``title`` is the first word of its heading. ``policy`` says whether a reflection must be written. ``important`` says
    when it needs a principle or procedure, and ``mars`` which of them; empty if the form has neither. ``lesson`` names
    the fields whose first sentences make the one-sentence lesson.
    """

    outcome: Outcome
    title: str
    policy: Policy
    fields: tuple[FormField, ...]
    lesson: tuple[str, ...]
    important: str = ""
    mars: tuple[Literal["principle", "procedure"], ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the fields, in order."""
        return tuple(field.key for field in self.fields)

    @property
    def headings(self) -> str:
        """The headings of the fields, in order, as a list for people."""
        return ", ".join(field.heading for field in self.fields)


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
            ("tactical_rule",),
            "the cause is systemic: other tasks of this kind will meet it again",
            ("principle",),
        ),
        "partial": Form(
            "partial", "Reflection", "mandatory", (_HAPPENED, _WRONG, _DIFFERENTLY), ("do_differently",)
        ),
        "success": Form(
            "success",
            "Procedure",
            "optional",
            (
                FormField("strategy", "Strategy", "the way that led to success, in one sentence"),
                FormField("why_it_worked", "Why it worked", "what made it work here"),
            ),
            ("strategy",),
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
            ("decision", "why_chosen"),
            "the decision is significant: later tasks will face it again",
            ("principle",),
        ),
    }
)


def outcome_of(evaluation: Evaluation, *, passed: bool) -> Outcome:
    """Return which form a verdict asks for.

    ``success`` if the attempt passed; else ``partial`` for a score of at least :data:`PARTIAL_FROM`; else ``failed``,
    also without a score.
    """
    if passed:
        return "success"
    score = evaluation.score
    return "partial" if score is not None and score >= PARTIAL_FROM else "failed"


def fills(outcome: Outcome, due: Outcome) -> bool:
    """Return whether a reflection on ``outcome`` serves where one on ``due`` is due; "failed" serves for "partial"."""
    return outcome == due or (due, outcome) == ("partial", "failed")


def make_reflection(
    outcome: Outcome,
    fields: Mapping[str, str],
    *,
    rule: str = "",
    steps: Sequence[str] = (),
    evidence: tuple[int, ...] = (),
) -> Reflection:
    """Return a reflection in its form; ``rule`` and ``steps`` become the principle and the procedure.

    Raises :class:`ReflectionFormError`, which names the field, if the form is not filled in correctly.
    """
    return checked_form(
        Reflection(
            "",
            outcome,
            fields,
            rule if rule.strip() else None,
            procedure_of(steps) if steps else None,
            evidence,
        )
    )


def checked_form(reflection: Reflection) -> Reflection:
    """Return a reflection as it is stored: clean texts, principle and procedure in their wording, the form's lesson.

    Raises :class:`ReflectionFormError`, which names the field, if the form is not filled in correctly.
    """
    form = FORMS.get(reflection.outcome)
    if form is None:
        raise ReflectionFormError(
            f"there is no form for the outcome {reflection.outcome!r}: use one of {', '.join(FORMS)}"
        )
    fields = {key: clean_text(text) for key, text in reflection.fields.items()}
    _check_fields(form, fields)
    principle, procedure = reflection.principle, reflection.procedure
    for name, text in (("principle", principle), ("procedure", procedure)):
        if text is not None and not form.mars:
            raise ReflectionFormError(f"a {form.outcome} reflection has no {name}: leave it out")
    firsts = []
    for key in form.lesson:
        text = fields[key]
        if BULLET.match(text):
            text = BULLET.sub("", text).split("\n")[0]
        firsts.append(next(iter(sentences(one_line(text))), ""))
    lesson = ": ".join([*(each.rstrip(".") for each in firsts[:-1]), firsts[-1]])
    return replace(
        reflection,
        lesson=abridge(lesson, RULE_CHARACTERS),
        fields=fields,
        principle=None if principle is None else principle_of(principle),
        procedure=None if procedure is None else procedure_in(procedure),
        usage=NO_USAGE,
    )


def _check_fields(form: Form, fields: Mapping[str, str]) -> None:
    for field in form.fields:
        text, problem = fields.get(field.key, ""), None
        if not text:
            problem = f"({field.key}) is missing: a {form.outcome} reflection needs {field.asks}"
        elif len(text) > FIELD_CHARACTERS:
            problem = f"has {len(text)} characters: use at most {FIELD_CHARACTERS}"
        elif field is _RULE and (why := _sentence_problem(text)):
            problem = f"({field.key}) must be one sentence: {why}"
        if problem:
            raise ReflectionFormError(f"the field {field.heading!r} {problem}")
    for key in fields:
        if key not in form.keys:
            raise ReflectionFormError(
                f"a {form.outcome} reflection has no field {key!r}: its fields are {', '.join(form.keys)}"
            )


_MARKS: Final = (
    " \t\n-*_`\"'(["  # what may stand before the name of a cause: the prompt has the names in quotes
)


def cause_of(text: str) -> Cause:
    """Return the class of root cause whose name a "why" begins with, else ``unclassified``."""
    begin = text.lstrip(_MARKS).casefold()
    return next(
        (cause for cause, name in CAUSES.items() if begin.startswith(name.casefold())), "unclassified"
    )


def with_cause(text: str, cause: str) -> str:
    """Put the class of root cause that ``cause`` names, if it names one, before a "why" that begins with none."""
    given = cause.lstrip(_MARKS).casefold()
    names = [name for key, name in CAUSES.items() if given.startswith((key, name.casefold()))]
    return f"{names[0]}: {text.strip()}" if names and cause_of(text) == "unclassified" else text


def clean_text(text: str) -> str:
    """Return the text of a field as it is stored: with line feeds, and without white space around it."""
    return flat_text(text).strip()


def flat_text(text: str) -> str:
    """Return a text with line feeds as line endings, and with characters that a UTF-8 file can hold."""
    flat = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    return flat.encode("utf-8", "replace").decode("utf-8")


# -- principles and procedures; programs that read the files rely on their wording


def _sentence_problem(text: str) -> str | None:
    """Return why a text is not one sentence; None if it is."""
    stripped = text.strip()
    if not any(map(str.isalpha, stripped)):
        return "it has no words"
    if len(stripped.splitlines()) > 1:
        return f"it has {len(stripped.splitlines())} lines"
    if len(stripped) > RULE_CHARACTERS:
        return f"it has {len(stripped)} characters: use at most {RULE_CHARACTERS}"
    number = len(sentences(stripped))
    return None if number == 1 else f"it has {number} sentences"


def principle_of(rule: str) -> str:
    """Return a rule, with or without the opening words, as a principle; raises unless it is one sentence."""
    rule = one_line(_unprefixed(rule, PRINCIPLE))
    if why := _sentence_problem(rule):
        raise ReflectionFormError(f"the principle must be one sentence: {why}")
    return PRINCIPLE + rule


def procedure_of(steps: Sequence[str]) -> str:
    """Return steps as a procedure, a list numbered from 1; raises if there are none, or too many."""
    lines = [BULLET.sub("", one_line(_unprefixed(step, PROCEDURE))) for step in steps]
    lines = [line for line in lines if line]
    if not 1 <= len(lines) <= STEPS_MOST:
        raise ReflectionFormError(f"the procedure must have 1 to {STEPS_MOST} steps, not {len(lines)}")
    return PROCEDURE + "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


def procedure_in(text: str) -> str:
    """Return a list of steps, with or without the opening words, as a procedure; raises as :func:`procedure_of`."""
    steps: list[str] = []
    for line in _unprefixed(text, PROCEDURE).split("\n"):
        if BULLET.match(line) or not steps:
            steps.append(line)
        else:  # the line continues the step before
            steps[-1] += f" {line}"
    return procedure_of(steps)


def _unprefixed(text: str, prefix: str) -> str:
    stripped = text.strip()
    return (
        stripped[len(prefix.strip()) :] if stripped.lower().startswith(prefix.strip().lower()) else stripped
    )
