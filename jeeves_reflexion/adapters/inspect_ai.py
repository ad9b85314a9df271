"""Our loop as the solver of an Inspect AI task, and our evaluators as its scorers.

::

    loop = Reflexion(SampleAgent(react(tools=[...])), evaluator=task_scorers, model=InspectModel(),
                     lesson_store="./lessons")
    eval(task, solver=reflexive(loop))
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from inspect_ai.agent import Agent, as_solver, is_agent
from inspect_ai.event import ModelEvent, ToolEvent
from inspect_ai.log import transcript
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import (
    CORRECT,
    INCORRECT,
    NOANSWER,
    PARTIAL,
    Score,
    Scorer,
    Target,
    mean,
    scorer,
    stderr,
)
from inspect_ai.scorer import score as score_with_task
from inspect_ai.solver import Generate, Solver, TaskState, fork, solver
from inspect_ai.util import LimitExceededError

from jeeves_reflexion.adapters.base import Adapter, Trace
from jeeves_reflexion.errors import (
    BudgetExceededError,
    ConfigurationError,
    ModelError,
    ModelResponseError,
    described,
)
from jeeves_reflexion.evaluators import as_evaluator
from jeeves_reflexion.protocols import Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.types import JSON, UNKNOWN_USAGE, Attempt, Evaluation, RunResult, Task, Usage

_GRADES = {CORRECT: 1.0, PARTIAL: 0.5, INCORRECT: 0.0, NOANSWER: 0.0}


@dataclass
class _Sample:
    """The sample that a loop works on: its state, and the state of each attempt."""

    state: TaskState
    generate: Generate
    tried: list[TaskState] = field(default_factory=list)
    limit: LimitExceededError | None = None


_current: ContextVar[_Sample] = ContextVar("jeeves_reflexion_inspect")


def _sample() -> _Sample:
    try:
        return _current.get()
    except LookupError:
        raise ConfigurationError(
            "inspect-ai: no sample is running here: run the loop as a solver, eval(task, solver=reflexive(loop))"
        ) from None


@solver
def reflexive(loop: Any) -> Solver:  # noqa: ANN401 - a Reflexion, which is above this room
    """Return a solver in which a :class:`~jeeves_reflexion.Reflexion` tries each sample until an attempt passes.

    The sample's state becomes that of the best attempt, and its store gets ``reflexion:attempts`` and
    ``reflexion:stop_reason``. All attempts share the sample's sandbox. A limit of Inspect that ends an attempt ends the
    sample too, as it would without the loop. Raises ``RuntimeError`` if every attempt failed with an error.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        sample = _Sample(state, generate)
        token = _current.set(sample)
        try:
            result: RunResult[Any] = await loop.run(_task(state))
        finally:
            _current.reset(token)
        best = result.best
        if best is not None:
            solved = _state_of(sample, best.number, best.attempt)
            state.messages, state.output, state.metadata = solved.messages, solved.output, solved.metadata
            for name, value in solved.store.items():
                state.store.set(name, value)
        state.store.set("reflexion:attempts", len(result.trials))
        state.store.set("reflexion:stop_reason", result.stop_reason)
        if sample.limit is not None:
            raise sample.limit
        errors = [trial.attempt.error for trial in result.trials]
        if all(errors):
            raise RuntimeError(f"every attempt failed, the last one with {errors[-1]}")
        return state

    return solve


