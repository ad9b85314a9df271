"""The arms of an experiment: they share all but memory, so each is a way to keep and recall lessons."""

from __future__ import annotations

import copy
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
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
"""A name without its ``k``; at run time also ``selective@1`` and the like (:func:`arm_of`)."""

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
"""So much is shown of the last attempt's steps and of its output, or of the actions of all attempts."""

_WITHOUT_LESSONS: Final = frozenset({"react", "retry", "tabu-retry", "last-attempt"})
_WITH_K: Final = frozenset({"reflexion", "own", "selective", "others-only", "irrelevant"})
_NOT_KIND: Final = "placebo_for_kind"


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm as a plan names it: ``kind`` is one of :data:`ARMS`, ``k`` how many lessons it recalls (or the plan's)."""

    name: ArmName
    kind: ArmName
    k: int | None = None

    @property
    def learns(self) -> bool:
        """Whether it reflects and keeps lessons."""
        return self.kind not in _WITHOUT_LESSONS

    def shown(self, history: Sequence[Trial]) -> str:
        """Return what its tries see of a task's failed trials as they were; nothing in most arms."""
        if not history or self.kind not in _RECORDS:
            return ""
        return _RECORDS[self.kind](history)

    def trials(self, planned: int) -> int:
        """Return how often it tries a task."""
        return 1 if self.kind == "react" else planned


def arm_of(name: str) -> Arm:
    """Return the arm of a name such as ``selective`` or ``selective@3``; raises :class:`ConfigurationError`."""
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
            f"arm {name!r}: behind the @ stands a whole number of at least 1, as in selective@3"
        )
    return Arm(cast("ArmName", name), cast("ArmName", kind), int(number))


def arm_names(text: str) -> tuple[ArmName, ...]:
    """Return the arms of a list with commas, such as ``retry,selective@1,selective@3``."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise ConfigurationError(f"no arm is named: choose from {', '.join(ARMS)}")
    return tuple(arm_of(name).name for name in names)


def check_kinds(arms: Sequence[ArmName], tasks: Sequence[Task]) -> None:
    """Raise :class:`ConfigurationError` for ``irrelevant`` over tasks of one kind, which has no lessons to recall."""
    if any(arm_of(arm).kind == "irrelevant" for arm in arms) and len({task.kind for task in tasks}) < 2:
        raise ConfigurationError(
            "the arm irrelevant recalls lessons of another kind of task, and all tasks are of one kind: give them"
            " kinds, or leave the arm out"
        )


def recall_settings(
    min_similarity: float,
    *,
    withhold: float = 0.0,
    early: float | None = None,
    key: Key = "task",
    order: Order = "similarity",
) -> LessonSettings:
    """Return the settings of a store of lessons; with a share to withhold, recall is an experiment and gives credit.

    ``early`` is the share for a lesson of which nothing is known; raises :class:`ConfigurationError` where it would do
    nothing.
    """
    credit = Credit(Withholding(withhold, early=early)) if withhold or early is not None else None
    return LessonSettings(key=key, min_similarity=min_similarity, credit=credit, order=order)


def withholding_json(settings: LessonSettings) -> dict[str, JSON]:
    """Return which share of recalls each lesson is withheld from, as a run's configuration has it."""
    share = settings.credit.withholding if settings.credit else Withholding(0.0)
    return {"withhold": share.share, "withhold_early": share.early}


def order_json(order: Order) -> dict[str, JSON]:
    """Return the order of recall as a run's configuration has it: left out where it is "similarity", so that runs
    begun before there were others can go on.
    """
    return {} if order == "similarity" else {"order": order}


def arm_lessons(
    arm: ArmName, store: VectorStore, tasks: Sequence[Task], *, settings: LessonSettings, seed: int
) -> LessonStore | None:
    """Return how an arm remembers, over a store that is its alone; ``None`` for an arm that keeps no lessons.

    Credit is for the selective arms: the others recall what their definition says.
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
        # Each task keeps its own: of an equal lesson that two tasks taught, one alone would be left.
        others = replace(settings, where=lambda task: {"task_id": {"$ne": task.id}}, keep_copies=True)
        return VectorLessonStore(store, settings=others)
    if kind == "irrelevant":
        other = replace(settings, where=_another_kind, min_similarity=-1.0)
        return Placebo(VectorLessonStore(store, settings=other), tasks, seed=seed)
    # The last reflections of the task, repeated ones too: an equal lesson of another task would take their place.
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
    """Return the loop as the arm has it: with the arm's k, and without memory where the arm has none."""
    loop = copy.copy(loop)
    if arm.k is not None:
        loop.top_k_lessons = arm.k
    if not arm.learns:
        loop.options = replace(loop.options, learn=False)
        loop.lessons, loop.memory = None, TransientMemory()
    return loop


