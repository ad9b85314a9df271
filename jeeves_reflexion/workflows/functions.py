"""``reflection.loop``, ``reflection.evaluate`` and ``reflection.correct`` as functions, for who writes no YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import anyio.to_thread

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.session import logger
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows.judges import judge
from jeeves_reflexion.workflows.loop import Order, run_loop
from jeeves_reflexion.workflows.parts import (
    DEFAULT_ITERATIONS,
    CallStep,
    CodeEvaluation,
    CodeStep,
    Evaluation,
    ModelEvaluation,
    SchemaEvaluation,
    Step,
)
from jeeves_reflexion.workflows.plan import check_iterations, check_strategy
from jeeves_reflexion.workflows.reader import read_evaluation, read_step
from jeeves_reflexion.workflows.steps import output_of
from jeeves_reflexion.workflows.toolbox import FATAL, Toolbox, Tools, opened
from jeeves_reflexion.workflows.values import NoJSONError, State, plain
from jeeves_reflexion.workflows.verdicts import read_problems


class _FromState:
    """Stands for a value that is taken from the state."""

    def __repr__(self) -> str:
        return "FROM_STATE"


FROM_STATE: Final = _FromState()
"""What ``data`` and ``errors`` are unless given: the state's ``reflection_output`` and ``reflection_errors``."""


async def reflection_loop(
    state: State,
    *,
    generator: Step | Mapping[str, JSON],
    evaluator: Evaluation | Mapping[str, JSON],
    corrector: Step | Mapping[str, JSON] | None = None,
    max_iterations: int = DEFAULT_ITERATIONS,
    on_failure: str = "return_best",
    tools: Tools | Toolbox | None = None,
) -> dict[str, JSON]:
    """Generate, evaluate and correct until an output is valid, at most ``max_iterations`` outputs in all.

    ``generator`` and ``corrector`` are functions of the state (sync or async; a sync one runs in a worker thread),
    :class:`CodeStep`, :class:`CallStep`, or mappings as a file has them; ``evaluator`` is a function of
    ``(output, state)`` that returns what custom code may, one of the three evaluations, or a mapping. A corrected
    output is what is judged next. Without a corrector, or where it fails, the generator runs again; one that fails has
    used up an attempt, and is in the history with an output of None.

    Returns ``success``, ``valid``, on failure ``exhausted``, the six ``reflection_*`` variables, and the keys of the
    output if it is an object. Those never overwrite the others: a generated ``success`` is in
    ``result["reflection_output"]["success"]``. The state given is not changed.

    Raises :class:`ReflectionFailedError` where no output was valid and ``on_failure`` is ``raise``,
    :class:`ConfigurationError` for bad parameters, and what no further attempt would mend: a budget that is spent, a
    key or package that is missing, a machine that can't isolate code.
    """
    order = Order(
        await _step(generator, "generator"),
        await _evaluation(evaluator),
        None if corrector is None else await _step(corrector, "corrector"),
        check_iterations(max_iterations),
        check_strategy(on_failure),
    )
    given = checked_state(state)
    async with opened(tools) as toolbox:
        return await run_loop(order, given, toolbox)


async def reflection_evaluate(
    state: State,
    *,
    evaluator: Evaluation | Mapping[str, JSON],
    data: JSON | _FromState = FROM_STATE,
    tools: Tools | Toolbox | None = None,
) -> dict[str, JSON]:
    """Judge one output.

    Returns ``valid``, ``score`` from 0 to 1, ``errors`` (``path``, ``message``, ``suggestion``), ``suggestions``,
    ``success`` (whether there was a judgement at all), and as ``reflection_output`` and ``reflection_errors`` what
    ``reflection_correct`` takes: the data as it was judged, parsed and coerced, and the errors again.
    """
    chosen = await _evaluation(evaluator)
    given = checked_state(state)
    output = _given(data, given, "reflection_output", "data")
    async with opened(tools) as toolbox:
        verdict = await judge(chosen, output, {**given, "reflection_output": output}, toolbox)
    return {
        "valid": verdict.valid,
        "score": verdict.score,
        "errors": verdict.error_list(),
        "suggestions": list(verdict.suggestions),
        "success": verdict.made,
        "reflection_output": verdict.output,
        "reflection_errors": verdict.error_list(),
    }


async def reflection_correct(
    state: State,
    *,
    corrector: Step | Mapping[str, JSON] | None = None,
    data: JSON | _FromState = FROM_STATE,
    errors: JSON | _FromState = FROM_STATE,
    tools: Tools | Toolbox | None = None,
) -> dict[str, JSON]:
    """Correct one output; the corrector sees it as ``state.reflection_output`` beside ``state.reflection_errors``.

    Returns ``success`` and ``corrected_output``. Without a corrector, or where it fails, the first is false and the
    second the data as it was; ``error`` says why.
    """
    chosen = None if corrector is None else await _step(corrector, "corrector")
    given = checked_state(state)
    output = _given(data, given, "reflection_output", "data")
    problems = read_problems(
        given.get("reflection_errors") if isinstance(errors, _FromState) else plain(errors)
    )
    seen: dict[str, JSON] = {**given, "reflection_output": output, "reflection_errors": problems}
    if chosen is None:
        return {"success": False, "corrected_output": output, "error": "there is no corrector"}
    extra: dict[str, JSON] = {"output": output, "errors": problems}
    async with opened(tools) as toolbox:
        try:
            corrected = await toolbox.in_time(lambda: output_of(chosen, seen, toolbox, extra=extra))
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - it is told in the result
            logger.warning("a corrector failed in run %s: %s", toolbox.session.id, type(error).__name__)
            said = f"the corrector failed: {type(error).__name__}: {error}"
            return {"success": False, "corrected_output": output, "error": said}
    return {"success": True, "corrected_output": corrected}


def checked_state(state: State) -> dict[str, JSON]:
    """Return a copy of a state. Raises :class:`ConfigurationError` where it is no JSON object."""
    try:
        found = plain(state)
    except NoJSONError as error:
        raise ConfigurationError(f"the state must be plain JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigurationError("the state must be a mapping with text keys")
    return found


def _given(value: JSON | _FromState, state: State, key: str, name: str) -> JSON:
    if not isinstance(value, _FromState):
        try:
            return plain(value)
        except NoJSONError as error:
            raise ConfigurationError(f"{name} must be plain JSON: {error}") from error
    if key not in state:
        raise ConfigurationError(f"there is no {name}: give it, or run what sets state.{key} before")
    return state[key]


async def _step(value: Step | Mapping[str, JSON], name: str) -> Step:
    if isinstance(value, Mapping):
        return await anyio.to_thread.run_sync(read_step, value, name)
    if not isinstance(value, CodeStep | CallStep) and not callable(value):
        raise ConfigurationError(
            f"{name} must be a function, a CodeStep, a CallStep or a mapping, not {value!r}"
        )
    return value


async def _evaluation(value: Evaluation | Mapping[str, JSON]) -> Evaluation:
    if isinstance(value, Mapping):
        return await anyio.to_thread.run_sync(read_evaluation, value, "evaluator")
    if not isinstance(value, SchemaEvaluation | ModelEvaluation | CodeEvaluation) and not callable(value):
        raise ConfigurationError(f"evaluator must be a function, an evaluation or a mapping, not {value!r}")
    return value
