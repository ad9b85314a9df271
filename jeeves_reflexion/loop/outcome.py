"""What comes of a run: what goes wrong in its turns without ending it, how it ends, and what it returns."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from jeeves_reflexion.callables import aside
from jeeves_reflexion.errors import LessonStoreError, described, programming_error
from jeeves_reflexion.events import (
    Escalated,
    Evaluated,
    LessonDropped,
    MaxAttemptsReached,
    RunFinished,
    ThresholdMet,
    Warned,
)
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import Session, logger
from jeeves_reflexion.types import Attempt, Evaluation, RunResult, StopReason, T, Task, Trial


def failure(part: str, error: Exception, history: Sequence[Trial]) -> str:
    """Say what a part of the loop raised; raise it where it is a programming error in the first attempt."""
    bug = programming_error(error)
    if bug is not None and not history:
        if bug is error:
            raise bug
        raise bug from error
    return redact(f"the {part} failed: {described(error)}")


async def warn(session: Session, trial: Trial, message: str, history: Sequence[Trial] = ()) -> Trial:
    """Note a problem in the trial; the log shows it once, as a warning, whichever trials of ``history`` had it too."""
    known = any(message in earlier.problems for earlier in history)
    level = logging.DEBUG if known else logging.WARNING
    logger.log(level, "run %s, attempt %d: %s", session.id, trial.number, message)
    await session.tell(Warned, attempt=trial.number, message=message)
    return replace(trial, problems=(*trial.problems, message))


async def tell_verdict(session: Session, task: Task, evaluation: Evaluation, *, passed: bool) -> None:
    """Tell how the session's attempt was judged, without gold."""
    if session.heard:
        said = await aside(redact, evaluation.public(task.reference).rationale)
        await session.tell(Evaluated, score=evaluation.score, passed=passed, rationale=said)
    if passed:
        await session.tell(ThresholdMet, score=evaluation.score)


async def drop(session: Session, trial: Trial, reason: str) -> Trial:
    """Say why no lesson comes of a trial."""
    await session.tell(LessonDropped, attempt=trial.number, reason=reason)
    return trial


def detail_of(stop: StopReason, last: Trial) -> str:
    """Say more of why a run stopped after its last trial."""
    if stop == "unscorable":
        return last.exhausted or last.evaluation.rationale
    return "; ".join(last.problems) if stop == "reflection_missing" else last.exhausted


async def finish(
    result: RunResult[T],
    session: Session,
    note: Callable[[RunResult[T]], Awaitable[object]] | None = None,
) -> RunResult[T]:
    """Tell how a run ended, and return its result with what is to be said of the end.

    ``note`` writes down what the run leaves owed; where it can't, the result stands and says so.
    """
    attempts = len(result.trials)
    if result.stop_reason == "max_attempts":
        score = result.trials[-1].evaluation.score
        await session.tell(MaxAttemptsReached, attempt=attempts, final_score=score, attempts=attempts)
    if result.escalated:
        told = tuple(trial.reflection for trial in result.trials if trial.reflection is not None)
        await session.tell(Escalated, attempt=attempts, task_id=result.task.id, reflections=told)
    if note is not None:
        try:
            await note(result)
        except LessonStoreError as error:
            message = f"what the run leaves owed was not written down: {error}"
            logger.warning("run %s: %s", session.id, message)
            await session.tell(Warned, attempt=attempts, message=message)
            result = replace(result, detail="; ".join(filter(None, (result.detail, message))))
    await session.tell(RunFinished.of, result=result)
    return result


def attempt_of(result: RunResult[T]) -> Attempt[T]:
    """Return a run as one attempt of another loop: its best attempt, with the usage of all of them.

    What its evaluator and reflector used is charged to these roles already.
    """
    best = result.best
    attempt = best.attempt if best else Attempt[T](interrupted=result.stop_reason)
    return replace(attempt, usage=result.usage["agent"], seconds=result.seconds)
