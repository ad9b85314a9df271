"""The lesson store: lessons as embedded chunks of a vector store, and a ledger of what was recalled.

The task is embedded and the lesson stored (``key="task"``): ExpeL's ablation on ALFWorld found recall by task ahead
of recall by reasoning (Zhao et al. 2023, arXiv 2308.10144). Everything written is redacted first, the task's text too.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Self, TypeAlias, cast

from jeeves_reflexion.callables import aside
from jeeves_reflexion.errors import ConfigurationError, LessonRefusedError, UnknownLessonError
from jeeves_reflexion.lessons.credit.effects import NO_DRAW, Draw, freshness, recall_key
from jeeves_reflexion.lessons.credit.ledger import Feedback, Ledger
from jeeves_reflexion.lessons.credit.tally import Credits
from jeeves_reflexion.lessons.deciding import Decision, decide, unsettled
from jeeves_reflexion.lessons.forgetting import forget_traces
from jeeves_reflexion.lessons.gate import clean_fields, clean_lesson, clean_prompt, clean_task
from jeeves_reflexion.lessons.joining import join_copies
from jeeves_reflexion.lessons.lexical import WordSearch
from jeeves_reflexion.lessons.likeness.comparing import alike
from jeeves_reflexion.lessons.merging import MERGED_INTO, MergeSettings, absorbed, linked
from jeeves_reflexion.lessons.narrowing import Narrowing, narrowing
from jeeves_reflexion.lessons.quarantine import Quarantine
from jeeves_reflexion.lessons.recalling import Candidate, below_floor, pick
from jeeves_reflexion.lessons.records import RECALLED, UnreadableLessonError, one_each, readable
from jeeves_reflexion.lessons.sameness import Neighbour
from jeeves_reflexion.lessons.screening.screens import screened
from jeeves_reflexion.lessons.settings import Credit, LessonSettings, checked_k
from jeeves_reflexion.lessons.shelf import TRIES, Change, LessonPage, Shelf, store_errors
from jeeves_reflexion.lessons.telling import Telling
from jeeves_reflexion.lessons.together import MOST_TASKS
from jeeves_reflexion.models.advice import read_lesson
from jeeves_reflexion.redaction import redact_id
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import Evaluation, Lesson, Provenance, Recall, RecalledLesson, Reflection, Task
from vectorstores.base import ConflictError, RecordStore, VectorStore

_Found: TypeAlias = list[RecalledLesson]  # the class below has a method called list

EXCERPT_CHARACTERS = 200
TWINS = 5
"""So many lessons nearest to a newcomer's text are looked at to see whether it is a copy."""
POOL = 4
"""So many times k lessons are looked at to pick k of them."""
_LESS_FACES = 0.98
"""How much of the number of hits that one lesson needs is remembered from one search to the next."""


def _brought(decision: Decision, queries: Sequence[str]) -> Sequence[str]:
    """The tasks by which a lesson is recalled from a merge on; the first is the newcomer's own."""
    return queries if decision.keeps_task else queries[1:]


