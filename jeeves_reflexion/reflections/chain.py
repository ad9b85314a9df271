"""A task's own chain of reflections, and how it stands beside what is recalled (seed 002, section 7).

Each retry sees all the reflections of the task's earlier attempts, in order. They don't compete for the few places of
a recall, which leaves out what this run has stored itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from jeeves_reflexion.forms import FORMS
from jeeves_reflexion.lessons.injection import SHARED_NOTE, render
from jeeves_reflexion.lessons.screening.characters import inert
from jeeves_reflexion.reflections.gate import flaw
from jeeves_reflexion.reflections.relevance import BODY_TOKENS
from jeeves_reflexion.text import cut_middle, fence, one_line
from jeeves_reflexion.types import Lesson, Recall, Reflection, Trial

HEAD = "Your reflections on the earlier attempts at this very task, oldest first:"


def chain(trials: Sequence[Trial]) -> tuple[Reflection, ...]:
    """Return the reflections of trials, in order."""
    return tuple(trial.reflection for trial in trials if trial.reflection is not None)


def chain_block(trials: Sequence[Trial]) -> str:
    """Write the whole chain for a prompt, oldest first; empty where there is none."""
    parts = [_written(trial, trial.reflection) for trial in trials if trial.reflection is not None]
    return "\n\n".join([HEAD, *parts]) if parts else ""


def _written(trial: Trial, reflection: Reflection) -> str:
    score = trial.evaluation.score
    said = "" if score is None else f", score {score:.2f}"
    lines = [f"Attempt {trial.number} ({reflection.outcome}{said})"]
    form = FORMS[reflection.outcome]
    told = [(field.heading, reflection.fields.get(field.key, "")) for field in form.fields]
    lines += [f"- {heading.rstrip('?:')}: {one_line(text)}" for heading, text in told if text.strip()]
    if len(lines) == 1:
        lines.append(f"- Lesson: {one_line(reflection.lesson)}")
    lines += [f"- {one_line(text)}" for text in (reflection.principle, reflection.procedure) if text]
    if flaw("\n".join(line.removeprefix("- ") for line in lines)):
        return f"{lines[0]}\n- (What was written about it gave orders, and is left out.)"
    return inert("\n".join(lines))


def recalled_block(recall: Recall) -> str:
    """Write what a recall offers: whole reflections where the store has them, else its sentences.

    Other agents' reflections come last, fenced under a note that they are data.
    """
    lessons = [item.lesson for item in recall.offered]
    own = [inert(_body(lesson)) for lesson in lessons if lesson.trust == "own"]
    others = [inert(_body(lesson), tags=True) for lesson in lessons if lesson.trust != "own"]
    parts = [*filter(None, own), render([lesson for lesson in lessons if not _body(lesson)])]
    if any(others):
        parts.append(fence("reflections_of_others", "\n\n".join(filter(None, others)), note=SHARED_NOTE))
    return "\n\n".join(filter(None, parts))


def _body(lesson: Lesson) -> str:
    text = lesson.metadata.get("reflection")
    return cut_middle(text, BODY_TOKENS) if isinstance(text, str) else ""
