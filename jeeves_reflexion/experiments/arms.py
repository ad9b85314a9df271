"""The arms of an experiment. They differ in memory alone: each is a way to keep and recall lessons."""

from __future__ import annotations

import copy
import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons import TransientMemory
from jeeves_reflexion.lessons.credit.effects import Withholding
from jeeves_reflexion.lessons.records import Key, lesson_of
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.lessons.settings import Credit, LessonSettings, Order
from jeeves_reflexion.lessons.store import VectorLessonStore
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.protocols import LessonStore
from jeeves_reflexion.redaction import redact_id
from jeeves_reflexion.text import cut_middle, render_steps
from jeeves_reflexion.types import (
    JSON,
    Evaluation,
    Lesson,
    Provenance,
    Recall,
    RecalledLesson,
    Reflection,
    Step,
    Task,
    Trial,
)
from vectorstores.base import Filter, VectorStore

ArmName: TypeAlias = Literal[
    "react",
    "retry",
    "tabu-retry",
    "last-attempt",
    "reflexion",
    "own",
    "monotonic",
    "selective",
    "others-only",
    "irrelevant",
]
"""The name of an arm without its ``k``. At run time it may have one, as in ``selective@1`` (:func:`arm_of`)."""

ARMS: Mapping[ArmName, str] = MappingProxyType(
    {
        "react": "tries once, without any memory: what the agent can do as it is",
        "retry": "tries again without any memory: controls for the chance that lies in another try",
        "tabu-retry": "sees which actions its attempts took so far, to try others first: controls for mere elimination",
        "last-attempt": "sees its last attempt and no reflection: controls for what reflecting on it adds",
        "reflexion": "recalls only the lessons of its own task, as in the paper",
        "own": "another name of reflexion",
        "monotonic": "sees every lesson written so far, newest first: controls for what picking lessons adds",
        "selective": "recalls the k lessons nearest to its task from a store shared by all tasks",
        "others-only": "recalls as selective does, its own task's lessons withheld: what those of others are worth",
        "irrelevant": "recalls lessons that were written for another kind of task: the placebo",
    }
)

LAST_ATTEMPT_TOKENS: Final = 2000
"""The most that is shown of the last attempt's steps, of its output, and of the actions of all attempts."""

_WITHOUT_LESSONS: Final = frozenset({"react", "retry", "tabu-retry", "last-attempt"})
_WITH_K: Final = frozenset({"reflexion", "own", "selective", "others-only", "irrelevant"})
_NOT_KIND: Final = "placebo_for_kind"


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm. ``kind`` is one of :data:`ARMS`; ``k`` is the number of lessons it recalls, None for the plan's."""

    name: ArmName
    kind: ArmName
    k: int | None = None

    @property
    def learns(self) -> bool:
        """Whether the arm reflects and keeps lessons."""
        return self.kind not in _WITHOUT_LESSONS

    def shown(self, history: Sequence[Trial]) -> str:
        """Return what a try of this arm sees of the task's failed trials; empty for most arms."""
        if history and self.kind == "last-attempt":
            return last_attempt(history)
        if history and self.kind == "tabu-retry":
            return tried_actions(history)
        return ""

    def trials(self, planned: int) -> int:
        """Return how many times the arm tries a task."""
        return 1 if self.kind == "react" else planned


def arm_of(name: str) -> Arm:
    """Return the arm with a name such as ``selective`` or ``selective@3``. Raises :class:`ConfigurationError`."""
    kind, at, number = name.partition("@")
    if kind not in ARMS:
        raise ConfigurationError(
            f"unknown arm {name!r}: choose from {', '.join(ARMS)}, with a k as in selective@3"
        )
    if not at:
        return Arm(cast("ArmName", name), cast("ArmName", kind))
    if kind not in _WITH_K:
        raise ConfigurationError(f"arm {kind} has no k: {', '.join(sorted(_WITH_K))} have one")
    if not (number.isascii() and number.isdecimal()) or str(int(number)) != number or int(number) < 1:
        raise ConfigurationError(
            f"arm {name!r}: write a whole number of at least 1 after the @, as in selective@3"
        )
    return Arm(cast("ArmName", name), cast("ArmName", kind), int(number))


