"""The operations of clients, over stdio or HTTP: checked against their rights, with plain values as results.

A client is not the one who opened the store: its lessons are proposed under its name, and wait until a person approves
them.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Final, ParamSpec, TypeAlias, TypeVar

from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from pydantic import Field

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError, ReflexionError, UnknownLessonError
from jeeves_reflexion.lessons.curation import Curator
from jeeves_reflexion.lessons.gate import check_shape
from jeeves_reflexion.lessons.injection import render
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.lessons.store import VectorLessonStore
from jeeves_reflexion.mcp.tokens import Caller, Right
from jeeves_reflexion.mcp.values import (
    ChangeValue,
    Decided,
    Explained,
    Forgotten,
    HeldText,
    LessonStory,
    LessonValue,
    Recalled,
    Reported,
    SearchResult,
    Waiting,
    found_lessons,
    lesson_value,
    words_of,
)
from jeeves_reflexion.session import logger
from jeeves_reflexion.text import read_prompt
from jeeves_reflexion.types import Evaluation, Outcome, Provenance, Recall, Reflection, Task
from vectorstores.base import InvalidChunkError, VectorStoreError

P = ParamSpec("P")
T = TypeVar("T")

_MOST_TASK: Final = 20_000

TaskText: TypeAlias = Annotated[
    str, Field(description="What is asked, in words.", max_length=_MOST_TASK, pattern=r"\S")
]
Count: TypeAlias = Annotated[int, Field(description="How many at most.", ge=1, le=20)]
Kind: TypeAlias = Annotated[
    str | None, Field(description="The kind of task, such as 'migration'.", max_length=200)
]
ToolNames: TypeAlias = Annotated[
    tuple[Annotated[str, Field(max_length=200)], ...],
    Field(description="Names of the tools at hand.", max_length=100),
]
Namespace: TypeAlias = Annotated[
    str | None, Field(description="Whose lessons, if not your default.", max_length=200)
]
Score: TypeAlias = Annotated[float, Field(description="From 0 (failed) to 1 (done).", ge=0, le=1)]
LessonId: TypeAlias = Annotated[str, Field(max_length=64, pattern=r"\S")]
Words: TypeAlias = Annotated[str, Field(description="One sentence of advice.", max_length=2_000)]
Reason: TypeAlias = Annotated[str, Field(description="Why, in a few words.", max_length=2_000)]


def told(
    work: Callable[P, Awaitable[T]], kind: Callable[[str], Exception] = ToolError
) -> Callable[P, Awaitable[T]]:
    """Wrap ``work`` to raise errors that the client can act on as ``kind``; failures of the store stay general."""

    @functools.wraps(work)
    async def telling(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await work(*args, **kwargs)
        except UnknownLessonError as error:
            raise (ResourceNotFoundError if kind is ResourceError else kind)(str(error)) from error
        except ReflexionError as error:
            below = error.__cause__ if isinstance(error, LessonStoreError) else None
            if isinstance(below, VectorStoreError) and not isinstance(below, InvalidChunkError):
                # Its message names paths of this machine. An invalid chunk is the client's mistake, so it is shown.
                logger.warning("%s", error)
                raise kind("the lesson store can't be used just now: try again later") from error
            raise kind(str(error)) from error

    return telling


class LessonTools:
    """The operations of clients on the lessons of one address; ``caller`` returns the client of the current call.

    The public methods are the tools, resources and prompts of the server: clients read their signatures and docstrings.
    They raise :class:`~jeeves_reflexion.mcp.tokens.RightError`, :class:`~jeeves_reflexion.errors.ConfigurationError`
    for invalid arguments, and :class:`~jeeves_reflexion.errors.LessonStoreError`.
    """

    def __init__(self, lessons: VectorLessonStore, caller: Callable[[], Caller]) -> None:
        self._below = lessons.store
        # A client can't choose its own trust.
        self._settings = replace(lessons.settings, trust="shared", propose=True)
        self._caller = caller
        self._opened: dict[str, VectorLessonStore] = {}  # by namespace

    def _open(self, right: Right, namespace: str | None = None) -> VectorLessonStore:
        name = self._caller().namespace(right, namespace)
        if name not in self._opened:
            self._opened[name] = VectorLessonStore(self._below.scoped(name), settings=self._settings)
        return self._opened[name]

    def _curator(self, store: VectorLessonStore) -> Curator:
        return Curator(store.repository, by=self._caller().name)

    # -- reading

    async def recall_lessons(
        self,
        task: TaskText,
        k: Count = 3,
        kind: Kind = None,
        tools: ToolNames = (),
        namespace: Namespace = None,
    ) -> Recalled:
        """Recall what earlier attempts at tasks like this one taught. Keep the recall_id for report_outcome."""
        store = self._open("read", namespace)
        recall = await _recall(store, Task(task, kind=kind, tools=tools), k)
        return Recalled(recall_id=recall.id, lessons=found_lessons(store, recall.offered))

    async def why(
        self,
        task: TaskText,
        k: Count = 5,
        kind: Kind = None,
        tools: ToolNames = (),
        namespace: Namespace = None,
    ) -> Explained:
        """Show what a task would recall and what it would not, each with the reason. Nothing is noted."""
        store = self._open("read", namespace)
        recall = await store.explain(Task(task, kind=kind, tools=tools), k=k)
        offered, left_out = found_lessons(store, recall.offered), found_lessons(store, recall.left_out)
        return Explained(recalled=offered, left_out=left_out)

    async def search_lessons(self, text: TaskText, k: Count = 5, namespace: Namespace = None) -> SearchResult:
        """Find the active lessons nearest to a text, whatever their similarity."""
        store = self._open("read", namespace)
        return SearchResult(lessons=found_lessons(store, await store.search(text, k=k)))

    async def lesson(self, namespace: str, lesson_id: str) -> LessonStory:
        """One lesson with its tasks, its lift and every change."""
        store = self._open("read", namespace)
        lesson = await store.get(lesson_id)
        if lesson is None:
            raise UnknownLessonError(f"there is no lesson {lesson_id!r:.80}")
        history = await Curator(store.repository).history(lesson_id)
        known = await store.ledger.credits(max_age=0.0)
        stored = await store.repository.read(lesson_id)
        return LessonStory(
            lesson=lesson_value(store, lesson),
            tasks=stored.tasks if stored else (),
            lift=known.lift(lesson_id),
            history=tuple(
                ChangeValue(
                    number=each.number,
                    at=each.at,
                    operation=each.operation,
                    by=each.by,
                    reason=each.reason,
                    lesson=words_of(each.after),
                    state=each.after.state,
                )
                for each in history
            ),
        )

    async def begin_task(self, task: str) -> str:
        """Begin a task with the lessons of earlier attempts at tasks like it."""
        if not task.strip() or len(task) > _MOST_TASK:
            raise ConfigurationError(f"a task has from 1 to {_MOST_TASK:,} characters")
        recall = await _recall(self._open("read"), Task(task), 3)
        block = render([item.lesson for item in recall.offered]) or "(there are no lessons for this task yet)"
        words = read_prompt(None, __package__, "begin_task.md")
        return words.format(lessons=block, recall_id=recall.id, task=task)

    async def reflect(self, task: str, what_happened: str) -> str:
        """Look back at an attempt, and propose a lesson from it."""
        return read_prompt(None, __package__, "reflect.md").format(task=task, happened=what_happened)

    # -- proposing

    async def report_outcome(
        self, recall_id: LessonId, score: Score, reason: Reason = "", namespace: Namespace = None
    ) -> Reported:
        """Say how the task went that lessons were recalled for, once: so it becomes known which lessons help."""
        store = self._open("propose", namespace)
        by = self._caller().name
        counted = await store.outcome(recall_id, Evaluation(score), by=by, reason=reason)
        return Reported(counted=counted)

    async def propose_lesson(
        self,
        task: TaskText,
        lesson: Words,
        outcome: Outcome = "failed",
        score: Annotated[float | None, Field(ge=0, le=1)] = None,
        kind: Kind = None,
        tools: ToolNames = (),
        namespace: Namespace = None,
    ) -> LessonValue:
        """Propose one sentence that would help with tasks like this one; a person decides whether it is recalled."""
        store = self._open("propose", namespace)
        check_shape(lesson)
        asked, said = Task(task, kind=kind, tools=tools), Reflection(lesson, outcome=outcome)
        source = Provenance(uuid.uuid4().hex, 0, score, agent=self._caller().name)
        return lesson_value(store, await store.record(asked, said, provenance=source))

    # -- reviewing

    async def waiting(self) -> Waiting:
        """What waits for a decision: proposed lessons, and texts in quarantine, which are not to be followed."""
        proposed, held = list[LessonValue](), list[HeldText]()
        for namespace in self._caller().namespaces:
            store = self._open("review", namespace)
            found = await Curator(store.repository).waiting()
            proposed += [lesson_value(store, each) for each in found.proposed]
            held += [
                HeldText(
                    id=each.id,
                    namespace=namespace,
                    text=each.lesson.text,
                    kind=each.kind,
                    why=each.why,
                    by=each.lesson.provenance.agent,
                )
                for each in found.held
            ]
        return Waiting(proposed=tuple(proposed), quarantine=tuple(held))

    async def approve(self, lesson_id: LessonId, reason: Reason = "", namespace: Namespace = None) -> Decided:
        """Let a proposed lesson, or a text in quarantine, be recalled. For reviewers."""
        store = self._open("review", namespace)
        approved = await self._curator(store).approve(lesson_id, reason=reason)
        return Decided(lesson=lesson_value(store, approved))

    async def retire(self, lesson_id: LessonId, reason: Reason, namespace: Namespace = None) -> Decided:
        """Recall a lesson no more, for a reason; a text in quarantine is thrown away. For reviewers."""
        store = self._open("review", namespace)
        if not reason.strip():
            raise ConfigurationError("a lesson is retired for a reason: say which")
        if await store.quarantine.get(lesson_id) is not None:
            await self._curator(store).reject(lesson_id, reason=reason)
            return Decided(lesson=None)
        retired = await self._curator(store).retire(lesson_id, reason=reason)
        return Decided(lesson=lesson_value(store, retired))

    async def edit(
        self, lesson_id: LessonId, lesson: Words, reason: Reason = "", namespace: Namespace = None
    ) -> Decided:
        """Say a lesson in other words. For reviewers."""
        store = self._open("review", namespace)
        edited = await self._curator(store).edit(lesson_id, lesson, reason=reason)
        return Decided(lesson=lesson_value(store, edited))

    async def forget(self, lesson_id: LessonId, namespace: Namespace = None) -> Forgotten:
        """Remove a lesson for good, from everywhere. For reviewers."""
        return Forgotten(forgotten=await self._open("review", namespace).forget(lesson_id))


async def _recall(store: VectorLessonStore, task: Task, k: int) -> Recall:
    """Recall, and write the recall before the answer: its outcome may be reported through another server."""
    recall = await store.recall(task, k=k)
    async with store_errors("note a recall"):
        await store.ledger.write_recalls()
    return recall
