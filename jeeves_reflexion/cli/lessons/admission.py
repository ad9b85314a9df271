"""What of a file may become a lesson of the store: without secrets and hidden characters, a lesson, and no order."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from jeeves_reflexion.lessons import shape_problem
from jeeves_reflexion.lessons.gate import MAX_CHARACTERS, clean_lesson
from jeeves_reflexion.lessons.screening.characters import clean_characters
from jeeves_reflexion.lessons.screening.detecting import screen
from jeeves_reflexion.redaction import redact_record
from jeeves_reflexion.text import one_line
from jeeves_reflexion.types import Lesson

_LONGEST_ID: Final = 64


def clean(lesson: Lesson) -> Lesson:
    """Return a lesson of a file as it may be stored: without secrets, and without characters that hide."""
    lesson = redact_record(lesson)
    source = lesson.provenance
    return replace(
        lesson,
        text=clean_lesson(lesson.text),
        task_id=_flat(lesson.task_id),
        task_excerpt=_flat(lesson.task_excerpt),
        task_kind=None if lesson.task_kind is None else _flat(lesson.task_kind),
        tools=tuple(map(_flat, lesson.tools)),
        provenance=replace(
            source,
            run_id=_flat(source.run_id),
            model=None if source.model is None else _flat(source.model),
            agent=None if source.agent is None else _flat(source.agent),
        ),
        state_reason=_flat(lesson.state_reason),
    )


def _flat(text: str) -> str:
    return one_line(clean_characters(text))


def shape_of(lesson: Lesson, *, restored: bool = False) -> str | None:
    """Say why a lesson of a file can't be one, whatever it says, None if it can.

    One's own, ``restored``, may have several sentences: a program can be set to let these in.
    """
    if len(lesson.id) > _LONGEST_ID or not all(each.isalnum() or each in "-_" for each in lesson.id):
        return f"its id is none: at most {_LONGEST_ID} letters, digits, - and _"
    most = len(lesson.text) if restored else MAX_CHARACTERS
    return shape_problem(lesson.text, max_characters=most, one_sentence=not restored)


def problem_with(lesson: Lesson, said: str, *, restored: bool = False) -> str | None:
    """Say why a lesson of a file is not let in, None if it is; ``said`` is its text before it was cleaned."""
    problem = shape_of(lesson, restored=restored)
    if problem is not None:
        return problem
    finding = screen(said) or screen(lesson.text)
    return None if finding is None else f"it gives orders ({finding.kind}): {finding.why}"
