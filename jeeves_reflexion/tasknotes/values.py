"""The values and protocols of task notes: reflections on a task, the strategies that write them, and their stores."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeAlias, runtime_checkable

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons.gate import uncovered
from jeeves_reflexion.types import Attempt, Evaluation, Task
from jeeves_reflexion.values import check_whole, checked_settings

if TYPE_CHECKING:
    from jeeves_reflexion.tasknotes.tasks import EnsembleTask

FAILED: Final = "Reflection could not be completed"
"""The beginning of a failed reflection's observation, which marks it also in a store without ``failure``."""
_FAILURE: Final = re.compile(rf"[ \t\-*]*{FAILED}", re.IGNORECASE)

MOST_CHARACTERS: Final = 12_000
MOST_ITEMS: Final = 20
MOST_ITEM_CHARACTERS: Final = 1000
MARGIN: Final = 1000
"""How far beyond their cut texts are searched for secrets, so that a secret across the cut is found."""


class ReflectionStoreError(LessonStoreError):
    """Task notes could not be stored or read. What was stored before is unchanged."""


AnyTask: TypeAlias = "Task | EnsembleTask | str"


def description_of(task: AnyTask) -> str:
    """Return the description of a task with its placeholders, so that a parametrised task is one task."""
    if isinstance(task, str):
        return task
    if isinstance(task, Task):
        return task.prompt if task.template is None else task.template
    return task.description


def task_identity(task: AnyTask) -> str:
    """Return the key of a task's notes: the SHA-256 of its description, 64 hexadecimal digits.

    It is the same in every process and depends on nothing else, so that two tasks with one description share their
    notes. Placeholders are not filled in for it.
    """
    return hashlib.sha256(description_of(task).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
@checked_settings
class TaskReflection:
    """A better version of a task's instructions, made from an accepted run; the task itself never changes.

    ``run_count`` says how often the task was reflected on. ``failure`` says why a reflection failed: its texts are then
    the task's own, no agent is shown it, and it replaces no good reflection. By default it is the observation that
    begins with :data:`FAILED`, if there is one. Raises :class:`ConfigurationError`, which names a field that is wrong.
    """

    refined_description: str
    refined_expected_output: str
    observations: tuple[str, ...]
    suggestions: tuple[str, ...]
    reflected_at: datetime
    run_count: int
    failure: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.reflected_at, datetime) or self.reflected_at.tzinfo is None:
            raise ConfigurationError(
                f"reflected_at must be a time with its time zone, not {self.reflected_at!r}"
            )
        object.__setattr__(self, "run_count", check_whole("run_count", self.run_count))
        if self.failure is None:
            said = (text for text in self.observations if _FAILURE.match(text))
            object.__setattr__(self, "failure", next(said, None))

    @property
    def complete(self) -> bool:
        """Whether this is a reflection, not the record of a failed one."""
        return self.failure is None

    @property
    def texts(self) -> tuple[str, ...]:
        """All its texts, in order."""
        return (
            self.refined_description,
            self.refined_expected_output,
            *self.observations,
            *self.suggestions,
        )

    @classmethod
    def of_first_run(
        cls,
        refined_description: str,
        refined_expected_output: str,
        observations: Sequence[str] = (),
        suggestions: Sequence[str] = (),
    ) -> Self:
        """Return the reflection on a task's first run."""
        return cls(
            refined_description,
            refined_expected_output,
            observations,  # type: ignore[arg-type] # any list of texts becomes a tuple
            suggestions,  # type: ignore[arg-type]
            datetime.now(UTC),
            1,
        )

    @classmethod
    def from_prior(
        cls,
        prior: TaskReflection,
        refined_description: str,
        refined_expected_output: str,
        observations: Sequence[str] = (),
        suggestions: Sequence[str] = (),
    ) -> Self:
        """Return the reflection after ``prior``: its run count plus one, and a time that is not earlier."""
        if not isinstance(prior, TaskReflection):
            raise ConfigurationError(f"prior must be a TaskReflection, not {prior!r}")
        first = cls.of_first_run(refined_description, refined_expected_output, observations, suggestions)
        time = max(first.reflected_at, prior.reflected_at)
        return replace(first, reflected_at=time, run_count=prior.run_count + 1)


def storable(reflection: TaskReflection) -> TaskReflection:
    """Return a reflection that every store can hold: redacted, and cut, since it would grow over many runs."""
    return changed_texts(reflection, lambda _, text, most: storable_text(text, most))


def storable_text(text: str, most: int) -> str:
    """Return a text that every store can hold: redacted, and of at most ``most`` characters."""
    text = uncovered(text[: most + MARGIN])
    return text[:most].replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def changed_texts(reflection: TaskReflection, change: Callable[[str, str, int], str]) -> TaskReflection:
    """Return a reflection with each text replaced by ``change(field, text, most_characters)``."""

    def items(field: str, texts: tuple[str, ...]) -> tuple[str, ...]:
        changed = ((text, change(field, text, MOST_ITEM_CHARACTERS)) for text in texts[:MOST_ITEMS])
        return tuple(new for text, new in changed if new or not text)

    failure = reflection.failure
    return replace(
        reflection,
        refined_description=change("refined_description", reflection.refined_description, MOST_CHARACTERS),
        refined_expected_output=change(
            "refined_expected_output", reflection.refined_expected_output, MOST_CHARACTERS
        ),
        observations=items("observations", reflection.observations),
        suggestions=items("suggestions", reflection.suggestions),
        failure=None if failure is None else change("failure", failure, MOST_ITEM_CHARACTERS),
    )


@dataclass(frozen=True, slots=True)
class ReflectionInput:
    """What a strategy reflects on.

    Neither ``task`` nor ``evaluation`` shows gold. ``task_output`` is the accepted output, which a reviewer may have
    edited; ``attempt`` is the attempt behind it, with its steps. A failed ``prior_reflection`` becomes None.
    """

    task: Task
    task_output: str
    prior_reflection: TaskReflection | None = None
    evaluation: Evaluation | None = None
    attempt: Attempt | None = None

    def __post_init__(self) -> None:
        if self.prior_reflection is not None and not self.prior_reflection.complete:
            object.__setattr__(self, "prior_reflection", None)

    @property
    def description(self) -> str:
        """The task's description with its placeholders."""
        return description_of(self.task)

    @property
    def expected_output(self) -> str:
        """The output that the task expects; empty if it doesn't say."""
        return self.task.expected_output or ""


@runtime_checkable
class ReflectionStrategy(Protocol):
    """Writes a better version of a task's instructions. A sync ``reflect`` runs in a worker thread."""

    async def reflect(self, given: ReflectionInput) -> TaskReflection:
        """Return the reflection. An error only causes a warning."""
        ...


@runtime_checkable
class ReflectionStore(Protocol):
    """Keeps the latest reflection of each task. Its methods may be sync; they run in a worker thread then.

    It must be safe for concurrent use, and is never given a failed reflection. :class:`VersionedReflectionStore` does
    more: it counts runs across processes, and keeps versions, so that a bad one can be rolled back.
    """

    async def store(self, task_identity: str, reflection: TaskReflection) -> None:
        """Store or replace the reflection of a task."""
        ...

    async def retrieve(self, task_identity: str) -> TaskReflection | None:
        """Return the latest reflection of a task, or None."""
        ...
