"""The events that a run emits: a union of small frozen dataclasses.

Progress bars, run logs and web pages all listen to the same events. Match on the class, or on ``kind``::

    async with reflexion.stream(task) as events:
        async for event in events:
            match event:
                case Evaluated(score=score): ...
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast, dataclass_transform

from jeeves_reflexion.types import (
    JSON,
    Attempt,
    Lesson,
    Recall,
    Reflection,
    Role,
    Step,
    StopReason,
    Usage,
)

if TYPE_CHECKING:
    from jeeves_reflexion.tasknotes.values import TaskReflection


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Occurrence:
    """The fields of every event: the run, the attempt (0 outside of one) and the time in seconds since 1970.

    Each kind of event is a frozen dataclass with keyword arguments.
    """

    kind: str = field(default="", init=False)
    run_id: str
    attempt: int = 0
    at: float = field(default_factory=time.time)

    def __init_subclass__(cls, *, kind: str) -> None:
        cls.__annotations__["kind"] = "str"  # without it the default would be the one above
        cls.kind = field(default=kind, init=False)
        dataclass(frozen=True, kw_only=True)(cls)


class RunStarted(Occurrence, kind="reflexion.run_started"):
    """A run begins."""

    task_id: str
    max_attempts: int


class AttemptStarted(Occurrence, kind="reflexion.attempt_started"):
    """An attempt begins."""

    max_attempts: int


class LessonsRecalled(Occurrence, kind="reflexion.lessons_recalled"):
    """Lessons were recalled; ``lessons`` are the sentences offered, best first, possibly none.

    ``lesson_ids`` and ``similarities`` (cosines to the task) are in the same order; ``withheld_ids`` are the ids of
    lessons that the draw withheld.
    """

    recall_id: str
    n_recalled: int
    lessons: tuple[str, ...]
    n_withheld: int = 0
    lesson_ids: tuple[str, ...] = ()
    similarities: tuple[float, ...] = ()
    withheld_ids: tuple[str, ...] = ()

    @classmethod
    def of(cls, recall: Recall, *, run_id: str, attempt: int) -> Self:
        """Return the event of a recall."""
        return cls(
            run_id=run_id,
            attempt=attempt,
            recall_id=recall.id,
            n_recalled=len(recall.offered),
            lessons=recall.texts,
            n_withheld=len(recall.withheld),
            lesson_ids=tuple(item.lesson.id for item in recall.offered),
            similarities=tuple(item.similarity for item in recall.offered),
            withheld_ids=tuple(item.lesson.id for item in recall.withheld),
        )


class AttemptFinished(Occurrence, kind="reflexion.attempt_finished"):
    """The agent has ended its attempt, however it went."""

    output: str
    n_steps: int
    error: str | None = None
    interrupted: str | None = None

    @classmethod
    def of(cls, made: Attempt, *, run_id: str, attempt: int) -> Self:
        """Return the event of an attempt."""
        return cls(
            run_id=run_id,
            attempt=attempt,
            output=made.output,
            n_steps=len(made.steps),
            error=made.error,
            interrupted=made.interrupted,
        )


class Evaluated(Occurrence, kind="reflexion.evaluated"):
    """The attempt was judged; a score of None means that it could not be scored. ``rationale`` quotes no gold."""

    score: float | None
    passed: bool
    rationale: str = ""


class ThresholdMet(Occurrence, kind="reflexion.threshold_met"):
    """The attempt passed."""

    score: float | None


class MaxAttemptsReached(Occurrence, kind="reflexion.max_attempts_reached"):
    """The last attempt did not pass."""

    final_score: float | None
    attempts: int


class Escalated(Occurrence, kind="reflexion.escalated"):
    """All retries failed, and the orchestrator is to take over; ``reflections`` are those of the run, in order."""

    task_id: str
    reflections: tuple[Reflection, ...]


class LessonChecked(Occurrence, kind="reflexion.lesson_checked"):
    """A check was asked whether a lesson would change an attempt; ``changes`` is None if it could not decide.

    A lesson that would not goes back to the reflector with the ``reason``; the second time the attempt leaves none.
    """

    lesson: str
    changes: bool | None
    reason: str


class LessonProduced(Occurrence, kind="reflexion.lesson_produced"):
    """The reflector wrote a lesson; it is not stored yet."""

    lesson: str


class LessonPersisted(Occurrence, kind="reflexion.lesson_persisted"):
    """A lesson is stored: in the block ``block``, or in the lesson store (then ``lesson`` is set)."""

    block: str
    lesson: Lesson | None = None


class LessonDropped(Occurrence, kind="reflexion.lesson_dropped"):
    """The attempt leaves no lesson, and why."""

    reason: str


class Warned(Occurrence, kind="reflexion.warned"):
    """Something went wrong that does not end the run."""

    message: str


class RunFinished(Occurrence, kind="reflexion.run_finished"):
    """The run is over."""

    stop_reason: StopReason
    passed: bool
    score: float | None
    attempts: int
    seconds: float


class DraftWritten(Occurrence, kind="refinement.draft_written"):
    """The inner loop has a draft to judge; number 1 is the writer's, later ones are revisions."""

    number: int
    output: str
    base: int | None = None
    strategy: str | None = None


