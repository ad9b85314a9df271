"""The thin factory beside the loop: checks what a user passes and turns it into the parts that the loop needs."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from jeeves_reflexion.adapters import adapter_of
from jeeves_reflexion.agents.function import as_agent
from jeeves_reflexion.agents.react import ReAct
from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.evaluators import Judge, RewardEvaluator, as_evaluator
from jeeves_reflexion.lessons import TransientMemory, VectorLessonStore
from jeeves_reflexion.loop.lesson_address import open_lessons
from jeeves_reflexion.models.names import open_model
from jeeves_reflexion.protocols import Agent, ChatModel, Evaluator, LessonStore, Memory, Reflector
from jeeves_reflexion.reflections.library import ReflectionLibrary
from jeeves_reflexion.reflections.reflector import StructuredReflector
from jeeves_reflexion.reflectors import LessonReflector, as_reflector
from jeeves_reflexion.session import Budget
from jeeves_reflexion.text import read_prompt
from jeeves_reflexion.types import Task
from jeeves_reflexion.values import check_share, check_whole
from vectorstores.base import VectorStore

DEFAULT_EVALUATOR_PROMPT: Final = read_prompt(None, "jeeves_reflexion.evaluators", "judge.md")
DEFAULT_REFLECTOR_PROMPT: Final = read_prompt(None, "jeeves_reflexion.reflectors", "lesson.md")

AnyCallable: TypeAlias = Callable[..., Any] | Callable[..., Awaitable[Any]]

M = TypeVar("M")

ModelLike: TypeAlias = ChatModel | str
"""A model, or the name of one as for ``open_model``: ``"openai:gpt-4o-mini"``."""

AgentLike: TypeAlias = Agent | AnyCallable
"""An agent, or a callable of a prompt or a task, as for ``as_agent``."""

EvaluatorLike: TypeAlias = Evaluator | AnyCallable
"""An evaluator, or a callable of an output, or of task and attempt, as for ``as_evaluator``."""

ReflectorLike: TypeAlias = Reflector | AnyCallable
"""A reflector, or a callable of task and trials, as for ``as_reflector``."""

LessonsLike: TypeAlias = LessonStore | VectorStore | str | os.PathLike[str]
"""A store of lessons, a store of vectors to keep them in, or the address of one, as for ``open_lessons``."""


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """What is rarely changed about the loop.

    Args:
        budget: Holds for each run.
        learn: False retries without reflecting (a control arm).
        learn_from_success: Whether attempts that passed leave a lesson as well.
        unscorable_limit: Attempts in a row without a verdict that stop the run.
        lesson_characters: The longest lesson.
        one_sentence: False lets in reflections of several sentences, as the paper's are.
        raise_programming_errors: Whether a programming error (``TypeError``, ``AttributeError``, ``NameError``,
            ``ImportError``, ``NotImplementedError``) of agent, evaluator or reflector in the first attempt ends the
            run; else it is a failed attempt, as any other exception. A lesson is learned from it in no case.
    """

    budget: Budget | None = None
    learn: bool = True
    learn_from_success: bool = False
    unscorable_limit: int = 2
    lesson_characters: int = 500
    one_sentence: bool = True
    raise_programming_errors: bool = True

    def __post_init__(self) -> None:
        for name in ("unscorable_limit", "lesson_characters"):
            check_whole(name, getattr(self, name), least=1)


@dataclass(frozen=True, slots=True)
class Choices:
    """What a user of the loop chose; ``None`` asks for the default."""

    base: AgentLike | None
    model: ModelLike | None
    evaluator: ModelLike | EvaluatorLike | None
    reflector: ModelLike | ReflectorLike | None
    lesson_store: LessonsLike | None
    evaluator_prompt: str | Path | None
    reflector_prompt: str | Path | None
    memory: Memory | None


@dataclass(frozen=True, slots=True)
class Parts:
    """What the loop runs on."""

    agent: Agent
    evaluator: Evaluator
    reflector: Reflector
    lessons: LessonStore | None
    memory: Memory
    model_name: str | None
    agent_name: str


def resolve(choices: Choices, *, structured: bool = False) -> Parts:
    """Return the loop's parts; raises :class:`ConfigurationError` naming what is missing or doesn't fit.

    ``structured`` makes the default reflector one that fills in the forms that a library of reflections needs.
    """
    choices = replace(
        choices,
        model=_opened(choices.model),
        evaluator=_opened(choices.evaluator),
        reflector=_opened(choices.reflector),
    )
    if choices.lesson_store is not None and choices.memory is not None:
        raise ConfigurationError("pass lesson_store (selective recall) or memory (the whole block), not both")
    if choices.model is not None:
        _model(choices, "model")
    if choices.memory is not None and not isinstance(choices.memory, Memory):
        raise ConfigurationError(
            f"memory must be a Memory, such as FileMemory(folder), not {type(choices.memory).__name__}"
        )
    for name in ("evaluator_prompt", "reflector_prompt"):
        prompt = getattr(choices, name)
        if isinstance(prompt, str) and not prompt.strip():
            raise ConfigurationError(f"{name} is empty: pass a text, a Path, or nothing for the default")
    agent = _agent(choices)
    names = [getattr(part, "name", None) for part in (choices.model, getattr(agent, "model", None))]
    return Parts(
        agent=agent,
        evaluator=_evaluator(choices),
        reflector=_reflector(
            choices, structured=structured or isinstance(choices.lesson_store, ReflectionLibrary)
        ),
        lessons=_lessons(choices.lesson_store),
        memory=TransientMemory() if choices.memory is None else choices.memory,
        model_name=next((name for name in names if name), None),
        agent_name=str(getattr(agent, "name", None) or type(agent).__name__),
    )


def _agent(choices: Choices) -> Agent:
    if choices.base is not None:
        return adapter_of(choices.base) or as_agent(choices.base)
    return ReAct(_model(choices, "base"))


def _evaluator(choices: Choices) -> Evaluator:
    chosen, prompt = choices.evaluator, choices.evaluator_prompt
    if chosen is None or isinstance(chosen, ChatModel):
        return Judge(chosen or _model(choices, "evaluator"), prompt=prompt)
    if prompt is not None:
        raise ConfigurationError("evaluator_prompt goes with a model as evaluator, not with a callable")
    return (
        chosen
        if isinstance(chosen, Judge | RewardEvaluator)
        else as_evaluator(_callable(chosen, "evaluator"))
    )


def _reflector(choices: Choices, *, structured: bool) -> Reflector:
    chosen, prompt = choices.reflector, choices.reflector_prompt
    if structured and (chosen is None or isinstance(chosen, ChatModel)):
        if prompt is not None:
            raise ConfigurationError(
                "reflector_prompt is for one sentence; forms have a prompt each: leave it out, or pass a reflector of "
                "your own that returns make_reflection(...)"
            )
        return StructuredReflector(chosen or _model(choices, "reflector"))
    if chosen is None or isinstance(chosen, ChatModel):
        return LessonReflector(chosen or _model(choices, "reflector"), prompt=prompt)
    if prompt is not None:
        raise ConfigurationError("reflector_prompt goes with a model as reflector, not with a callable")
    if isinstance(chosen, LessonReflector | StructuredReflector):
        return chosen
    return as_reflector(_callable(chosen, "reflector"))


def _lessons(store: LessonsLike | None) -> LessonStore | None:
    if store is None or isinstance(store, LessonStore):
        return store
    if isinstance(store, VectorStore):
        return VectorLessonStore(store)
    if isinstance(store, str | os.PathLike):
        try:
            return open_lessons(store)
        except LessonStoreError as error:
            raise ConfigurationError(f"lesson_store can't be opened: {error}") from error
    raise ConfigurationError(
        "lesson_store must be a LessonStore, a VectorStore or the address of one (a folder, memory://, "
        f"postgresql://…), not {type(store).__name__}"
    )


def _opened(model: ModelLike | M) -> ChatModel | M:
    """Return the model that a name stands for, and anything else as it is."""
    return open_model(model) if isinstance(model, str) else model


def _model(choices: Choices, part: str) -> ChatModel:
    if choices.model is None:
        raise ConfigurationError(f"{part} is not given: pass {part}=, or model= to make one")
    if not isinstance(choices.model, ChatModel):
        raise ConfigurationError(
            f"model must be a ChatModel or the name of one, not {type(choices.model).__name__}"
        )
    return choices.model


def _callable(value: object, part: str) -> AnyCallable:
    if not callable(value):
        raise ConfigurationError(f"{part} must be a model or a callable, not {type(value).__name__}")
    return value


def check_numbers(max_attempts: int, threshold: float, top_k_lessons: int, lessons_block_name: str) -> None:
    """Raise :class:`ConfigurationError` naming the argument of the loop that is out of its range."""
    check_whole("max_attempts", max_attempts)
    check_whole("top_k_lessons", top_k_lessons)
    check_share("threshold", threshold)
    if not (isinstance(lessons_block_name, str) and lessons_block_name.strip()):
        raise ConfigurationError(f"lessons_block_name must be a text with words, not {lessons_block_name!r}")


def checked_task(task: Task | str) -> Task:
    """Return the task that a text stands for, and a task as it is."""
    if isinstance(task, str):
        return Task(task)
    if not isinstance(task, Task):
        raise ConfigurationError(f"a task must be a Task or a text, not {type(task).__name__}")
    return task
