"""What goes wrong in a turn of the loop: what ends the run, and what log, event and trial say of the rest."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from jeeves_reflexion.errors import described, programming_error
from jeeves_reflexion.events import LessonDropped, Warned
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import Session, logger
from jeeves_reflexion.types import Trial


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


async def drop(session: Session, trial: Trial, reason: str) -> Trial:
    """Say why no lesson comes of a trial."""
    await session.emit(LessonDropped(run_id=session.id, attempt=trial.number, reason=reason))
    return trial
