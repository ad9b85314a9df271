"""How reflections stand in prompts: those of earlier runs, and the task's own chain. What gives orders stands in none.

Each retry sees all the reflections of the task's earlier attempts, in order. They don't compete for the few places of
a recall, which leaves out what this run has stored itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from jeeves_reflexion.lessons.injection import SHARED_NOTE, render
from jeeves_reflexion.lessons.screening.characters import inert
from jeeves_reflexion.lessons.screening.rules import screen
from jeeves_reflexion.reflections.forms import FORMS, PRINCIPLE
from jeeves_reflexion.reflections.markdown import Entry
from jeeves_reflexion.text import cut_middle, fence, one_line
from jeeves_reflexion.types import Lesson, Recall, Reflection, Trial

BODY_TOKENS = 1500
HEAD = "Your reflections on the earlier attempts at this very task, oldest first:"


def flaw(text: str) -> str:
    """Say how a text of a reflection tries to command its readers; empty if it is advice."""
    # The words that a principle begins with are the form's own: "follow this rule" is no order there.
    finding = screen(f"\n{text}".replace(f"\n{PRINCIPLE}", "\n"))
    return "" if finding is None else f"{finding.why} ({finding.excerpt!r})"


def flaw_of(entry: Entry) -> str:
    """Say how a reflection tries to command its readers; empty if it is advice."""
    return flaw(f"{entry.summary}\n{entry.body}")


def recalled_block(recall: Recall) -> str:
    """Write what a recall offers: whole reflections where the store has them, else its sentences.

    Other agents' reflections come last, fenced under a note that they are data.
    """
    lessons = [item.lesson for item in recall.offered]
    whole = [lesson for lesson in lessons if _body(lesson)]
    own = [inert(_body(lesson)) for lesson in whole if lesson.trust == "own"]
    others = [inert(_body(lesson), tags=True) for lesson in whole if lesson.trust != "own"]
    parts = [*own, render([lesson for lesson in lessons if not _body(lesson)])]
    if others:
        parts.append(fence("reflections_of_others", "\n\n".join(others), note=SHARED_NOTE))
    return "\n\n".join(filter(None, parts))


def chain_block(trials: Sequence[Trial]) -> str:
    """Write the reflections of a run's trials for a prompt, oldest first; empty where there is none."""
    parts = [_written(trial, trial.reflection) for trial in trials if trial.reflection is not None]
    return "\n\n".join([HEAD, *parts]) if parts else ""


def _body(lesson: Lesson) -> str:
    return cut_middle(str(lesson.metadata.get("reflection", "")), BODY_TOKENS)


def _written(trial: Trial, reflection: Reflection) -> str:
    score = trial.evaluation.score
    head = f"Attempt {trial.number} ({reflection.outcome}{'' if score is None else f', score {score:.2f}'})"
    told = [(each.heading, reflection.fields.get(each.key, "")) for each in FORMS[reflection.outcome].fields]
    lines = [f"{heading.rstrip('?:')}: {one_line(text)}" for heading, text in told if text.strip()]
    lines = lines or [f"Lesson: {one_line(reflection.lesson)}"]
    lines += [one_line(text) for text in (reflection.principle, reflection.procedure) if text]
    if flaw("\n".join((head, *lines))):
        lines = ["(What was written about it gave orders, and is left out.)"]
    return inert("\n- ".join((head, *lines)))