class VectorLessonStore:
    """Lessons over any :class:`~vectorstores.base.VectorStore` that also keeps records.

    Every error of the store below is raised as :class:`LessonStoreError` with that error as its cause.
    """

    def __init__(self, store: VectorStore, *, settings: LessonSettings | None = None) -> None:
        self.settings = settings or LessonSettings()
        self.shelf = Shelf(
            store, key=self.settings.key, reader=self.settings.reader, screen=self.settings.screen
        )
        self.store = store
        self.records: RecordStore = self.shelf.records
        self.ledger = Ledger(self.records)
        self.quarantine = Quarantine(self.shelf)
        self._words = WordSearch(store)
        # Whoever changes lessons does it through a shelf: a curator of this process is told of as well.
        self.shelf.store = cast("VectorStore", Telling(store, self._words))
        self._faces = 1.0

    async def record(self, task: Task, reflection: Reflection, *, provenance: Provenance) -> Lesson:
        """Store the lesson of a reflection on ``task``; durable when it returns.

        One that says what a lesson of a near-identical task says already is merged into that one, which is returned.
        Stored lessons that turn out to be copies by that, as it keeps the newcomer's wording, are merged too.
        Raises :class:`LessonRefusedError` for a text that gives orders, and keeps it apart for review.
        """
        if not provenance.created_at:
            provenance = replace(provenance, created_at=time.time())
        text = await aside(clean_lesson, reflection.lesson)
        if not read_lesson(text, one_sentence=False):
            kind = f"that gives no advice ({abridge(text, 80)})" if text else "without words"
            raise ConfigurationError(f"a lesson {kind} can't be stored")
        query = await aside(clean_prompt, task.prompt)
        lesson = Lesson(
            id=uuid.uuid4().hex,
            text=text,
            task_id=task.id,
            task_excerpt=abridge(query, EXCERPT_CHARACTERS),
            provenance=provenance,
            task_kind=task.kind,
            tools=task.tools,
            outcome=reflection.outcome,
            state="proposed" if self.settings.propose else "active",
            trust=self.settings.trust,
            evidence=reflection.evidence,
        )
        async with store_errors("store the lesson"):
            return await self.admit(clean_fields(lesson), [query], Change("learn"), said=reflection.lesson)

    async def admit(
        self, lesson: Lesson, queries: Sequence[str], change: Change, *, said: str | None = None
    ) -> Lesson:
        """Store a lesson that is clean and redacted; ``queries`` are the texts of its tasks, redacted too.

        ``said`` is what it was before it was cleaned: what was hidden in it is a reason not to let it in.
        """
        lesson = self.shelf.reader.signed(lesson)
        finding = await screened(lesson.text, self.settings.screen, said=said)
        if finding is not None:
            await self.quarantine.hold(lesson, queries, kind=finding.kind, why=finding.why)
            message = f"the lesson was put into quarantine ({finding.kind}): {finding.why}"
            raise LessonRefusedError(message, lesson.id)
        merging = self.settings.merging
        if merging is None:
            await self.shelf.put(lesson, queries, change)
        else:
            lesson = await self._merged(lesson, queries, change, merging)
        return lesson

    async def recall(
        self, task: Task, *, k: int, run_id: str = "", attempt: int = 0, skip_run: str = ""
    ) -> Recall:
        """Return at most ``k`` lessons for an attempt of a run at the task, best first, and note the recall.

        A lesson found by two keys counts once; nothing below the similarity floor or beyond the token budget is
        offered, and offering nothing is a valid answer. ``left_out`` holds what was found and not offered, with the
        reason, and up to ``k`` of the nearest below the floor; of lessons that are proposed or retired already only
        :func:`~jeeves_reflexion.lessons.explaining.explain` knows, which looks for them.
        """
        k = checked_k(k)
        # By these names lessons and the ledger know the task and the run.
        task, run_id, skip_run = clean_task(task), redact_id(run_id), redact_id(skip_run)
        where = narrowing(self.settings.where(task) if self.settings.where else None)
        if skip_run:
            where = where.within({"run_id": {"$ne": skip_run}})
        async with store_errors("recall lessons"):
            query = await aside(clean_prompt, task.prompt)
            found, below = await self._found(query, POOL * k, where)
            retired: _Found = []
            if self.settings.credit is not None and found:
                found, retired = await self._credited(found, self.settings.credit)
            offered, left_out = pick(task, found, k=k, picking=self.settings.picking, alike=alike)
            recall, draw = await self._drawn(task, offered, [*left_out, *retired], run_id, attempt)
            await self.ledger.note_recall(
                recall, run_id=run_id, attempt=attempt, task_kind=task.kind, draw=draw
            )
            too_far = await self._too_far(below[:k])
        return replace(recall, left_out=(*recall.left_out, *too_far))

    async def search(self, text: str, *, k: int = 5) -> _Found:
        """Return the ``k`` lessons nearest to a text, whatever their similarity; the ledger is not touched."""
        k = checked_k(k)
        async with store_errors("search lessons"):
            query = await aside(clean_prompt, text)
            found = await self._nearest(query, k, Narrowing(), floor=-1.0)
        return [RecalledLesson(each.lesson, each.similarity, "searched") for each in found]

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """Note how the attempt went that a recall was for.

        Once, whatever happens: a later call returns False and changes nothing. An unknown id is an error.
        """
        return await self.ledger.note_outcome(recall_id, evaluation)

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
        """Note what someone says later of a run's last attempt, or of the one named.

        It counts instead of the evaluator's verdict. A run that did several tasks needs ``task_id``.
        """
        return await self.ledger.note_feedback(
            run_id, score, by=by, reason=reason, attempt=attempt, task_id=task_id
        )

    async def list(self, *, after: str | None = None, limit: int = 100) -> LessonPage:
        """Return lessons in the order in which they were written, a page at a time."""
        async with store_errors("list lessons"):
            page = await self.shelf.page(after=after, limit=limit)
            return replace(page, lessons=tuple(map(self.shelf.reader.seen, page.lessons)))

    async def get(self, lesson_id: str) -> Lesson | None:
        """Return a lesson by its id, or None."""
        async with store_errors("read a lesson"):
            lesson = await self.shelf.get(lesson_id)
            return None if lesson is None else self.shelf.reader.seen(lesson)

    async def count(self) -> int:
        """Count the lessons."""
        async with store_errors("count lessons"):
            return await self.shelf.count()

    async def forget(self, lesson_id: str) -> bool:
        """Remove a lesson from everywhere: its vectors and text, their cached embeddings, the ledger, other lessons.

        What stays is a digest of its id, by which a backup that has it is known. Returns False if there was none.
        Of a lesson whose row does not fit, only what is under its id goes: what others took from it can't be told.
        """
        async with store_errors("forget a lesson"):
            held = await self.quarantine.get(lesson_id)
            once = None if held is None else (held.lesson, held.queries)
            try:
                there = await forget_traces(self.shelf, lesson_id, once=once)
            except UnreadableLessonError as error:
                if not error.concerns(lesson_id):
                    raise
                there = await self.shelf.remove_unreadable(lesson_id)
        await self.ledger.forget(lesson_id)
        async with store_errors("forget a lesson"):
            dropped = await self.quarantine.drop(lesson_id)
            # A change that came in between has removed it already.
            return await self.shelf.remove(lesson_id) or there or dropped

    async def close(self) -> None:
        """Close the store below."""
        await self.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _found(
        self, query: str, number: int, where: Narrowing
    ) -> tuple[Sequence[Candidate], Sequence[Candidate]]:
        """What is near enough to be offered, and the nearest of what is not."""
        floor = self.settings.min_similarity
        nearest = await self._nearest(query, number, where, floor=floor)
        found = [each for each in nearest if each.similarity >= floor]
        below = nearest[len(found) :]
        if self.settings.picking.strategy != "hybrid":
            return found, below
        words = await self._words.search(query, k=number)
        missing = list(words.keys() - {each.lesson.id for each in nearest})
        if missing:
            narrowed = where.within({"lesson_id": {"$in": missing}})
            others = await self._nearest(query, len(missing), narrowed, floor=floor)
            found = [*found, *(each for each in others if each.similarity >= floor)]
        return [replace(each, words=words.get(each.lesson.id, 0.0)) for each in found], below

    async def _nearest(
        self, query: str, number: int, where: Narrowing, *, floor: float
    ) -> Sequence[Candidate]:
        """The nearest lessons: so many, or all that are not below the floor and some that are."""
        narrowed = where.within(RECALLED).asked
        # Most lessons have one such face, some have several: as many hits are asked for as were needed lately.
        wanted = max(number, round(number * self._faces))
        while True:
            hits = await self.store.search(query, k=wanted, filter=narrowed)
            near = one_each([hit for hit in hits if where.admits(hit.chunk.metadata)])
            # What a writer says of its own lesson counts for nothing: this reader decides whether it is advice.
            seen = [(hit, self.shelf.reader.seen(lesson)) for hit, lesson in readable(near)]
            found = [(hit, lesson) for hit, lesson in seen if lesson.state == "active"][:number]
            if len(found) == number or len(hits) < wanted or hits[-1].score < floor:
                break
            wanted *= 2
        if len(found) == number:
            needed = next(at for at, hit in enumerate(hits, 1) if hit is found[-1][0])
            self._faces = max(_LESS_FACES * self._faces, needed / number)
        return [Candidate(lesson, hit.score) for hit, lesson in found]

    async def _merged(
        self, lesson: Lesson, queries: Sequence[str], change: Change, merging: MergeSettings
    ) -> Lesson:
        """Store a newcomer, or what it makes of the lesson that it is a copy of."""
        for left in reversed(range(TRIES)):
            # Before its equals are looked for; that there is none is the usual case, which takes no reading.
            claim = await self.shelf.claim(lesson, again=left < TRIES - 1)
            decision, near = await self._decided(lesson, queries, merging)
            if decision.kind == "merge" and left and not await self._is_full(decision, queries):
                kept = await self._absorbed(lesson, queries, decision, change.by)
                if kept is not None:
                    return await join_copies(self.shelf, kept, near, merging, by=change.by)
                continue
            if decision.kind == "merge":
                decision = Decision("new", lesson, "its copy has no room for its tasks, or keeps changing")
            try:
                await self.shelf.put(decision.lesson, queries, change, claim=claim)
                break
            except ConflictError:
                if not left or await self.records.get(claim.collection, claim.key) is None:
                    raise
        for other in decision.others:
            with contextlib.suppress(UnknownLessonError):
                contradicted = Change("contradicted", decision.reason, change.by)
                await self.shelf.change(other, lambda now: linked(now, lesson.id), contradicted)
        return decision.lesson

    async def _is_full(self, decision: Decision, queries: Sequence[str]) -> bool:
        """Whether the lesson decided on can't be recalled by all tasks of a newcomer that brings several along."""
        if len(queries) == 1:
            return False
        own = await self.shelf.queries_of(decision.lesson.id)
        return bool(own) and len({*own, *_brought(decision, queries)}) > MOST_TASKS

    async def _decided(
        self, lesson: Lesson, queries: Sequence[str], merging: MergeSettings
    ) -> tuple[Decision, Sequence[Neighbour]]:
        found = await self.shelf.like(lesson.text, k=TWINS, min_similarity=merging.min_similarity)
        near = [Neighbour(each, score) for each, score in found]
        if open_ones := unsettled(lesson, near, merging):
            tasks = await self.shelf.task_similarities(queries[0], open_ones)
            near = [replace(each, task_similarity=tasks.get(each.lesson.id)) for each in near]
        return decide(lesson, near, merging), near

    async def _absorbed(
        self, lesson: Lesson, queries: Sequence[str], decision: Decision, by: str
    ) -> Lesson | None:
        """Merge a newcomer into the lesson decided on; None if that was forgotten, or merged into another, since."""

        def make(now: Lesson) -> Lesson | None:
            if MERGED_INTO in now.metadata:
                return None
            return absorbed(now, lesson, another_task=decision.keeps_task, settings=self.settings.merging)

        with contextlib.suppress(UnknownLessonError):
            kept = await self.shelf.change(
                decision.lesson.id,
                make,
                Change("copy", decision.reason, by),
                queries=_brought(decision, queries),
            )
            return None if MERGED_INTO in kept.metadata else kept
        return None

    async def _too_far(self, below: Sequence[Candidate]) -> _Found:
        credit, reason = self.settings.credit, below_floor(self.settings.min_similarity)
        known = await self.ledger.credits(max_age=credit.max_age) if credit is not None and below else None
        return [
            RecalledLesson(
                each.lesson, each.similarity, reason, None if known is None else known.lift(each.lesson.id)
            )
            for each in below
        ]

    async def _credited(
        self, found: Sequence[Candidate], credit: Credit
    ) -> tuple[Sequence[Candidate], _Found]:
        """What was found with its credit, and apart from it what is retired now for the harm it does."""
        known, now = await self.ledger.credits(max_age=credit.max_age), time.time()
        kept: list[Candidate] = []
        retired: _Found = []
        for each in found:
            lift = known.lift(each.lesson.id)
            verdict = known.judge(each.lesson.id)
            if credit.retire and verdict.kind == "retire":
                lesson = await self._retire(each.lesson, verdict.reason)
                retired.append(RecalledLesson(lesson, each.similarity, f"retired: {verdict.reason}", lift))
            else:
                utility = _utility(known, each.lesson.id, now, credit.half_life_days)
                kept.append(replace(each, lift=lift, utility=utility))
        return kept, retired

    async def _retire(self, lesson: Lesson, reason: str) -> Lesson:
        return await self.shelf.change(
            lesson.id,
            lambda now: replace(now, state="retired", state_reason=reason),
            Change("retire", reason, "credit"),
        )

    async def _drawn(
        self, task: Task, offered: _Found, left_out: _Found, run_id: str, attempt: int
    ) -> tuple[Recall, Draw]:
        """The recall, as an experiment where that is asked for."""
        recall_id = uuid.uuid4().hex
        draw = NO_DRAW
        if self.settings.credit is not None:
            key = recall_key(run_id or recall_id, attempt, task.id)
            known = await self.ledger.credits(max_age=self.settings.credit.max_age)
            # What is shown to help is not withheld any more.
            draw = known.draw(self.settings.credit.withholding, key, [item.lesson.id for item in offered])
        withheld = tuple(
            replace(item, reason=f"withheld by the draw; {item.reason}")
            for item in offered
            if item.lesson.id in draw.withheld
        )
        left = tuple(item for item in offered if item.lesson.id not in draw.withheld)
        return Recall(recall_id, task.id, left, withheld, tuple(left_out)), draw


def _utility(known: Credits, lesson_id: str, now: float, half_life_days: float) -> float:
    """What a lesson is worth beyond what any lesson of the library is; the older the news, the less it weighs."""
    idle = known.idle(lesson_id, now)
    fresh = 1.0 if idle is None else freshness(idle, half_life_days=half_life_days)
    return (known.utility(lesson_id) - known.prior.mean) * fresh