class DraftJudged(Occurrence, kind="refinement.draft_judged"):
    """A draft was judged; a score of None means that it could not be scored."""

    number: int
    score: float | None
    satisfactory: bool
    issues: tuple[str, ...] = ()


class Reflected(Occurrence, kind="refinement.reflected"):
    """A trigger other than completion led to a critique, which the next step or revision reads."""

    trigger: str
    critique: str


class RefinementFinished(Occurrence, kind="refinement.finished"):
    """The inner loop stopped, and why; ``best`` is the number of the draft it returns."""

    reason: str
    drafts: int
    best: int
    score: float | None


class NotesApplied(Occurrence, kind="tasknotes.applied"):
    """A task's notes from earlier runs are in its prompt; version 0 comes from a store without versions."""

    identity: str
    version: int


class TaskReflectedEvent(Occurrence, kind="tasknotes.reflected"):
    """An accepted run of a task was reflected on, and the reflection is stored."""

    task_description: str
    reflection: TaskReflection
    is_first_reflection: bool


class StepTaken(Occurrence, kind="agent.step"):
    """The base agent took a step."""

    number: int
    step: Step


class ModelCalled(Occurrence, kind="model.called"):
    """A model answered; ``role`` says on whose behalf it was asked.

    ``finish_reason`` is the model's word for why it stopped, ``provider`` the API (``openai``, ``anthropic``); both are
    empty if unknown.
    """

    role: Role
    model: str
    usage: Usage
    seconds: float
    finish_reason: str = ""
    provider: str = ""


class ModelFailed(Occurrence, kind="model.failed"):
    """A model call failed with ``error``; its usage is unknown and not charged."""

    role: Role
    model: str
    error: str
    seconds: float
    provider: str = ""


class TextStreamed(Occurrence, kind="model.text"):
    """A model with ``stream=True`` sent more text; ``role`` says on whose behalf it was asked."""

    role: Role
    model: str
    text: str


class AgentEvent(Occurrence, kind="agent.event"):
    """A custom event of a base agent, which chooses ``name`` and ``data``."""

    name: str
    data: Mapping[str, JSON] = field(default_factory=dict)


Event: TypeAlias = (
    RunStarted
    | AttemptStarted
    | LessonsRecalled
    | AttemptFinished
    | Evaluated
    | ThresholdMet
    | MaxAttemptsReached
    | Escalated
    | LessonChecked
    | LessonProduced
    | LessonPersisted
    | LessonDropped
    | Warned
    | RunFinished
    | DraftWritten
    | DraftJudged
    | Reflected
    | RefinementFinished
    | NotesApplied
    | TaskReflectedEvent
    | StepTaken
    | ModelCalled
    | ModelFailed
    | TextStreamed
    | AgentEvent
)


def as_json(event: Event) -> dict[str, JSON]:
    """Return the event as a JSON object, its ``kind`` first."""
    return cast(
        "dict[str, JSON]",
        jsonable({each.name: getattr(event, each.name) for each in dataclasses.fields(event)}),
    )


def jsonable(value: object, *, exclude: dict[str, Any] | None = None) -> JSON:
    """Return a value as JSON, without the fields in ``exclude``; a value with no form in JSON becomes its text."""
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - listeners that need no JSON need no pydantic

    plain: JSON
    try:
        plain = to_jsonable_python(value, exclude=exclude, bytes_mode="base64", fallback=_plain)
    except (TypeError, UnicodeEncodeError):  # a key that is a set, or a lone surrogate
        named = _text_keys(value)
        plain = to_jsonable_python(named, exclude=exclude, bytes_mode="base64", fallback=_plain)
    return plain


def _text_keys(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key).encode("utf-8", "replace").decode(): _text_keys(item) for key, item in value.items()}
    return [_text_keys(item) for item in value] if isinstance(value, list | tuple) else value


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    # numpy's numbers and arrays, which an environment may report
    as_list = None if isinstance(value, type) else getattr(value, "tolist", None)
    return as_list() if callable(as_list) else str(value)
