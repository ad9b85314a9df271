"""``reflection.loop``, ``reflection.evaluate`` and ``reflection.correct``: generate, judge and correct an output.

The loop is the inner loop (:class:`~jeeves_reflexion.refinement.loop.Refinement`) without its convergence checks: the
generator is its agent, the corrector its reviser, and a draft is an attempt. A corrected output is judged next. Drafts
hold text; this module keeps the outputs as values.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any, Final, TypeAlias

import anyio.to_thread

from jeeves_reflexion.drafts import Revision, RevisionRequest
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.events import Warned
from jeeves_reflexion.refinement.loop import Refinement
from jeeves_reflexion.refinement.options import RefinementOptions
from jeeves_reflexion.session import Session, logger
from jeeves_reflexion.summary import counted
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import JSON, Attempt, Task
from jeeves_reflexion.types import Evaluation as EngineVerdict
from jeeves_reflexion.values import check_whole
from jeeves_reflexion.workflows.documents import Document, Place
from jeeves_reflexion.workflows.errors import ReflectionFailedError, WorkflowFileError
from jeeves_reflexion.workflows.plan import (
    CONTROL_KEYS,
    Function,
    Judgement,
    Part,
    as_evaluator,
    as_step,
    check_shape,
)
from jeeves_reflexion.workflows.steps import FATAL, Toolbox, Tools, judge, output_of
from jeeves_reflexion.workflows.values import NoJSONError, State, plain, text_of
from jeeves_reflexion.workflows.verdicts import Verdict, read_problems, refusal

MOST_ITERATIONS: Final = 1000
ON_FAILURE: Final = ("return_best", "return_last", "raise")

Step: TypeAlias = "Part | Function | Mapping[str, Any]"
Evaluator: TypeAlias = "Part | Judgement | Mapping[str, Any]"


async def reflection_loop(
    state: State,
    *,
    generator: Step,
    evaluator: Evaluator,
    corrector: Step | None = None,
    max_iterations: int = 3,
    on_failure: str = "return_best",
    tools: Tools | Toolbox | None = None,
) -> dict[str, JSON]:
    """Generate, evaluate and correct until an output is valid, with at most ``max_iterations`` outputs in all.

    ``generator`` and ``corrector`` are functions of the state (sync or async; a sync one runs in a worker thread), or
    mappings as in a file. ``evaluator`` is a function of ``(output, state)`` that returns what custom code may return,
    or a mapping. A corrected output is judged next. Without a corrector, or if it fails, the generator runs again. A
    generator that fails uses up an attempt, which is in the history with the output None.

    Returns ``success``, ``valid``, on failure ``exhausted``, the six ``reflection_*`` variables, and the keys of the
    output if it is an object. The keys of the output never overwrite the others: a generated ``success`` is in
    ``result["reflection_output"]["success"]``. The given state is not changed.

    Raises :class:`ReflectionFailedError` if no output was valid and ``on_failure`` is ``raise``,
    :class:`ConfigurationError` for bad parameters, and errors that another attempt would not help: a spent budget, a
    missing key or package, a machine that can't isolate code.
    """
    max_iterations = check_whole("max_iterations", max_iterations)
    if max_iterations > MOST_ITERATIONS:  # a template may yield any number
        raise ConfigurationError(f"max_iterations must be at most {MOST_ITERATIONS}, not {max_iterations}")
    if on_failure not in ON_FAILURE:
        raise ConfigurationError(f"on_failure: must be one of {', '.join(ON_FAILURE)}, not {on_failure!r}")
    given = checked_state(state)
    async with _opened(tools) as toolbox:
        parts = {"generator": generator, "evaluator": evaluator, "corrector": corrector}
        run = _Run(
            **{name: await _part(part, name, toolbox) for name, part in parts.items()},
            given=given,
            toolbox=toolbox,
        )
        # Each part has its own time limit; the engine's is a safety net. A corrector gets the latest output.
        longest = 3 * toolbox.tools.step_seconds + 60
        options = RefinementOptions(convergence=None, base="latest", timeout=longest)
        engine = Refinement(
            run.generate,
            evaluator=run.evaluate,
            reviser=run.correct,
            max_drafts=max_iterations,
            options=options,
        )
        refined = await engine.refine(Task("reflection.loop"), toolbox.session)
    if refined.error is not None:
        raise refined.error
    return run.result(on_failure)


async def reflection_evaluate(
    state: State,
    *,
    evaluator: Evaluator,
    data: JSON | EllipsisType = ...,
    tools: Tools | Toolbox | None = None,
) -> dict[str, JSON]:
    """Judge one output: ``data``, or the state's ``reflection_output``.

    Returns ``valid``, ``score`` from 0 to 1, ``errors`` (``path``, ``message``, ``suggestion``), ``suggestions``,
    ``success`` (whether the output could be judged), and the input of ``reflection_correct``: ``reflection_output``
    (the data as it was judged, parsed and coerced) and ``reflection_errors`` (the errors again). An evaluator that
    can't work, such as one without a schema, approves nothing: the errors say why.
    """
    given = checked_state(state)
    output = _data(data, given)
    async with _opened(tools) as toolbox:
        try:
            chosen = await _part(evaluator, "evaluator", toolbox)
        except WorkflowFileError as error:
            verdict = refusal(str(error), output)
        else:
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
    corrector: Step | None = None,
    data: JSON | EllipsisType = ...,
    errors: JSON | EllipsisType = ...,
    tools: Tools | Toolbox | None = None,
) -> dict[str, JSON]:
    """Correct one output. The corrector sees it as ``state.reflection_output``, with ``state.reflection_errors``.

    ``data`` and ``errors`` are those of the state unless given. Returns ``success`` and ``corrected_output``. Without a
    corrector, or if it fails, ``success`` is false, the data is returned unchanged, and ``error`` says why.
    """
    given = checked_state(state)
    output = _data(data, given)
    problems = read_problems(given.get("reflection_errors") if errors is ... else _json(errors, "errors"))
    seen: dict[str, JSON] = {**given, "reflection_output": output, "reflection_errors": problems}
    if corrector is None:
        return {"success": False, "corrected_output": output, "error": "there is no corrector"}
    extra: dict[str, JSON] = {"output": output, "errors": problems}
    async with _opened(tools) as toolbox:
        chosen = await _part(corrector, "corrector", toolbox)
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
    """Return a copy of a state. Raises :class:`ConfigurationError` if it is not a JSON object."""
    copied = _json(state, "the state")
    if not isinstance(copied, dict):
        raise ConfigurationError("the state must be a mapping with text keys")
    return copied


def _json(value: object, name: str) -> JSON:
    try:
        return plain(value)
    except NoJSONError as error:
        raise ConfigurationError(f"{name} must be plain JSON: {error}") from error


def _opened(tools: Tools | Toolbox | None) -> Toolbox | nullcontext[Toolbox]:
    """Return a new toolbox to open, or the given one, which its owner closes."""
    return nullcontext(tools) if isinstance(tools, Toolbox) else Toolbox(tools)


def _data(value: JSON | EllipsisType, state: State) -> JSON:
    if value is not ...:
        return _json(value, "data")
    if "reflection_output" not in state:
        raise ConfigurationError(
            "there is no data: pass data, or run a node that sets state.reflection_output first"
        )
    return state["reflection_output"]


async def _part(value: Any, name: str, toolbox: Toolbox) -> Any:  # noqa: ANN401 - a step, or an evaluator
    """Return a part of an action, which is read first if it is a mapping as in a file."""
    if isinstance(value, Mapping):
        shape, read = ("evaluator", as_evaluator) if name == "evaluator" else ("step", as_step)
        place = Place(Document(None, name, folder=toolbox.tools.base_folder))
        return await anyio.to_thread.run_sync(lambda: read(check_shape(value, shape, place), place))
    if not isinstance(value, Part) and not callable(value):
        if value is None and name == "corrector":
            return None
        raise ConfigurationError(f"{name} must be a function or a mapping, not {value!r}")
    return value


@dataclass(slots=True)
class _Run:
    """One run of a loop."""

    generator: Part | Function
    evaluator: Part | Judgement
    corrector: Part | Function | None
    given: State
    toolbox: Toolbox
    verdicts: list[Verdict] = field(default_factory=list)
    produced: list[Verdict] = field(default_factory=list)
    """The verdicts on attempts that had an output."""
    output: JSON = None
    problem: str = ""

    async def generate(self, task: Task, session: Session) -> Attempt:
        """Generate an output. A generator that crashes uses up the attempt."""
        await self._attempt("generator", self.generator, self.state())
        return Attempt(text_of(self.output), error=self.problem or None)

    async def evaluate(self, task: Task, attempt: Attempt) -> EngineVerdict:
        """Judge the current output, which the verdict may hold coerced."""
        if self.problem:
            verdict = refusal(self.problem)
        else:
            state = {**self.state(), "reflection_output": self.output}
            verdict = await judge(self.evaluator, self.output, state, self.toolbox)
            self.produced.append(verdict)
        self.verdicts.append(verdict)
        return verdict.as_evaluation()

    async def correct(self, task: Task, request: RevisionRequest) -> Revision:
        """Correct the latest output; without a corrector, or if it fails, generate again."""
        why, last, corrector = "the generator was asked again", self.verdicts[-1], self.corrector
        if corrector is not None and not self.problem:
            state = {**self.given, **self.tracking(last)}
            extra: dict[str, JSON] = {"output": last.output, "errors": last.error_list()}
            if await self._attempt("corrector", corrector, state, extra):
                return Revision(text_of(self.output), "full_rewrite", "corrected")
            session = self.toolbox.session
            logger.warning("run %s: a corrector failed, the generator is asked again", session.id)
            await session.emit(Warned(run_id=session.id, attempt=session.attempt, message=self.problem))
            why = f"{why}: {self.problem}"
        await self.generate(task, self.toolbox.session)
        return Revision(text_of(self.output), "full_rewrite", why)

    async def _attempt(
        self, who: str, step: Part | Function, state: State, extra: Mapping[str, JSON] | None = None
    ) -> bool:
        """Set the output by a step, or the problem if it fails; return whether there is an output."""
        self.output, self.problem = None, ""
        try:
            self.output = await self.toolbox.in_time(
                lambda: output_of(step, state, self.toolbox, extra=extra)
            )
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - it is recorded as an attempt
            self.problem = f"the {who} failed: {type(error).__name__}: {error}"
        return not self.problem

    def best(self) -> Verdict | None:
        """Return the verdict on the best output so far, None if there is no output.

        Valid outputs come first, then judged ones, those with a higher score, those with fewer errors (a schema scores
        every failure 0), and later ones.
        """
        return max(
            reversed(self.produced),
            key=lambda each: (each.valid, each.made, each.score, -len(each.errors)),
            default=None,
        )

    def tracking(self, shown: Verdict | None) -> dict[str, JSON]:
        """Return the loop's state variables, with the output and errors of the verdict ``shown``."""
        best = self.best()
        return {
            "reflection_iteration": len(self.verdicts),
            "reflection_output": None if shown is None else shown.output,
            "reflection_errors": [] if shown is None else shown.error_list(),
            "reflection_history": self.history(),
            "reflection_best": None if best is None else best.output,
            "reflection_best_score": 0.0 if best is None else best.score,
        }

    def state(self) -> dict[str, JSON]:
        """Return the state for the next part: the number of this iteration, and the errors of the last one."""
        tracked = self.tracking(self.verdicts[-1] if self.verdicts else None)
        return {**self.given, **tracked, "reflection_iteration": len(self.verdicts) + 1}

    def history(self) -> list[dict[str, JSON]]:
        """Return all attempts so far, oldest first."""
        return [
            {
                "iteration": number,
                "output": verdict.output,
                "score": verdict.score,
                "valid": verdict.valid,
                "errors": verdict.error_list(),
            }
            for number, verdict in enumerate(self.verdicts, 1)
        ]

    def result(self, on_failure: str) -> dict[str, JSON]:
        """Return the result of the loop. Raises if no output was valid and ``on_failure`` is ``raise``."""
        shown = last = self.verdicts[-1]
        result: dict[str, JSON] = {"success": True, "valid": True}
        if not last.valid:
            if on_failure == "raise":
                count = counted(len(self.verdicts), "attempt")
                errors = abridge("; ".join(error.message for error in last.errors[:3]), 300)
                raise ReflectionFailedError(
                    f"no output was valid after {count}; the last one: {errors}", self.history()
                )
            shown = last if on_failure == "return_last" else self.best() or last
            result = {"success": False, "valid": False, "exhausted": True}
        result.update(self.tracking(shown))
        if isinstance(shown.output, Mapping):
            result.update({key: item for key, item in shown.output.items() if key not in CONTROL_KEYS})
        return result
