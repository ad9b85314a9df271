"""What may become a lesson: its shape, without secrets, and from what a reflector may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jeeves_reflexion.errors import UnreadableReplyError
from jeeves_reflexion.protocols import Reflector
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import Session
from jeeves_reflexion.types import Reflection, Task, Trial

MAX_CHARACTERS = 500


def shape_problem(text: str, *, max_characters: int = MAX_CHARACTERS) -> str | None:
    """Say why a text is no lesson, in words for the reflector that wrote it; ``None`` if it is one.

    A lesson is one line, says something, and is at most ``max_characters`` long.
    """
    stripped = text.strip()
    if not any(character.isalpha() for character in stripped):
        return "it is empty"
    if "\n" in stripped:
        return f"it has {len(stripped.splitlines())} lines instead of one sentence"
    if len(stripped) > max_characters:
        return f"it has {len(stripped)} characters; one sentence of at most {max_characters} is wanted"
    return None


async def lesson_from(
    reflector: Reflector, task: Task, trials: Sequence[Trial], session: Session, *, max_characters: int
) -> Reflection:
    """Ask for a reflection on the last of ``trials``, once more with the problem shown if its lesson is refused.

    The reflector sees neither the task's gold nor anything that quotes it; the lesson has no secrets in it. Raises
    :class:`UnreadableReplyError` if the second is refused too, :class:`BudgetExceededError` before a call where the
    budget is used up, and whatever the reflector raises.
    """
    public = [_without_gold(trial, task) for trial in trials]
    problem: str | None = None
    for _ in range(2):
        session.spend.check()
        reflection = await _ask(reflector, task.public(), public, session, problem)
        problem = shape_problem(reflection.lesson, max_characters=max_characters)
        if problem is None:
            return replace(reflection, lesson=redact(reflection.lesson))
    raise UnreadableReplyError(f"its answer was refused twice: {problem}")


async def _ask(
    reflector: Reflector, task: Task, trials: Sequence[Trial], session: Session, problem: str | None
) -> Reflection:
    return await session.spending("reflector", lambda: reflector(task, trials, problem=problem))


def _without_gold(trial: Trial, task: Task) -> Trial:
    """The trial as a reflector may see it: an evaluator's failure, noted as a problem, may quote gold as well."""
    public = trial.evaluation.public(task.reference)
    return (
        replace(trial, evaluation=public, problems=())
        if trial.problems or public is not trial.evaluation
        else trial
    )