def arm_names(text: str) -> tuple[ArmName, ...]:
    """Return the arms of a comma-separated list such as ``retry,selective@1,selective@3``."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise ConfigurationError(f"the list names no arm: choose from {', '.join(ARMS)}")
    return tuple(arm_of(name).name for name in names)


def check_kinds(arms: Sequence[ArmName], tasks: Sequence[Task]) -> None:
    """Raise :class:`ConfigurationError` if the arm ``irrelevant`` would find all tasks to be of one kind."""
    if any(arm_of(arm).kind == "irrelevant" for arm in arms) and len({task.kind for task in tasks}) < 2:
        raise ConfigurationError(
            "the arm irrelevant recalls lessons of another kind of task, but all tasks are of one kind: give the tasks"
            " kinds, or leave the arm out"
        )


def recall_settings(
    min_similarity: float,
    *,
    withhold: float = 0.0,
    key: Key = "task",
    order: Order = "similarity",
) -> LessonSettings:
    """Return the settings of a lesson store. With a share to withhold, recalls measure the effect of lessons."""
    credit = Credit(Withholding(withhold)) if withhold else None
    return LessonSettings(key=key, min_similarity=min_similarity, credit=credit, order=order)


def withholding_json(settings: LessonSettings) -> dict[str, JSON]:
    """Return the shares of withheld recalls as a run's configuration holds them."""
    share = settings.credit.withholding if settings.credit else Withholding(0.0)
    return {"withhold": share.share, "withhold_early": share.early}


def order_json(order: Order) -> dict[str, JSON]:
    """Return the order of recall as a run's configuration holds it.

    "similarity" is left out: runs that were begun when it was the only order can still be resumed.
    """
    return {} if order == "similarity" else {"order": order}


def arm_lessons(
    arm: ArmName, store: VectorStore, tasks: Sequence[Task], *, settings: LessonSettings, seed: int
) -> LessonStore | None:
    """Return the memory of an arm, over a store that no other arm uses. None for an arm that keeps no lessons.

    Only the selective arms use credit: the others recall what their definition says.
    """
    kind = arm_of(arm).kind
    if kind in _WITHOUT_LESSONS:
        return None
    if kind == "selective":
        return VectorLessonStore(store, settings=settings)
    settings = replace(settings, credit=None)
    if kind == "monotonic":
        return WholeBlock(VectorLessonStore(store, settings=settings))
    if kind == "others-only":
        # Keep equal lessons of different tasks: if they were merged, one of the tasks would lose its own.
        others = replace(settings, where=lambda task: {"task_id": {"$ne": task.id}}, keep_copies=True)
        return VectorLessonStore(store, settings=others)
    if kind == "irrelevant":
        # The decoy, which Placebo recalls for, says which kind the lessons must not be of.
        other = replace(
            settings,
            where=lambda decoy: {"task_kind": {"$ne": decoy.metadata[_NOT_KIND]}},
            min_similarity=-1.0,
        )
        return Placebo(VectorLessonStore(store, settings=other), tasks, seed=seed)
    # Keep equal lessons here too: the arm shows the last reflections of its own task, repeated ones included.
    own = replace(
        settings,
        where=lambda task: {"task_id": task.id},
        min_similarity=-1.0,
        keep_copies=True,
        order="recency",
        picking=replace(settings.picking, diversity=0.0, max_likeness=1.0),
    )
    return OwnChain(VectorLessonStore(store, settings=own))


def as_arm(loop: Reflexion, arm: Arm) -> Reflexion:
    """Return a copy of the loop with the arm's k, and without memory if the arm has none."""
    loop = copy.copy(loop)
    if arm.k is not None:
        loop.top_k_lessons = arm.k
    if not arm.learns:
        loop.options = replace(loop.options, learn=False)
        loop.lessons, loop.memory = None, TransientMemory()
    return loop


def reading_only(loop: Reflexion) -> Reflexion:
    """Return a copy of the loop for held-out tasks: it recalls lessons, withholds none, and changes nothing."""
    loop, lessons = copy.copy(loop), loop.lessons
    loop.options = replace(loop.options, learn=False)
    if isinstance(lessons, VectorLessonStore) and (credit := lessons.settings.credit) is not None:
        settings = replace(lessons.settings, credit=replace(credit, withholding=Withholding()))
        lessons = VectorLessonStore(lessons.store, settings=settings)
    loop.lessons = None if lessons is None else ReadOnly(lessons)
    return loop


def last_attempt(history: Sequence[Trial]) -> str:
    """Return the last attempt as the arm ``last-attempt`` shows it: its steps, its output, and that it failed."""
    attempt = history[-1].attempt
    ended = attempt.error or attempt.interrupted
    parts = [
        "Your last attempt at this task, which did not pass:",
        render_steps(attempt.steps, LAST_ATTEMPT_TOKENS),
        f"Answer: {cut_middle(attempt.output, LAST_ATTEMPT_TOKENS)}" if attempt.output.strip() else "",
        f"It ended early: {ended}" if ended else "",
    ]
    return "\n".join(part for part in parts if part)


