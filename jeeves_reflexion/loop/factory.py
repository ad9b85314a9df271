"""Checks the arguments of the loop and turns them into the parts that it needs."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from jeeves_reflexion.adapters import adapter_of
from jeeves_reflexion.agents.function import as_agent
from jeeves_reflexion.agents.react import ReAct
from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.evaluators import Judge, RewardEvaluator, as_evaluator
from jeeves_reflexion.lessons import TransientMemory, VectorLessonStore
from jeeves_reflexion.loop.lesson_address import open_lessons
from jeeves_reflexion.models.names import open_model
from jeeves_reflexion.protocols import Agent, ChatModel, Evaluator, LessonStore, Memory, Reflector
from jeeves_reflexion.reflections.reflector import StructuredReflector
from jeeves_reflexion.reflectors import LessonReflector, as_reflector
from jeeves_reflexion.session import Budget
from jeeves_reflexion.text import read_prompt
from jeeves_reflexion.types import Task
from jeeves_reflexion.values import check_whole
from vectorstores.base import VectorStore

DEFAULT_EVALUATOR_PROMPT: Final = read_prompt(None, "jeeves_reflexion.evaluators", "judge.md")
DEFAULT_REFLECTOR_PROMPT: Final = read_prompt(None, "jeeves_reflexion.reflectors", "lesson.md")

AnyCallable: TypeAlias = Callable[..., Any] | Callable[..., Awaitable[Any]]

ModelLike: TypeAlias = ChatModel | str
"""A model, or its name as for ``open_model``: ``"openai:gpt-4o-mini"``."""

AgentLike: TypeAlias = Agent | AnyCallable
"""An agent, or a callable of a prompt or a task, as for ``as_agent``."""

EvaluatorLike: TypeAlias = Evaluator | AnyCallable
"""An evaluator, or a callable of an output, or of task and attempt, as for ``as_evaluator``."""

ReflectorLike: TypeAlias = Reflector | AnyCallable
"""A reflector, or a callable of task and trials, as for ``as_reflector``."""

LessonsLike: TypeAlias = LessonStore | VectorStore | str | os.PathLike[str]
"""A lesson store, a vector store to keep lessons in, or the address of one, as for ``open_lessons``."""


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """Settings of the loop that rarely change.

    Args:
        budget: The budget of each run.
        learn: False retries without reflecting (a control arm).
        learn_from_success: Whether attempts that passed leave a lesson too.
        lesson_characters: The greatest length of a lesson.
        one_sentence: False allows lessons of several sentences, like the paper's.
    """

    budget: Budget | None = None
    learn: bool = True
    learn_from_success: bool = False
    lesson_characters: int = 500
    one_sentence: bool = True

    def __post_init__(self) -> None:
        characters = check_whole("lesson_characters", self.lesson_characters)
        object.__setattr__(self, "lesson_characters", characters)


def agent_of(base: AgentLike | None, model: ChatModel | None) -> Agent:
    """Return the agent for the argument ``base``; by default a ReAct over the model."""
    if base is None:
        return ReAct(_needed(model, "base"))
    return adapter_of(base) or as_agent(base)


def evaluator_of(
    chosen: ModelLike | EvaluatorLike | None, model: ChatModel | None, prompt: str | Path | None
) -> Evaluator:
    """Return the evaluator for the argument; by default the model as a judge."""
    judge = _asked("evaluator", chosen, model, prompt)
    if judge is not None:
        return Judge(judge, prompt=prompt)
    return (
        chosen if isinstance(chosen, Judge | RewardEvaluator) else as_evaluator(cast("AnyCallable", chosen))
    )


def reflector_of(
    chosen: ModelLike | ReflectorLike | None,
    model: ChatModel | None,
    prompt: str | Path | None,
    *,
    structured: bool,
) -> Reflector:
    """Return the reflector for the argument; by default the model.

    With ``structured``, a model fills in the forms that a library of reflections needs.
    """
    asked = _asked("reflector", chosen, model, prompt)
    if asked is None:
        if isinstance(chosen, LessonReflector | StructuredReflector):
            return chosen
        return as_reflector(cast("AnyCallable", chosen))
    if not structured:
        return LessonReflector(asked, prompt=prompt)
    if prompt is not None:
        raise ConfigurationError(
            "reflector_prompt is for one sentence; forms have a prompt each: leave it out, or pass a reflector of "
            "your own that returns make_reflection(...)"
        )
    return StructuredReflector(asked)


def _asked(part: str, chosen: object, model: ChatModel | None, prompt: str | Path | None) -> ChatModel | None:
    """Return the model to ask for a part; None if the part is a callable."""
    if isinstance(prompt, str) and not prompt.strip():
        raise ConfigurationError(f"{part}_prompt is empty: pass a text, a Path, or nothing for the default")
    if chosen is None:
        return _needed(model, part)
    if isinstance(chosen, str):
        return open_model(chosen)
    if isinstance(chosen, ChatModel):
        return chosen
    if prompt is not None:
        raise ConfigurationError(f"{part}_prompt goes with a model as {part}, not with a callable")
    if not callable(chosen):
        raise ConfigurationError(f"{part} must be a model or a callable, not {type(chosen).__name__}")
    return None


def _needed(model: ChatModel | None, part: str) -> ChatModel:
    if model is None:
        raise ConfigurationError(f"{part} is not given: pass {part}=, or model= to make one")
    return model


def model_of(model: ModelLike | None) -> ChatModel | None:
    """Return the model with a name; a model is returned as it is."""
    if isinstance(model, str):
        return open_model(model)
    if model is not None and not isinstance(model, ChatModel):
        raise ConfigurationError(f"model must be a ChatModel or the name of one, not {type(model).__name__}")
    return model


def stores_of(lessons: LessonsLike | None, memory: Memory | None) -> tuple[LessonStore | None, Memory]:
    """Return the lesson store or None, and the memory, by default one that lives as long as the loop."""
    if lessons is not None and memory is not None:
        raise ConfigurationError("pass lesson_store (selective recall) or memory (the whole block), not both")
    if memory is not None and not isinstance(memory, Memory):
        raise ConfigurationError(
            f"memory must be a Memory, such as FileMemory(folder), not {type(memory).__name__}"
        )
    memory = TransientMemory() if memory is None else memory
    if lessons is None or isinstance(lessons, LessonStore):
        return lessons, memory
    if isinstance(lessons, VectorStore):
        return VectorLessonStore(lessons), memory
    if isinstance(lessons, str | os.PathLike):
        try:
            return open_lessons(lessons), memory
        except LessonStoreError as error:
            raise ConfigurationError(f"lesson_store can't be opened: {error}") from error
    raise ConfigurationError(
        "lesson_store must be a LessonStore, a VectorStore or the address of one (a folder, memory://, "
        f"postgresql://…), not {type(lessons).__name__}"
    )


def checked_task(task: Task | str) -> Task:
    """Return a task for a text; a task is returned as it is."""
    if isinstance(task, str):
        return Task(task)
    if not isinstance(task, Task):
        raise ConfigurationError(f"a task must be a Task or a text, not {type(task).__name__}")
    return task
