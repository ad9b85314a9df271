"""One correction on its own, ``reflection.correct``."""

from __future__ import annotations

from jeeves_reflexion.session import logger
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows.plan import Step
from jeeves_reflexion.workflows.steps import take
from jeeves_reflexion.workflows.toolbox import FATAL, Toolbox
from jeeves_reflexion.workflows.values import State


async def correct_one(corrector: Step | None, state: State, toolbox: Toolbox) -> dict[str, JSON]:
    """Correct the state's ``reflection_output``; see :func:`jeeves_reflexion.workflows.reflection_correct`."""
    output = state["reflection_output"]
    if corrector is None:
        return {"success": False, "corrected_output": output, "error": "there is no corrector"}
    extra: dict[str, JSON] = {"output": output, "errors": state["reflection_errors"]}
    try:
        corrected = await toolbox.in_time(lambda: take(corrector, state, toolbox, extra=extra))
    except FATAL:
        raise
    except Exception as error:  # noqa: BLE001 - it is told in the result
        logger.warning("a corrector failed in run %s: %s", toolbox.session.id, type(error).__name__)
        said = f"the corrector failed: {type(error).__name__}: {error}"
    else:
        return {"success": True, "corrected_output": corrected}
    return {"success": False, "corrected_output": output, "error": said}