def tried_actions(history: Sequence[Trial]) -> str:
    """Return the actions of all attempts as the arm ``tabu-retry`` shows them: each once, without observations."""
    actions = dict.fromkeys(step.action for trial in history for step in trial.attempt.steps)
    if not actions:
        return ""
    listed = render_steps([Step(action=action) for action in actions], LAST_ATTEMPT_TOKENS)
    return f"Your attempts at this task so far did not pass; try first what is not among their actions:\n{listed}"


# -- ways to recall, as wrappers around a lesson store


@dataclass(eq=False)
class OverLessons:
    """A wrapper that passes every call to the store below; ``options`` are those of :meth:`LessonStore.recall`."""

    lessons: LessonStore

    async def recall(self, task: Task, **options: Any) -> Recall:  # noqa: ANN401
        """Recall from the store below."""
        return await self.lessons.recall(task, **options)

    async def record(self, task: Task, reflection: Reflection, *, provenance: Provenance) -> Lesson:
        """Store the lesson in the store below."""
        return await self.lessons.record(task, reflection, provenance=provenance)

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """Note the outcome in the store below."""
        return await self.lessons.outcome(recall_id, evaluation)


class OwnChain(OverLessons):
    """Recalls the last k reflections on the task itself, oldest first, as the prompts of the paper do."""

    async def recall(self, task: Task, **options: Any) -> Recall:  # noqa: ANN401
        """Return the task's last lessons in the order they were written."""
        recall = await super().recall(task, **options)
        by_age = sorted(
            recall.offered,
            key=lambda item: (item.lesson.provenance.created_at, item.lesson.provenance.attempt),
        )
        return replace(recall, offered=tuple(by_age))


class ReadOnly(OverLessons):
    """Recalls for loops that learn nothing, and leaves the credit of lessons unchanged."""

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """Do nothing."""
        return False


class WholeBlock(ReadOnly):
    """Recalls every lesson, newest first: one block that all tasks share. Single lessons get no credit."""

    lessons: VectorLessonStore

    async def recall(self, task: Task, *, skip_run: str = "", **options: Any) -> Recall:  # noqa: ANN401
        """Return all active lessons, newest first."""
        skipped = redact_id(skip_run)
        found: list[RecalledLesson] = []
        after: str | None = None
        while True:
            page = await self.lessons.list(after=after, limit=500)
            found += [
                RecalledLesson(lesson, 0.0, "the whole block")
                for lesson in page.lessons
                if lesson.state == "active" and not (skipped and lesson.provenance.run_id == skipped)
            ]
            if page.next is None:
                return Recall(uuid.uuid4().hex, task.id, tuple(reversed(found)))
            after = page.next


class Placebo(OverLessons):
    """Recalls lessons of another kind of task: as many words as other arms get, and none that should help."""

    def __init__(self, lessons: LessonStore, tasks: Sequence[Task], *, seed: int) -> None:
        super().__init__(lessons)
        self._tasks = [task.public() for task in tasks]
        self._seed = seed

    async def recall(self, task: Task, **options: Any) -> Recall:  # noqa: ANN401
        """Return the lessons recalled for a task of another kind, drawn by the seed, without those of this kind."""
        others = [other for other in self._tasks if other.kind != task.kind]
        if not others:
            return Recall(uuid.uuid4().hex, task.id)
        decoy = random.Random(f"{self._seed}:{task.id}").choice(others)  # noqa: S311 - a draw, not a secret
        recall = await super().recall(replace(decoy, metadata={_NOT_KIND: task.kind}), **options)
        return replace(recall, task_id=task.id)


def beneath(lessons: LessonStore | None) -> VectorLessonStore | None:
    """Return the vector store of lessons below the wrappers, or None if there is none."""
    while isinstance(lessons, OverLessons):
        lessons = lessons.lessons
    return lessons if isinstance(lessons, VectorLessonStore) else None


async def first_written(
    lessons: VectorLessonStore, *, since: float, run_id: str = "", attempt: int = 0
) -> Lesson | None:
    """Return a lesson written since a time (seconds since 1970), by the given attempt if a run is named, else None.

    A lesson that was merged into another is not found; recording it again would change nothing.
    """
    conditions: list[Filter] = [{"face": 0}, {"created_at": {"$gte": since}}]
    if run_id:
        conditions += [{"run_id": redact_id(run_id)}, {"attempt": attempt}]
    async with store_errors("look for a lesson"):
        page = await lessons.store.scan(filter={"$and": conditions}, limit=1)
    return lesson_of(page.chunks[0]) if page.chunks else None
