"""How a run of the loop ends: what it tells the world, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jeeves_reflexion.events import Escalated, MaxAttemptsReached, RunFinished
from jeeves_reflexion.redaction import redacting
from jeeves_reflexion.session import Session
from jeeves_reflexion.types import Attempt, Role, RunResult, StopReason, Task, Trial, Usage


async def finish(
    task: Task,
    trials: Sequence[Trial],
    stop: StopReason,
    session: Session,
    *,
    usage: Mapping[Role, Usage],
    seconds: float,
    escalate: bool,
) -> RunResult:
    """Say how a run ended, and return its result.

    ``escalate`` says that a run whose attempts all failed is handed to the orchestrator with all its reflections.
    """
    last = trials[-1]
    if stop == "max_attempts":
        score = last.evaluation.score
        await session.emit(
            MaxAttemptsReached(
                run_id=session.id, attempt=len(trials), final_score=score, attempts=len(trials)
            )
        )
        if escalate:
            reflections = tuple(trial.reflection for trial in trials if trial.reflection is not None)
            await redacting(session).emit(
                Escalated(run_id=session.id, attempt=len(trials), task_id=task.id, reflections=reflections)
            )
    detail = last.exhausted or (last.evaluation.rationale if stop == "unscorable" else "")
    result = RunResult(session.id, task, tuple(trials), stop, usage, seconds, detail)
    await session.emit(
        RunFinished(
            run_id=session.id,
            stop_reason=stop,
            passed=result.passed,
            score=result.score,
            attempts=len(trials),
            seconds=seconds,
        )
    )
    return result


def attempt_of(result: RunResult) -> Attempt:
    """Return a run as one attempt of another loop: its best attempt, with the usage of all of them.

    What its evaluator and reflector used is charged to these roles already.
    """
    best = result.best
    attempt = best.attempt if best else Attempt(interrupted=result.stop_reason)
    return replace(attempt, usage=result.usage["agent"], seconds=result.seconds)