def reading_only(loop: Reflexion) -> Reflexion:
    """Return the loop for held-out tasks: it recalls what was learned, withholds nothing, and changes nothing."""
    loop, lessons = copy.copy(loop), loop.lessons
    loop.options = replace(loop.options, learn=False)
    if isinstance(lessons, VectorLessonStore) and (credit := lessons.settings.credit) is not None:
        settings = replace(lessons.settings, credit=replace(credit, withholding=Withholding()))
        lessons = VectorLessonStore(lessons.store, settings=settings)
    loop.lessons = None if lessons is None else ReadOnly(lessons)
    return loop


def last_attempt(history: Sequence[Trial]) -> str:
    """Return an attempt as the arm ``last-attempt`` shows it: its steps and its output, and that it did not pass."""
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
    """Return the actions of all attempts as the arm ``tabu-retry`` shows them: each once, without what came of it."""
    actions = dict.fromkeys(step.action for trial in history for step in trial.attempt.steps)
    if not actions:
        return ""
    told = render_steps([Step(action=action) for action in actions], LAST_ATTEMPT_TOKENS)
    return (
        f"Your attempts at this task so far did not pass; try first what is not among their actions:\n{told}"
    )


_RECORDS: Final[Mapping[str, Callable[[Sequence[Trial]], str]]] = MappingProxyType(
    {"last-attempt": last_attempt, "tabu-retry": tried_actions}
)

# -- ways to recall, over a store of lessons that is left as it is


def _another_kind(decoy: Task) -> Filter:
    """Narrow a recall to lessons of other kinds than that of the task that a decoy stands for."""
    return {"task_kind": {"$ne": decoy.metadata[_NOT_KIND]}}


def _age(lesson: Lesson) -> tuple[float, int]:
    return (lesson.provenance.created_at, lesson.provenance.attempt)


class OverLessons:
    """A store that hands everything on to another one; ``options`` are those of :meth:`LessonStore.recall`."""

    def __init__(self, lessons: LessonStore) -> None:
        self.lessons = lessons

    async def recall(self, task: Task, **options: Any) -> Recall:  # noqa: ANN401
        """Recall from the store below."""
        return await self.lessons.recall(task, **options)

    async def record(self, task: Task, reflection: Reflection, *, provenance: Provenance) -> Lesson:
        """Store the lesson."""
        return await self.lessons.record(task, reflection, provenance=provenance)

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """Note the outcome."""
        return await self.lessons.outcome(recall_id, evaluation)


class OwnChain(OverLessons):
    """Offers the last k reflections of the task itself, the oldest first, as the paper's prompts have them."""

    async def recall(self, task: Task, **options: Any) -> Recall:  # noqa: ANN401
        """Return the task's last lessons in the order in which they were written."""
        recall = await super().recall(task, **options)
        return replace(recall, offered=tuple(sorted(recall.offered, key=lambda item: _age(item.lesson))))


class WholeBlock(OverLessons):
    """Offers every lesson, newest first: one block that all tasks share."""

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

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """A whole block has no recall to give credit to."""
        return False


class Placebo(OverLessons):
    """Offers lessons of another kind of task: as many words as the others get, and none that should help."""

    def __init__(self, lessons: LessonStore, tasks: Sequence[Task], *, seed: int) -> None:
        super().__init__(lessons)
        self._tasks = [task.public() for task in tasks]
        self._seed = seed

    async def recall(self, task: Task, **options: Any) -> Recall:  # noqa: ANN401
        """Return lessons recalled for a task of another kind (drawn by seed), less this task's kind."""
        others = [other for other in self._tasks if other.kind != task.kind]
        if not others:
            return Recall(uuid.uuid4().hex, task.id)
        decoy = random.Random(f"{self._seed}:{task.id}").choice(others)  # noqa: S311 - a draw, not a secret
        recall = await super().recall(replace(decoy, metadata={_NOT_KIND: task.kind}), **options)
        return replace(recall, task_id=task.id)


class ReadOnly(OverLessons):
    """Recalls from a store for loops that learn nothing, and leaves the credit of its lessons as it is."""

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """Note nothing."""
        return False


def beneath(lessons: LessonStore | None) -> VectorLessonStore | None:
    """Return the store of lessons beneath an arm's; None where there is none that can be looked into."""
    while isinstance(lessons, OverLessons):
        lessons = lessons.lessons
    return lessons if isinstance(lessons, VectorLessonStore) else None


async def first_written(
    lessons: VectorLessonStore, *, since: float, run_id: str = "", attempt: int = 0
) -> Lesson | None:
    """Return a lesson that was written since a time (seconds since 1970), by that attempt of a run where one is named.

    A lesson that was merged into another is not found; recording it again changes nothing then.
    """
    conditions: list[Filter] = [{"face": 0}, {"created_at": {"$gte": since}}]
    if run_id:
        conditions += [{"run_id": redact_id(run_id)}, {"attempt": attempt}]
    async with store_errors("look for a lesson"):
        page = await lessons.store.scan(filter={"$and": conditions}, limit=1)
    return lesson_of(page.chunks[0]) if page.chunks else None
