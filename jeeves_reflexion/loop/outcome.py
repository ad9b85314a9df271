"""The outcome of a run: problems that do not end it, and how it ends."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from jeeves_reflexion.errors import LessonStoreError, described, programming_error
from jeeves_reflexion.events import Escalated, MaxAttemptsReached, RunFinished, Warned
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import Session, logger
from jeeves_reflexion.types import RunResult, T, Trial


def failure(part: str, error: Exception, history: Sequence[Trial]) -> str:
    """Return a message on what a part of the loop raised; raises it if it is a programming error at first attempt."""
    bug = programming_error(error)
    if bug is not None and not history:
        if bug is error:
            raise bug
        raise bug from error
    return redact(f"the {part} failed: {described(error)}")


async def warn(session: Session, trial: Trial, message: str, history: Sequence[Trial] = ()) -> Trial:
    """Note a problem in the trial. It is logged as a warning unless a trial of ``history`` had the same problem."""
    known = any(message in earlier.problems for earlier in history)
    level = logging.DEBUG if known else logging.WARNING
    logger.log(level, "run %s, attempt %d: %s", session.id, trial.number, message)
    await session.tell(Warned, attempt=trial.number, message=message)
    return replace(trial, problems=(*trial.problems, message))


async def finish(
    result: RunResult[T],
    session: Session,
    note: Callable[[RunResult[T]], Awaitable[object]] | None,
) -> RunResult[T]:
    """Emit how a run ended, and return its result with details on why.

    ``note`` stores the reflections that the run still owes; if it fails, the result's ``detail`` says so.
    """
    attempts, last = len(result.trials), result.trials[-1]
    detail = "; ".join(last.problems) if result.stop_reason == "reflection_missing" else last.exhausted
    if result.stop_reason == "unscorable":
        detail = last.exhausted or last.evaluation.rationale
    result = replace(result, detail=detail)
    if result.stop_reason == "max_attempts":
        score = last.evaluation.score
        await session.tell(MaxAttemptsReached, attempt=attempts, final_score=score, attempts=attempts)
    if result.escalated:
        written = tuple(trial.reflection for trial in result.trials if trial.reflection is not None)
        await session.tell(Escalated, attempt=attempts, task_id=result.task.id, reflections=written)
    if note is not None:
        try:
            await note(result)
        except LessonStoreError as error:
            message = f"what the run leaves owed was not written down: {error}"
            logger.warning("run %s: %s", session.id, message)
            await session.tell(Warned, attempt=attempts, message=message)
            result = replace(result, detail="; ".join(filter(None, (result.detail, message))))
    if session.heard:  # else the best attempt would be looked for in vain
        await session.tell(
            RunFinished,
            stop_reason=result.stop_reason,
            passed=result.passed,
            score=result.score,
            attempts=attempts,
            seconds=result.seconds,
        )
    return result