class SampleAgent(Adapter):
    """An agent or a solver of Inspect as the base of a loop for :func:`reflexive`; by default the task's model.

    Each attempt works on a copy of the sample's state, with the lessons in a system message.
    """

    def __init__(self, agent: Agent | Solver | None = None) -> None:
        super().__init__(agent)
        self.name = "inspect" if agent is None else getattr(agent, "__name__", self.name)
        self._solver = as_solver(agent) if agent is not None and is_agent(agent) else agent

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Solve the sample once. Its state already holds the prompt."""
        sample, number = _sample(), len(_sample().tried)
        if sample.limit is not None:
            raise BudgetExceededError("inspect", str(sample.limit))
        seen = transcript().history.event_count
        try:
            solved = await fork(sample.state, _attempt(self._solver, lessons, sample))
            sample.tried[number] = solved
        except LimitExceededError as error:
            sample.limit = error
            trace.interrupted = f"{error.type}_limit"
        finally:
            for event in transcript().history.events_from(seen):
                if isinstance(event, ModelEvent):
                    trace.thought = event.output.message.text if event.output.choices else ""
                    if event.cache != "read":
                        usage = event.output.usage
                        trace.used(1, _given(usage), usage.output_tokens if usage else None)
                elif isinstance(event, ToolEvent):
                    result = event.result if event.error is None else event.error.message
                    failed = event.error is not None
                    await trace.tool(event.function, event.arguments, result, failed=failed)
        return sample.tried[number].output.completion if len(sample.tried) > number else ""


@solver
def _attempt(inner: Any, lessons: str, sample: Any) -> Solver:  # noqa: ANN401 - Inspect reads the annotations
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        sample.tried.append(state)
        if lessons:
            place = next((i for i, each in enumerate(state.messages) if each.role != "system"), 0)
            state.messages.insert(place, ChatMessageSystem(content=lessons))
        return await (generate(state) if inner is None else inner(state, generate))

    return solve


def _given(usage: ModelUsage | None) -> int | None:
    if usage is None:
        return None
    cached = (usage.input_tokens_cache_read, usage.input_tokens_cache_write)
    return int(usage.input_tokens) + sum(each or 0 for each in cached)


async def task_scorers(task: Task, attempt: Attempt[Any]) -> Evaluation:
    """Judge an attempt by the mean score, from 0 to 1, of the running Inspect task's scorers.

    They see the sample's target, so the loop tries again whenever the target shows that the answer is wrong.
    """
    sample = _sample()
    return verdict_of(await score_with_task(_state_of(sample, len(sample.tried), attempt)))


def verdict_of(scores: Sequence[Score]) -> Evaluation:
    """Return the mean of Inspect's scores, from 0 to 1; unscored if one of them has no value.

    Raises :class:`ConfigurationError` for a mean outside of 0 to 1.
    """
    values = [_number(each.value) for each in scores]
    rationale = "\n".join(each.explanation for each in scores if each.explanation)
    numbers = [value for value in values if value is not None]
    if not numbers or len(numbers) < len(values):
        return Evaluation(None, rationale=rationale or "a scorer of the task gave no score")
    found = sum(numbers) / len(numbers)
    if not 0.0 <= found <= 1.0:
        raise ConfigurationError(
            f"inspect-ai: the task's scorers give {found:g}, outside of 0 to 1: pass an evaluator that converts it"
        )
    # A grader's explanation may quote the target.
    return Evaluation(found, rationale=rationale, quotes_gold=frozenset({"rationale"}))


def _number(value: object) -> float | None:
    """Return a score's value as a number; None if it has none."""
    if isinstance(value, str):
        if value in _GRADES:
            return _GRADES[value]
        word = value.strip().lower()
        if word in {"yes", "true", "no", "false"}:
            return float(word in {"yes", "true"})
        try:
            value = float(word)
        except ValueError:
            return None
    if isinstance(value, Mapping | list | tuple):
        each = [_number(part) for part in (value.values() if isinstance(value, Mapping) else value)]
        numbers = [number for number in each if number is not None]
        return sum(numbers) / len(numbers) if numbers and len(numbers) == len(each) else None
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    return None


@scorer(metrics=[mean(), stderr()])
def evaluated(evaluator: Any) -> Scorer:  # noqa: ANN401 - an evaluator, or what as_evaluator takes
    """Return a scorer that judges by one of our evaluators, or by a function that a loop takes as one."""
    judge = as_evaluator(evaluator)

    async def score(state: TaskState, target: Target) -> Score:
        verdict = await judge(_task(state, target), Attempt(state.output.completion))
        value = verdict.score
        if value is None and verdict.passed is not None:
            value = float(verdict.passed)
        explanation = "\n".join(filter(None, (verdict.rationale, *verdict.issues)))
        if value is None:
            return Score.unscored(explanation=explanation)
        return Score(value=value, answer=state.output.completion, explanation=explanation)

    return score


class InspectModel:
    """The model of the running Inspect task, or another model of Inspect, as a judge and reflector."""

    supports_tools = False

    def __init__(self, model: str | Model | None = None) -> None:
        self._model = model
        self.name = "inspect" if model is None else str(model)

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, JSON] | None = None,
        sampling: Sampling | None = None,
    ) -> Completion:
        """Answer a conversation. A ``schema`` is not enforced. Raises :class:`ModelError`."""
        wanted = sampling or Sampling()
        config = GenerateConfig(
            temperature=wanted.temperature,
            max_tokens=wanted.max_tokens,
            stop_seqs=list(wanted.stop) or None,
            seed=wanted.seed,
        )
        kinds = {"system": ChatMessageSystem, "assistant": ChatMessageAssistant}
        asked = [kinds.get(each.role, ChatMessageUser)(content=each.content) for each in messages]
        try:
            output = await get_model(self._model).generate(asked, config=config)
        except LimitExceededError:
            raise
        except Exception as error:
            raise ModelError(described(error)) from error
        if output.error:
            raise ModelResponseError(output.error)
        usage = output.usage
        used = UNKNOWN_USAGE
        if usage is not None:
            used = Usage(1, _given(usage) or 0, usage.output_tokens, cost_usd=None)
        return Completion(output.completion, usage=used, model=output.model, finish_reason=output.stop_reason)


def _task(state: TaskState, target: Target | None = None) -> Task:
    target = state.target if target is None else target
    return Task(state.input_text, id=f"inspect:{state.sample_id}", reference=target.text or None)


def _state_of(sample: _Sample, number: int, attempt: Attempt[Any]) -> TaskState:
    """Return the state of an attempt; if the base is not Inspect's, a copy of the sample's state with the answer."""
    state = sample.tried[number - 1] if 0 < number <= len(sample.tried) else copy.deepcopy(sample.state)
    if state.output.completion != attempt.output:
        state.output = ModelOutput.from_content(str(state.model), attempt.output)
        state.messages.append(state.output.message)
    return state
