"""What comes of a run: what goes wrong in its turns without ending it, how it ends, and what it returns."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from jeeves_reflexion import telemetry
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
from jeeves_reflexion.redaction import redact, redacting
from jeeves_reflexion.session import Session, logger
from jeeves_reflexion.types import Attempt, Evaluation, RunResult, T, Task, Trial


def failure(part: str, error: Exception, history: Sequence[Trial], *, raise_bugs: bool) -> str:
    """Say what a part of the loop raised; raise it where it is a programming error in the first attempt."""
    bug = programming_error(error)
    if bug is not None and not history and raise_bugs:
        if bug is error:
            raise bug
        raise bug from error
    return redact(f"the {part} failed: {described(error)}")


async def warn(session: Session, trial: Trial, message: str, history: Sequence[Trial] = ()) -> Trial:
    """Note a problem in the trial; the log shows it once, as a warning, whichever trials of ``history`` had it too."""
    known = any(message in earlier.problems for earlier in history)
    level = logging.DEBUG if known else logging.WARNING
    logger.log(level, "run %s, attempt %d: %s", session.id, trial.number, message)
    await session.emit(Warned(run_id=session.id, attempt=trial.number, message=message))
    return replace(trial, problems=(*trial.problems, message))


async def tell_verdict(session: Session, task: Task, evaluation: Evaluation, *, passed: bool) -> None:
    """Tell how the session's attempt was judged, without gold."""
    said = ""
    if session.listener is not None or telemetry.captured():
        said = await aside(redact, evaluation.public(task.reference).rationale)
    run_id, number, score = session.id, session.attempt, evaluation.score
    judged = Evaluated(run_id=run_id, attempt=number, score=score, passed=passed, rationale=said)
    await session.emit(judged)
    if passed:
        await session.emit(ThresholdMet(run_id=run_id, attempt=number, score=score))


async def drop(session: Session, trial: Trial, reason: str) -> Trial:
    """Say why no lesson comes of a trial."""
    await session.emit(LessonDropped(run_id=session.id, attempt=trial.number, reason=reason))
    return trial


async def finish(
    result: RunResult[T],
    session: Session,
    *,
    escalate: bool,
    note: Callable[[RunResult[T]], Awaitable[object]] | None = None,
) -> RunResult[T]:
    """Say how a run ended, and return its result with what is to be said of the end.

    ``escalate`` says that a run whose attempts all failed is handed to the orchestrator with all its reflections.
    ``note`` writes down what the run leaves owed; where it can't, the result stands and says so.
    """
    last, attempts = result.trials[-1], len(result.trials)
    used_up = result.stop_reason == "max_attempts"
    if used_up:
        score = last.evaluation.score
        await session.emit(
            MaxAttemptsReached(run_id=session.id, attempt=attempts, final_score=score, attempts=attempts)
        )
        if escalate:
            told = tuple(trial.reflection for trial in result.trials if trial.reflection is not None)
            await redacting(session).emit(
                Escalated(run_id=session.id, attempt=attempts, task_id=result.task.id, reflections=told)
            )
    detail = last.exhausted
    if result.stop_reason == "unscorable":
        detail = detail or last.evaluation.rationale
    elif result.stop_reason == "reflection_missing":
        detail = "; ".join(last.problems)
    if note is not None:
        try:
            await note(result)
        except LessonStoreError as error:
            message = f"what the run leaves owed was not written down: {error}"
            logger.warning("run %s: %s", session.id, message)
            await redacting(session).emit(Warned(run_id=session.id, attempt=attempts, message=message))
            detail = "; ".join(filter(None, (detail, message)))
    result = replace(result, detail=detail, escalated=used_up and escalate)
    await session.emit(
        RunFinished(
            run_id=session.id,
            stop_reason=result.stop_reason,
            passed=result.passed,
            score=result.score,
            attempts=attempts,
            seconds=result.seconds,
        )
    )
    return result


def attempt_of(result: RunResult[T]) -> Attempt[T]:
    """Return a run as one attempt of another loop: its best attempt, with the usage of all of them.

    What its evaluator and reflector used is charged to these roles already.
    """
    best = result.best
    attempt = best.attempt if best else Attempt[T](interrupted=result.stop_reason)
    return replace(attempt, usage=result.usage["agent"], seconds=result.seconds)
