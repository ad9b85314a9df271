"""What a run tells the world while it happens: a tagged union of small frozen records.

Progress bars, run logs and web pages all listen to the same events. Match on ``kind``::

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
from typing import TYPE_CHECKING, Literal, TypeAlias

from jeeves_reflexion.types import JSON, Attempt, Lesson, Recall, Reflection, Role, Step, StopReason, Usage

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from jeeves_reflexion.tasknotes.values import TaskReflection


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """What every event carries: the run, the attempt (0 outside of one) and the time in seconds since 1970."""

    run_id: str
    attempt: int = 0
    at: float = field(default_factory=time.time)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Occurrence):
    """A run begins."""

    task_id: str
    max_attempts: int
    kind: Literal["reflexion.run_started"] = "reflexion.run_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(Occurrence):
    """An attempt begins."""

    max_attempts: int
    kind: Literal["reflexion.attempt_started"] = "reflexion.attempt_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonsRecalled(Occurrence):
    """The store was asked; ``lessons`` are the sentences offered, best first, possibly none."""

    recall_id: str
    n_recalled: int
    lessons: tuple[str, ...]
    n_withheld: int = 0
    kind: Literal["reflexion.lessons_recalled"] = "reflexion.lessons_recalled"

    @classmethod
    def of(cls, recall: Recall, *, run_id: str, attempt: int) -> LessonsRecalled:
        """Tell of a recall."""
        return cls(
            run_id=run_id,
            attempt=attempt,
            recall_id=recall.id,
            n_recalled=len(recall.offered),
            lessons=recall.texts,
            n_withheld=len(recall.withheld),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFinished(Occurrence):
    """The agent is done with its attempt, in whatever way."""

    output: str
    n_steps: int
    error: str | None = None
    interrupted: str | None = None
    kind: Literal["reflexion.attempt_finished"] = "reflexion.attempt_finished"

    @classmethod
    def of(cls, made: Attempt, *, run_id: str, attempt: int) -> AttemptFinished:
        """Tell of an attempt."""
        return cls(
            run_id=run_id,
            attempt=attempt,
            output=made.output,
            n_steps=len(made.steps),
            error=made.error,
            interrupted=made.interrupted,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated(Occurrence):
    """The attempt was judged; a score of None means that it could not be."""

    score: float | None
    passed: bool
    kind: Literal["reflexion.evaluated"] = "reflexion.evaluated"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdMet(Occurrence):
    """The attempt passed."""

    score: float | None
    kind: Literal["reflexion.threshold_met"] = "reflexion.threshold_met"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxAttemptsReached(Occurrence):
    """The last attempt did not pass."""

    final_score: float | None
    attempts: int
    kind: Literal["reflexion.max_attempts_reached"] = "reflexion.max_attempts_reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalated(Occurrence):
    """All retries failed, and the orchestrator is to take over; ``reflections`` are those of the run, in order."""

    task_id: str
    reflections: tuple[Reflection, ...]
    kind: Literal["reflexion.escalated"] = "reflexion.escalated"


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonProduced(Occurrence):
    """The reflector wrote a lesson; it is not stored yet."""

    lesson: str
    kind: Literal["reflexion.lesson_produced"] = "reflexion.lesson_produced"


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonPersisted(Occurrence):
    """A lesson is stored: in the block ``block``, or in the lesson store (then ``lesson`` is set)."""

    block: str
    lesson: Lesson | None = None
    kind: Literal["reflexion.lesson_persisted"] = "reflexion.lesson_persisted"


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonDropped(Occurrence):
    """No lesson came of this attempt, and why."""

    reason: str
    kind: Literal["reflexion.lesson_dropped"] = "reflexion.lesson_dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(Occurrence):
    """Something went wrong that does not end the run."""

    message: str
    kind: Literal["reflexion.warned"] = "reflexion.warned"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Occurrence):
    """The run is over."""

    stop_reason: StopReason
    passed: bool
    score: float | None
    attempts: int
    seconds: float
    kind: Literal["reflexion.run_finished"] = "reflexion.run_finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftWritten(Occurrence):
    """The inner loop has a draft to judge; number 1 is the writer's, later ones are revisions."""

    number: int
    output: str
    base: int | None = None
    strategy: str | None = None
    kind: Literal["refinement.draft_written"] = "refinement.draft_written"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftJudged(Occurrence):
    """A draft was judged; a score of None means that it could not be."""

    number: int
    score: float | None
    satisfactory: bool
    issues: tuple[str, ...] = ()
    kind: Literal["refinement.draft_judged"] = "refinement.draft_judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflected(Occurrence):
    """A trigger other than completion led to a critique, which the next step or revision gets to read."""

    trigger: str
    critique: str
    kind: Literal["refinement.reflected"] = "refinement.reflected"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinementFinished(Occurrence):
    """The inner loop stopped, and why; ``best`` is the number of the draft it returns."""

    reason: str
    drafts: int
    best: int
    score: float | None
    kind: Literal["refinement.finished"] = "refinement.finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesApplied(Occurrence):
    """A task's notes from earlier runs stand in its prompt; version 0 is that of a store without versions."""

    identity: str
    version: int
    kind: Literal["tasknotes.applied"] = "tasknotes.applied"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReflectedEvent(Occurrence):
    """An accepted run of a task was reflected on, and what came of it is stored."""

    task_description: str
    reflection: TaskReflection
    is_first_reflection: bool
    kind: Literal["tasknotes.reflected"] = "tasknotes.reflected"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesRolledBack(Occurrence):
    """A version of a task's notes was taken back, because the runs under it went worse; version 0 is none."""

    identity: str
    old: int
    new: int
    reason: str
    kind: Literal["tasknotes.rolled_back"] = "tasknotes.rolled_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTaken(Occurrence):
    """The base agent took a step."""

    number: int
    step: Step
    kind: Literal["agent.step"] = "agent.step"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCalled(Occurrence):
    """A model answered; ``role`` says on whose behalf it was asked."""

    role: Role
    model: str
    usage: Usage
    seconds: float
    kind: Literal["model.called"] = "model.called"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvent(Occurrence):
    """An event of a base agent's own; ``name`` and ``data`` are up to it."""

    name: str
    data: Mapping[str, JSON] = field(default_factory=dict)
    kind: Literal["agent.event"] = "agent.event"


Event: TypeAlias = (
    RunStarted
    | AttemptStarted
    | LessonsRecalled
    | AttemptFinished
    | Evaluated
    | ThresholdMet
    | MaxAttemptsReached
    | Escalated
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
    | NotesRolledBack
    | StepTaken
    | ModelCalled
    | AgentEvent
)


def as_json(event: Event) -> dict[str, JSON]:
    """Return the event as a JSON object, its ``kind`` first."""
    return {"kind": event.kind, **_fields(event)}


def _fields(record: DataclassInstance) -> dict[str, JSON]:
    return {field.name: _plain(getattr(record, field.name)) for field in dataclasses.fields(record)}


def _plain(value: object) -> JSON:
    """Write a value as JSON has it; ``dataclasses.asdict`` can't copy a read-only mapping."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
