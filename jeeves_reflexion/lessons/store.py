"""The lesson store: lessons as embedded chunks of a vector store, and a ledger of what was recalled.

By default a lesson is found by the embedding of its task (``key="task"``): in ExpeL's ablation on ALFWorld, recall by
task beat recall by reasoning (Zhao et al. 2023, arXiv 2308.10144). All text is redacted before it is written, the
task's text included.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Self, TypeAlias, cast, get_args

import anyio

from jeeves_reflexion import telemetry
from jeeves_reflexion.callables import aside
from jeeves_reflexion.errors import LessonRefusedError, LessonStoreError, UnknownLessonError
from jeeves_reflexion.lessons.credit.effects import NO_DRAW, recall_key
from jeeves_reflexion.lessons.credit.ledger import Feedback, Ledger
from jeeves_reflexion.lessons.credit.records import swap
from jeeves_reflexion.lessons.credit.tally import Credits
from jeeves_reflexion.lessons.duplicates import EQUAL, claim_key, is_equal, supported
from jeeves_reflexion.lessons.filters import both, lesson_filter
from jeeves_reflexion.lessons.gate import CleanLesson, check_shape, clean, clean_prompt, clean_task
from jeeves_reflexion.lessons.history import SUPPORT, Change
from jeeves_reflexion.lessons.quarantine import Quarantine
from jeeves_reflexion.lessons.records import (
    ANY,
    FIRST_CHUNK,
    MERGED_INTO,
    MOST_TASKS,
    RECALLED,
    LessonPage,
    UnreadableLessonError,
    lesson_of,
)
from jeeves_reflexion.lessons.repository import FORGOTTEN, Repository, Revision, digest_of, store_errors
from jeeves_reflexion.lessons.retrieval import (
    credited,
    found_lessons,
    inactive_lessons,
    likeness_of,
    near_task,
    pick,
)
from jeeves_reflexion.lessons.settings import LessonSettings, checked_k
from jeeves_reflexion.lessons.traces import forget_traces
from jeeves_reflexion.redaction import redact_id
from jeeves_reflexion.session import logger
from jeeves_reflexion.types import (
    JSON,
    Evaluation,
    Lesson,
    LessonState,
    Provenance,
    Recall,
    RecalledLesson,
    Reflection,
    Task,
)
from vectorstores.base import ChangeFeed, ConflictError, Filter, RecordStore, VectorStore, VectorStoreError

_Found: TypeAlias = list[RecalledLesson]  # the class below has a method called list


class VectorLessonStore:
    """Lessons over any :class:`~vectorstores.base.VectorStore` that also keeps records.

    An error of the vector store is raised as :class:`LessonStoreError`, with the original error as its cause.
    """

    def __init__(self, store: VectorStore, *, settings: LessonSettings | None = None) -> None:
        self.settings = settings or LessonSettings()
        self.repository = Repository(
            store, key=self.settings.key, reader=self.settings.reader, screen=self.settings.screen
        )
        self.store = store
        self.records: RecordStore = self.repository.records
        self.ledger = Ledger(self.records)
        self.quarantine = Quarantine(self.repository)

    # -- in

    @telemetry.operation("upsert_memory")
    async def record(self, task: Task, reflection: Reflection, *, provenance: Provenance) -> Lesson:
        """Store the lesson of a reflection on ``task``; it is durable when this returns.

        If an equal lesson of the same scope (kind of task, agent, trust and writer) is stored already, its support
        grows, it is also found by ``task`` from now on, and it is the lesson returned.
        Raises :class:`LessonRefusedError` for a text that gives orders, and keeps the text in quarantine for review;
        :class:`ConfigurationError` for a text that is not a lesson.
        """
        if not provenance.created_at:
            provenance = replace(provenance, created_at=time.time())
        lesson = Lesson(
            id=uuid.uuid4().hex,
            text=reflection.lesson,
            task_id=task.id,
            task_excerpt=task.prompt,
            provenance=provenance,
            task_kind=task.kind,
            tools=task.tools,
            outcome=reflection.outcome,
            state="proposed" if self.settings.propose else "active",
            trust=self.settings.trust,
            evidence=reflection.evidence,
        )
        return await self.admit(lesson, [task.prompt], Change("learn"))

    async def add(self, text: str, task: str, *, kind: str | None = None, by: str = "") -> Lesson:
        """Store the advice of a person (``by``) for tasks like ``task``; raises as :meth:`record` does.

        No attempt taught such a lesson, so it has no score, and its run id is its own.
        """
        check_shape(text)
        source = Provenance(f"added-{uuid.uuid4().hex}", 0, None, agent=by or None)
        return await self.record(Task(task, kind=kind), Reflection(text), provenance=source)

    async def admit(self, lesson: Lesson, tasks: Sequence[str], change: Change) -> Lesson:
        """Store a lesson as :meth:`record` does, whoever wrote it; it is found by the texts of ``tasks``."""
        cleaned = await clean(lesson, tasks, screen=self.settings.screen)
        cleaned = replace(cleaned, lesson=self.repository.reader.signed(cleaned.lesson))
        async with store_errors("store the lesson"):
            if (finding := cleaned.finding) is not None:
                await self.quarantine.hold(cleaned, finding)
                message = f"the lesson was put into quarantine ({finding.kind}): {finding.why}"
                raise LessonRefusedError(message, cleaned.lesson.id)
            if self.settings.keep_copies:
                return await self.repository.put(cleaned, change)
            key = claim_key(cleaned.lesson)
            await self.repository.claim_all()
            while (held := await self.records.get(EQUAL, key)) is None:
                try:
                    return await self.repository.put(cleaned, change, must_be_new=True)
                except ConflictError:  # another writer stored an equal lesson a moment ago
                    if await self.records.get(EQUAL, key) is None:
                        raise
            kept = await self._supported(held.value, cleaned, change)
            if kept is None:
                kept = await self.repository.put(cleaned, change)
                await swap(self.records, EQUAL, key, lambda _: {"lesson_id": kept.id})
            return kept

    async def _supported(self, held: JSON, cleaned: CleanLesson, change: Change) -> Lesson | None:
        """Add to the support of the lesson that a record names.

        Returns None if that lesson is gone, unreadable or not equal, or if it has no room for another task.
        """
        repository, lesson = self.repository, cleaned.lesson

        async def revise() -> list[Revision]:
            stored = await repository.read(str(cast("Mapping[str, JSON]", held)["lesson_id"]))
            if stored is None or not is_equal(stored.lesson, lesson):
                return []
            passed = {stored.lesson.id}
            while stored is not None and MERGED_INTO in stored.lesson.metadata:
                into = str(stored.lesson.metadata[MERGED_INTO])
                stored = None if into in passed else await repository.read(into)
                passed.add(into)
            # A lesson that is found by its own text has no tasks.
            new = [task for task in cleaned.tasks if stored and stored.tasks and task not in stored.tasks]
            if stored is None or len(stored.tasks) + len(new) > MOST_TASKS:
                return []
            after = supported(stored.lesson, lesson, another_task=bool(new))
            # A task that a merge brought is named again: now an attempt at it has taught these words as well.
            taught = (
                [task for task in cleaned.tasks if task not in stored.tasks[:1]] if len(passed) == 1 else new
            )
            return [Revision(stored, after, Change(SUPPORT, change.reason, change.by), taught)]

        try:
            return next(iter(await repository.transact(revise, "the lesson that is learned again")), None)
        except UnknownLessonError:  # it was forgotten in the meantime
            return None
        except UnreadableLessonError as error:  # one bad row must not stop learning
            logger.warning("%s", error)
            return None

    # -- out

    @telemetry.operation("search_memory")
    async def recall(
        self, task: Task, *, k: int, run_id: str = "", attempt: int = 0, skip_run: str = ""
    ) -> Recall:
        """Return at most ``k`` lessons for an attempt of a run at the task, best first.

        The note of the recall becomes durable with the call of :meth:`outcome`, or else when this store is closed.
        A lesson that is found by two keys counts once. Lessons below the similarity floor or beyond the token budget
        are not offered, and offering none is a valid answer. ``left_out`` holds the lessons that were found but not
        offered, each with the reason, among them up to ``k`` of the nearest below the floor. Proposed and retired
        lessons are not looked for; :meth:`explain` lists them.
        """
        k = checked_k(k)
        # Lessons and the ledger store the task and the run under these redacted names.
        task, run_id, skip_run = clean_task(task), redact_id(run_id), redact_id(skip_run)
        where = lesson_filter(self.settings.where(task) if self.settings.where else None)
        where = both(where, {"run_id": {"$ne": skip_run}} if skip_run else None)
        credit, recall_id, draw, expected = self.settings.credit, uuid.uuid4().hex, NO_DRAW, None
        async with store_errors("recall lessons"):
            known = None if credit is None else await self.ledger.credits(max_age=credit.max_age)
            query = await aside(clean_prompt, task.prompt)
            found, left_out, harm = await self._chosen(task, query, where, k, known)
            for item in harm:
                make = partial(replace, state="retired", state_reason=item.lesson.state_reason)
                change = Change("retire", item.lesson.state_reason, "credit")
                with suppress(UnknownLessonError):  # somebody has just forgotten it
                    await self.repository.change(item.lesson.id, make, change)
                    left_out.append(item)
            if known is not None and credit is not None:
                key = recall_key(run_id or recall_id, attempt, task.id)
                draw = known.draw(credit.withholding, key, [item.lesson.id for item in found])
                expected = known.expected(task.id, task.kind)
            withheld = tuple(
                replace(item, reason=f"withheld by the draw; {item.reason}")
                for item in found
                if item.lesson.id in draw.withheld
            )
            offered = tuple(item for item in found if item.lesson.id not in draw.withheld)
            recall = Recall(recall_id, task.id, offered, withheld, tuple(left_out))
            await self.ledger.note_recall(
                recall, run_id=run_id, attempt=attempt, task_kind=task.kind, draw=draw, expected=expected
            )
        return recall

    async def explain(self, task: Task, *, k: int) -> Recall:
        """Return what :meth:`recall` would, without the draw, and write nothing.

        ``left_out`` also holds, each with its reason, up to ``k`` proposed or retired lessons, those that a recall
        would retire, and more of those that are not near enough.
        """
        k, task = checked_k(k), clean_task(task)
        where = lesson_filter(self.settings.where(task) if self.settings.where else None)
        async with store_errors("explain a recall"):
            known = None if self.settings.credit is None else await self.ledger.credits(max_age=0.0)
            query = await aside(clean_prompt, task.prompt)
            offered, left_out, harm = await self._chosen(task, query, where, k, known, widely=True)
            inactive = await inactive_lessons(self.repository, query, where, k=k)
        left_out += [replace(item, reason=f"to be {item.reason}") for item in harm]
        for each in inactive[:k]:
            if each.similarity >= self.settings.min_similarity:
                lift = None if known is None else known.lift(each.lesson.id)
                why = each.lesson.state if each.lesson.state == "retired" else "waits for review"
                reason = f": {each.lesson.state_reason}" if each.lesson.state_reason else ""
                left_out.append(replace(each, lift=lift).because(why + reason))
        return Recall("", task.id, tuple(offered), (), tuple(left_out))

    async def search(
        self, text: str, *, k: int = 5, where: Filter | None = None, state: LessonState | None = "active"
    ) -> _Found:
        """Return the ``k`` lessons nearest to a text, whatever their similarity; the ledger is not touched.

        ``state=None`` finds lessons of any state. ``where`` is a filter on metadata, such as
        ``{"task_kind": "geo", "tool": "search"}``. Lessons that are proposed because another principal wrote them are
        only looked for among the nearest ``4 * k`` keys.
        """
        k, narrowed = checked_k(k), lesson_filter(where)
        async with store_errors("search lessons"):
            query = await aside(clean_prompt, text)
            if state in ("proposed", "retired"):
                found = await inactive_lessons(self.repository, query, narrowed, k=k, states=(state,))
            else:
                within = both(RECALLED if state else ANY, narrowed)
                states = (state,) if state else get_args(LessonState)
                found = await found_lessons(self.repository, query, within, number=k, least=k, states=states)
        return [each.because("searched") for each in found[:k]]

    async def _chosen(
        self,
        task: Task,
        query: str,
        where: Filter | None,
        k: int,
        known: Credits | None,
        *,
        widely: bool = False,
    ) -> tuple[_Found, _Found, _Found]:
        """Return the lessons to recall, those found but left out, and those to retire because they do harm."""
        settings, floor, harm = self.settings, self.settings.min_similarity, list[RecalledLesson]()
        found = await near_task(self.repository, task, query, where, settings, k=k, widely=widely)
        if known is not None:
            found, harm = credited(found, known, settings)
        harms = {item.lesson.id for item in harm}
        near = [each for each in found if each.similarity >= floor and each.lesson.id not in harms]
        # Diversity only matters if not all of them fit.
        differ = settings.picking.diversity and k < len(near)
        likeness = await likeness_of(self.repository, near if differ else [])
        offered, left_out = pick(
            task, near, k=k, picking=settings.picking, likeness=likeness, order=settings.order
        )
        far = [each.because(f"below the floor of {floor:.2f}") for each in found if each.similarity < floor]
        return offered, left_out + far[:k], harm

    # -- what came of it

    async def outcome(
        self, recall_id: str, evaluation: Evaluation, *, by: str = "", reason: str = ""
    ) -> bool:
        """Note how the attempt went that a recall was for; ``by`` and ``reason`` are kept if given.

        The first verdict stays: a later call returns False and changes nothing. An unknown id is an error.
        """
        return await self.ledger.note_outcome(recall_id, evaluation, by=by, reason=reason)

    async def feedback(
        self,
        run_id: str,
        score: float,
        *,
        by: str = "",
        reason: str = "",
        attempt: int | None = None,
        task_id: str | None = None,
    ) -> Feedback:
        """Note a later score for a run's last attempt, or for the attempt named.

        It replaces the evaluator's verdict. A run that did several tasks needs ``task_id``.
        """
        return await self.ledger.note_feedback(
            run_id, score, by=by, reason=reason, attempt=attempt, task_id=task_id
        )

    # -- what is there

    async def list(
        self, *, after: str | None = None, limit: int = 100, where: Filter | None = None
    ) -> LessonPage:
        """Return one page of lessons, oldest first.

        ``where`` is a filter on their stored metadata, such as ``{"state": "proposed"}``.
        """
        async with store_errors("list lessons"):
            narrowed = both(FIRST_CHUNK, lesson_filter(where))
            page = await self.store.scan(filter=narrowed, after=after, limit=limit)
            lessons = tuple(self.repository.reader.seen(lesson_of(chunk)) for chunk in page.chunks)
            return LessonPage(lessons, page.next)

    async def get(self, lesson_id: str) -> Lesson | None:
        """Return a lesson by its id, or None."""
        async with store_errors("read a lesson"):
            lesson = await self.repository.get(lesson_id)
            return None if lesson is None else self.repository.reader.seen(lesson)

    async def count(self) -> int:
        """Count the lessons."""
        async with store_errors("count lessons"):
            return await self.store.count(filter=FIRST_CHUNK)

    async def changes(self) -> AsyncGenerator[None, None]:
        """Yield at once, and again after each write to the store by any process, so that a view can be read again.

        Writes close together yield once. Notes of recalls are writes too. If you stop early, close the generator
        (``contextlib.aclosing``). Raises :class:`LessonStoreError` if the store is closed or unreachable.
        """
        if not isinstance(self.store, ChangeFeed):
            raise LessonStoreError(f"{type(self.store).__name__} does not tell of changes")
        async with store_errors("wait for changes"), aclosing(self.store.changes()) as changes:
            async for _ in changes:
                yield

    async def forget(self, lesson_id: str) -> bool:
        """Remove a lesson from everywhere: its vectors and text, their cached embeddings, the ledger, other lessons.

        Only a digest of its id stays, which keeps a backup from bringing it back. Returns False if there was none.
        If its row can't be read, only what is stored under its id is removed, since what other lessons took from it is
        then unknown.
        """
        async with store_errors("forget a lesson"):
            dropped = await self.quarantine.drop(lesson_id)
            try:
                there = await forget_traces(self.repository, lesson_id)
            except UnreadableLessonError as error:
                if error.chunk_id.rpartition(":")[0] != lesson_id:
                    raise
                await self.records.append_once(FORGOTTEN, digest_of(lesson_id), {})
                there = False
        await self.ledger.forget(lesson_id)
        async with store_errors("forget a lesson"):
            # A concurrent change may have removed it already.
            return await self.repository.remove(lesson_id) or there or dropped

    async def close(self) -> None:
        """Write the notes of recalls that have no outcome, and close the vector store."""
        with anyio.CancelScope(shield=True):
            try:
                await self.ledger.write_recalls()
            except VectorStoreError as error:  # losing them changes no lesson and no verdict
                logger.warning("recalls without an outcome are not noted: %s", error)
            finally:
                await self.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
