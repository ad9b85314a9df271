"""What may become a lesson: the shape of a lesson, its cleaning, and how a reflector is asked for one.

Each new lesson passes :func:`clean` once: hidden characters, redaction, screening. The result is a
:class:`CleanLesson`, and the repository accepts nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from jeeves_reflexion.callables import aside
from jeeves_reflexion.errors import ConfigurationError, LessonRefusedError, UnreadableReplyError
from jeeves_reflexion.events import LessonChecked
from jeeves_reflexion.lessons.checks import Check, opinion_of
from jeeves_reflexion.lessons.screening.characters import clean_characters, inert
from jeeves_reflexion.lessons.screening.rules import Finding
from jeeves_reflexion.lessons.screening.screens import Screen, screened
from jeeves_reflexion.models.advice import read_lesson, repeats
from jeeves_reflexion.protocols import Reflector
from jeeves_reflexion.redaction import redact, redact_id, redact_record
from jeeves_reflexion.session import Session, logger
from jeeves_reflexion.text import abridge, sentences
from jeeves_reflexion.types import Lesson, Reflection, Task, Trial

MAX_CHARACTERS: Final = 500
EXCERPT_CHARACTERS: Final = 200
# The separators U+2028 and U+2029 are invisible: they are removed with the hidden characters.
_LINE_END = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85]")


_NO_LESSON: Final = (
    "it holds no lesson: it is empty, says that there is none, apologises, or gives no advice at all"
)


def shape_problem(
    text: str,
    *,
    max_characters: int = MAX_CHARACTERS,
    one_sentence: bool = True,
    said: Mapping[str, str] | None = None,
) -> str | None:
    """Say why a text is no lesson, in words for the reflector that wrote it; ``None`` if it is one.

    A lesson is one sentence on one line, gives advice, is at most ``max_characters`` long, and does not repeat a text
    in ``said``, which is keyed by the name of each text. ``one_sentence=False`` allows several sentences and lines.
    """
    text = text.strip()
    if not (any(map(str.isalpha, text)) and read_lesson(text, one_sentence=one_sentence)):
        return _NO_LESSON
    lines = len(_LINE_END.findall(text)) + 1
    if one_sentence and lines > 1:
        return f"it has {lines} lines instead of one sentence"
    if len(text) > max_characters:
        wanted = "one sentence of " if one_sentence else ""
        return f"it has {len(text)} characters; {wanted}at most {max_characters} is wanted"
    if one_sentence and (number := len(sentences(text))) > 1:
        return f"it has {number} sentences instead of one"
    repeated = (name for name, other in (said or {}).items() if repeats(text, other))
    return next((f"it only repeats {name}" for name in repeated), None)


@dataclass(frozen=True, slots=True)
class CleanLesson:
    """A lesson that may be stored, with the texts of its tasks; no field holds secrets or hidden characters.

    If the text gives orders, ``finding`` says why the lesson must wait in quarantine.
    """

    lesson: Lesson
    tasks: tuple[str, ...]
    finding: Finding | None = None


async def clean(lesson: Lesson, tasks: Sequence[str], *, screen: Screen | None = None) -> CleanLesson:
    """Return a lesson and the texts of its tasks (at least one) in the form in which they are stored.

    Raises :class:`ConfigurationError` for a text that is not a lesson; its length is not checked.
    """
    if not tasks or isinstance(tasks, str):
        raise ConfigurationError("a lesson is found by the texts of its tasks: pass a list with at least one")
    text = await aside(clean_lesson, lesson.text)
    if not read_lesson(text, one_sentence=False):
        kind = f"that gives no advice ({abridge(text, 80)})" if text else "without words"
        raise ConfigurationError(f"a lesson {kind} can't be stored")
    known = tuple([await aside(clean_prompt, task) for task in tasks])
    if lesson.task_excerpt == tasks[0]:
        excerpt = abridge(known[0], EXCERPT_CHARACTERS)
    else:
        excerpt = clean_prompt(lesson.task_excerpt)
    # The text and the excerpt are clean already.
    fields = redact_record(replace(lesson, text="", task_excerpt=""))
    # The rules see the text as it came, because hidden characters are a reason to refuse it.
    finding = await screened(text, screen, said=lesson.text)
    return CleanLesson(replace(fields, text=text, task_excerpt=excerpt), known, finding)


def check_shape(text: str, name: str = "the text") -> None:
    """Raise :class:`ConfigurationError` for a text that is not a lesson; see :func:`shape_problem`."""
    problem = shape_problem(text)
    if problem is not None:
        raise ConfigurationError(f"{name} is not a lesson: {problem}")


async def clean_words(lesson_id: str, text: str, *, screen: Screen | None = None) -> str:
    """Return a new text for a stored lesson, cleaned.

    Raises :class:`ConfigurationError` for a text that is not a lesson, :class:`LessonRefusedError` for one that gives
    orders.
    """
    check_shape(text, "the new text")
    cleaned = clean_lesson(text)
    finding = await screened(cleaned, screen)
    if finding is not None:
        raise LessonRefusedError(f"the new text gives orders ({finding.kind}): {finding.why}", lesson_id)
    return cleaned


def clean_lesson(text: str) -> str:
    """Return a lesson on one line, without hidden or disguised characters and without secrets."""
    return " ".join(redact(clean_characters(text)).split())


def clean_prompt(text: str) -> str:
    """Return the text of a task without hidden characters and secrets, as it is stored and searched."""
    return redact(clean_characters(text))


def uncovered(text: str) -> str:
    """Return a text without secrets. Hidden characters are removed only if they break up a secret."""
    plain = clean_characters(text)
    found = redact(plain)
    return redact(text) if found == plain else found


def clean_task(task: Task) -> Task:
    """Return the task without secrets in its id, kind and tools, which lessons and the ledger store."""
    kind = None if task.kind is None else redact(task.kind)
    names = (redact_id(task.id), kind, tuple(map(redact, task.tools)))
    if names == (task.id, task.kind, task.tools):
        return task
    return replace(task, id=names[0], kind=names[1], tools=names[2])


async def lesson_from(
    reflector: Reflector,
    task: Task,
    trials: Sequence[Trial],
    session: Session,
    *,
    max_characters: int,
    one_sentence: bool = True,
    check: Check | None = None,
) -> Reflection:
    """Ask for a reflection on the last of ``trials``; if its lesson is refused, ask once more and show the problem.

    The reflector does not see the task's gold, nor any text that quotes it. The lesson that is returned, and that a
    ``check`` sees, holds no secrets and no hidden characters. Raises :class:`UnreadableReplyError` if the second lesson
    is refused too, :class:`BudgetExceededError` before a call if the budget is used up, and any error of the reflector.
    """
    # Its problems go too: an evaluator's error may quote gold.
    public = [
        replace(trial, evaluation=trial.evaluation.public(task.reference), problems=()) for trial in trials
    ]
    said = {"the task": task.prompt, "the agent's output": trials[-1].attempt.output} if trials else {}
    problem: str | None = None
    for _ in range(2):
        session.spend.check()
        ask = partial(reflector, task.public(), public, problem=problem)
        reflection = await session.spending("reflector", ask)
        lesson = read_lesson(reflection.lesson, one_sentence=one_sentence)
        # This reads the lesson again: what a label or a number hid from the first reading may be no advice.
        problem = shape_problem(lesson, max_characters=max_characters, one_sentence=one_sentence, said=said)
        if problem is None:
            reflection = redact_record(replace(reflection, lesson=inert(clean_characters(lesson))))
            problem = None if check is None else await _objection(check, task, reflection.lesson, session)
        if problem is None:
            return reflection
    raise UnreadableReplyError(f"its answer was refused twice: {problem}")


async def _objection(check: Check, task: Task, lesson: str, session: Session) -> str | None:
    """Return why a check refuses a lesson, in words for the reflector; a lesson that it can't decide on passes."""
    public = replace(task.public(), prompt=clean_prompt(task.prompt))
    opinion = await session.spending("reflector", lambda: opinion_of(check, public, lesson))
    await session.tell(LessonChecked, lesson=lesson, changes=opinion.changes, reason=opinion.why)
    if opinion.changes is None:
        where = (session.id, session.attempt)
        logger.warning("run %s, attempt %d: the lesson is kept unchecked: %s", *where, opinion.why)
    if opinion.changes is not False:
        return None
    why = f" ({opinion.why})" if opinion.why else ""
    wanted = "name an action, when to take it, and the thing that it is about"
    return f'"{abridge(lesson, EXCERPT_CHARACTERS)}" would not change an attempt{why}: {wanted}'
