"""``jeeves-reflexion bench my_tasks.jsonl``: who tries, judges, scores and reflects, loaded by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jeeves_reflexion.agents import ReAct
from jeeves_reflexion.cli.user_code import load
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.evaluators import Judge
from jeeves_reflexion.experiments import ArmName, RunLog, arm_of
from jeeves_reflexion.models import RecordedModel
from jeeves_reflexion.protocols import ChatModel
from jeeves_reflexion.types import Attempt, Evaluation, Task


@dataclass(frozen=True, slots=True)
class Named:
    """Who tries, judges, scores and reflects, as the command line names them."""

    agent: str | None
    evaluator: str
    scorer: str | None
    reflector: str | None


@dataclass(frozen=True, slots=True)
class Parts:
    """The same, loaded; ``model`` is None without one."""

    agent: Any
    evaluator: Any
    scorer: Any
    reflector: Any
    model: ChatModel | None


def no_reflector(task: Task, trials: object) -> str:
    """Stand for a reflector in arms that learn nothing."""
    raise ConfigurationError(
        "nobody writes lessons: name --reflector or --model, or only arms without lessons"
    )


def load_parts(
    named: Named, arms: Sequence[ArmName], tasks: Sequence[Task], model: ChatModel | None, *, has_model: bool
) -> Parts:
    """Load what is named, and refuse what can't work before anything is tried; ``model`` may come later."""
    if named.agent is None and not has_model:
        raise ConfigurationError("nobody tries the tasks: name --agent MODULE:NAME or --model")
    if named.evaluator == "judge" and not has_model:
        raise ConfigurationError("--evaluator judge needs --model")
    if named.reflector is None and not has_model and any(arm_of(arm).learns for arm in arms):
        raise ConfigurationError(
            "nobody writes lessons: name --reflector or --model, or only arms without lessons"
        )
    evaluator = None if named.evaluator == "judge" else _verdict("--evaluator", named.evaluator, tasks)
    if named.evaluator == "judge" and model is not None:
        evaluator = _BlindJudge(model)
    agent = None if named.agent is None else _agent(named.agent)
    if agent is None and model is not None:
        agent = ReAct(model)
    return Parts(
        agent,
        evaluator,
        None if named.scorer is None else _verdict("--scorer", named.scorer, tasks),
        None if named.reflector is None else load("--reflector", named.reflector),
        model,
    )


class Made:
    """An agent that is made for each seed by a function ``(seed) -> agent``."""

    def __init__(self, name: str, make: Callable[..., object]) -> None:
        self._name = name
        self._make = make

    def made(self, seed: int) -> Any:  # noqa: ANN401 - whatever a user wrote
        """Return the agent of a seed."""
        agent = self._make(seed=seed)
        if not callable(agent):
            raise ConfigurationError(
                f"{self._name}(seed={seed}) returned a {type(agent).__name__}, which is no agent"
            )
        return agent


def _agent(name: str) -> Any:  # noqa: ANN401 - whatever a user wrote
    """An agent, or what makes one: a function whose one parameter is called ``seed``."""
    found = load("--agent", name)
    try:
        parameters = list(inspect.signature(found).parameters)
    except (TypeError, ValueError):
        return found  # the loop says what is wrong with it
    return Made(name, found) if parameters == ["seed"] else found


def _verdict(option: str, name: str, tasks: Sequence[Task]) -> Any:  # noqa: ANN401 - an evaluator of whatever form
    if name != "exact":
        return load(option, name)
    lacking = [task.id for task in tasks if not isinstance(task.reference, str | int | float)]
    if lacking:
        raise ConfigurationError(
            f"exact needs a reference, a text or a number, for every task; {len(lacking)} have none, such as "
            f"{lacking[0]}"
        )
    return exact


async def exact(task: Task, attempt: Attempt) -> Evaluation:
    """Judge an output by the reference: equal but for case and white space. Says no more than yes or no."""
    same = _folded(attempt.output) == _folded(str(task.reference))
    return Evaluation(
        float(same), passed=same, rationale="the answer is right" if same else "the answer is wrong"
    )


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


class _BlindJudge:
    """A judge that has no gold answer to go by: it is to say what the agent's own side takes for right."""

    def __init__(self, model: ChatModel) -> None:
        self._judge = Judge(model)

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Judge the attempt at the task without its reference."""
        return await self._judge(task.public(), attempt)


async def with_recording(model: ChatModel, log: RunLog) -> ChatModel:
    """Return an agent's own model recorded, unless it records already."""
    return model if isinstance(model, RecordedModel) else await log.recorded(model)
