"""The ledger: which lessons were recalled for which attempt, how it went, and the sums of that.

Entries hold ids and numbers, no text of a lesson or task. No counter is updated in place: credit is the sum over an
append-only log of verdicts, so any number of processes may write, crash and read at once, and each outcome counts once.
Collections: ``recalls`` (by recall id), ``run <id>`` (the recalls of a run) and ``outcomes`` (verdicts: an attempt's
first by its recall id, later ones by ``<recall id>:<n>``). A recall is noted in memory and written in one transaction
with its outcome, so the attempt does not wait for it. A recall without an outcome is written before this process reads
runs, when ``_MOST_UNWRITTEN`` wait, and when the store is closed.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias, cast

import anyio

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons.credit.effects import NO_DRAW, Draw
from jeeves_reflexion.lessons.credit.records import each_record, swap
from jeeves_reflexion.lessons.credit.tally import SETTLE_SECONDS, Credits, VerdictReader
from jeeves_reflexion.lessons.credit.verdicts import (
    OUTCOMES,
    RECALLS,
    Verdict,
    counting_of,
    entry_of,
)
from jeeves_reflexion.lessons.repository import FORGOTTEN, digest_of, store_errors
from jeeves_reflexion.redaction import redact, redact_id
from jeeves_reflexion.session import logger
from jeeves_reflexion.text import one_line
from jeeves_reflexion.types import JSON, Evaluation, Recall
from vectorstores.base import ConflictError, InvalidChunkError, RecordStore, RecordWrite, VectorStore

MAX_AGE: Final = 5.0
"""How old credits may be by default, in seconds."""

_NAMING: Final[Mapping[str, Sequence[str]]] = {
    RECALLS: ("offered", "withheld", "left_out", "exempt", "shares"),
    OUTCOMES: ("with", "without", "exempt", "shares"),
}
"""The fields of entries that list lessons."""
_FORMAT: Final = 2
_MOST_VERDICTS: Final = 1000
_TURN: Final = 0.005
_MOST_UNWRITTEN: Final = 32
Entry: TypeAlias = Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class RunRecall:
    """One recall of a run: for which attempt of which task."""

    recall_id: str
    attempt: int
    task_id: str


@dataclass(frozen=True, slots=True)
class Feedback:
    """Feedback as it was noted: its recall and attempt, and the score that counted before, if any."""

    recall_id: str
    attempt: int
    task_id: str
    score: float
    before: float | None


class Ledger:
    """Notes recalls and outcomes in a record store, and computes each lesson's credit.

    An error of the store is raised as :class:`LessonStoreError`, with the original error as its cause.
    ``settle_seconds`` is how long a record may take from its first try to its commit, differences of clocks included.
    Younger records are read again, since stores such as PostgreSQL number a record before it becomes visible.
    """

    def __init__(
        self,
        records: RecordStore,
        clock: Callable[[], float] = time.time,
        *,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        self.records = records
        self._clock = clock
        self._reader = VerdictReader(records, clock, settle_seconds)
        self._turn = threading.Lock()
        self._credits: Credits | None = None
        self._read_at = 0.0
        self._writing = False
        self._unwritten: dict[str, tuple[RecordWrite, ...]] = {}  # notes of recalls, by recall id

    # -- what happened -------------------------------------------------------------------------------------------

    async def note_recall(
        self,
        recall: Recall,
        *,
        run_id: str = "",
        attempt: int = 0,
        task_kind: str | None = None,
        draw: Draw = NO_DRAW,
        expected: float | None = None,
    ) -> None:
        """Note a recall once, and in the index of its run if it has one; ``draw`` decided what was withheld.

        ``expected`` is the score that the attempt is expected to get, if known. Ids must be redacted already.
        ``recall.left_out`` is not noted, because the attempt never depended on it.
        """
        entry: dict[str, JSON] = {
            "format": _FORMAT,
            "task_id": recall.task_id,
            "task_kind": task_kind,
            "run_id": run_id,
            "attempt": attempt,
            "at": self._clock(),
            "draw": {"share": draw.share, "whole_share": draw.whole_share, "whole": draw.whole},
            "exempt": sorted(draw.exempt),
        }
        for part, found in (("offered", recall.offered), ("withheld", recall.withheld)):
            entry[part] = [
                {"lesson_id": item.lesson.id, "similarity": item.similarity, "reason": item.reason}
                for item in found
            ]
        if expected is not None:
            entry["expected"] = expected
        if draw.shares:
            entry["shares"] = [{"lesson_id": each, "share": share} for each, share in draw.shares.items()]
        mine: JSON = {
            "recall_id": recall.id,
            "attempt": attempt,
            "task_id": recall.task_id,
            "at": entry["at"],
        }
        index = (RecordWrite(f"run {run_id}", recall.id, mine),) if run_id else ()
        self._unwritten.setdefault(recall.id, (RecordWrite(RECALLS, recall.id, entry), *index))
        # Of many concurrent recalls one writes what waits; the others go on.
        if len(self._unwritten) > _MOST_UNWRITTEN and not self._writing:
            self._writing = True
            try:
                async with store_errors("note a recall"):
                    while len(self._unwritten) > _MOST_UNWRITTEN:  # others came while it wrote
                        await self.write_recalls()
            finally:
                self._writing = False

    async def write_recalls(self) -> None:
        """Write all unwritten notes of recalls; one that the store can't hold is dropped with a warning."""
        waiting = tuple(self._unwritten)
        try:
            await self._write(waiting)
        except InvalidChunkError:
            # A recall with an id that can't be stored must not keep the others from being written.
            for recall_id in waiting:
                try:
                    await self._write([recall_id])
                except InvalidChunkError as error:
                    self._unwritten.pop(recall_id, None)
                    logger.warning("a recall is not noted: %s", error)

    async def _write(self, recall_ids: Sequence[str], *more: RecordWrite) -> None:
        """Write the notes of recalls that are not written yet, and ``more``, in one transaction."""
        noted = {each: self._unwritten[each] for each in recall_ids if each in self._unwritten}
        writes = [*itertools.chain(*noted.values()), *more]
        if not writes:
            return
        # The record store of lessons is also their vector store.
        await cast("VectorStore", self.records).add([], records=writes)
        # Another process may have forgotten a lesson, and struck it from the ledger, while these notes waited here.
        if noted and (await self.records.scan_records(FORGOTTEN, limit=1)).records:  # few stores have any
            recalls = [cast("Mapping[str, Sequence[JSON]]", notes[0].value) for notes in noted.values()]
            items = [item for recall in recalls for part in _NAMING[RECALLS] for item in recall.get(part, ())]
            for lesson_id in {str(_id_of(item)) for item in items}:
                if await self.records.get(FORGOTTEN, digest_of(lesson_id)) is not None:
                    await self._strike(lesson_id)
        # Last, so that after a cancellation the notes are written and checked again.
        for recall_id in noted:
            self._unwritten.pop(recall_id, None)

    async def note_outcome(
        self, recall_id: str, evaluation: Evaluation, *, by: str = "", reason: str = ""
    ) -> bool:
        """Note the evaluator's verdict on the attempt that a recall was for; ``by`` and ``reason`` if given.

        Only the first verdict is noted: a later call returns False and changes nothing. An evaluation that is not
        ``scored`` is not noted either (False), and a scored one may follow. Feedback that came first stays in force.
        Raises :class:`LessonStoreError` for an unknown recall.
        """
        async with store_errors("note an outcome"):
            notes = self._unwritten.get(recall_id)
            recall = cast("Entry", notes[0].value) if notes else await self._recall(recall_id)
            if not evaluation.scored:
                await self._write([recall_id])
                return False
            score = float(evaluation.passed or 0) if evaluation.score is None else evaluation.score
            at, by, reason = self._clock(), one_line(redact(by)), one_line(redact(reason))
            verdict = Verdict("evaluator", score, passed=evaluation.passed, at=at, by=by, reason=reason)
            return await self._append(recall_id, recall, verdict) is not None

    async def note_feedback(
        self,
        run_id: str,
        score: float,
        *,
        by: str,
        reason: str = "",
        attempt: int | None = None,
        task_id: str | None = None,
    ) -> Feedback:
        """Note a later score for a run's last attempt, or for the attempt named.

        It counts instead of the evaluator's verdict and of earlier feedback; all of them are kept. A run that did
        several tasks needs ``task_id``. Raises :class:`LessonStoreError` for an unknown run, task or attempt,
        :class:`ConfigurationError` for a score outside [0, 1].
        """
        if not 0.0 <= score <= 1.0:
            raise ConfigurationError(f"score must lie in [0, 1], not {score}")
        run_id, task_id = redact_id(run_id), None if task_id is None else redact_id(task_id)
        async with store_errors("note feedback"):
            # Here, though reading the run does it too: a failure to write must not be told as one to read.
            await self.write_recalls()
            found = _pick(run_id, await self.run(run_id), attempt, task_id)
            recall = await self._recall(found.recall_id)
            at, by, reason = self._clock(), one_line(redact(by)), one_line(redact(reason))
            verdict = Verdict("feedback", score, at=at, by=by, reason=reason)
            noted = await self._append(found.recall_id, recall, verdict)
        return Feedback(
            found.recall_id, found.attempt, found.task_id, score, None if noted is None else noted.before
        )

    async def run(self, run_id: str) -> tuple[RunRecall, ...]:
        """Return the recalls of a run by their attempts, then by their times; none for an unknown run."""
        run_id = redact_id(run_id)
        async with store_errors("read a run"):
            await self.write_recalls()
            rows = [cast("Entry", each.value) async for each in each_record(self.records, f"run {run_id}")]
        # Notes are written with their outcomes, in any order. Earlier versions noted no time here.
        rows.sort(key=lambda row: (cast("int", row["attempt"]), cast("float", row.get("at", 0.0))))
        return tuple(
            RunRecall(str(row["recall_id"]), cast("int", row["attempt"]), str(row["task_id"])) for row in rows
        )

    # -- what it adds up to --------------------------------------------------------------------------------------

    async def credits(self, *, max_age: float = MAX_AGE) -> Credits:
        """Return what is known of each lesson's effect, at most ``max_age`` seconds old (0: as of now)."""
        while not self._turn.acquire(blocking=False):
            if max_age > 0 and self._credits is not None:
                return self._credits
            await anyio.sleep(_TURN)
        try:
            if self._credits is None or time.monotonic() - self._read_at >= max_age:
                async with store_errors("read the ledger"):
                    self._credits = await self._reader.credits()
                self._read_at = time.monotonic()
            return self._credits
        finally:
            self._turn.release()

    async def forget(self, lesson_id: str) -> int:
        """Strike a lesson from all entries and return how many changed. The attempts still count for others."""
        async with store_errors("strike a lesson from the ledger"):
            await self.write_recalls()
            struck = await self._strike(lesson_id)
            self._reader.drop(lesson_id)
        self._credits = None
        return struck

    # -- how -----------------------------------------------------------------------------------------------------

    async def _strike(self, lesson_id: str) -> int:
        struck = 0
        for collection, parts in _NAMING.items():  # recalls first: verdicts take the lessons from them
            change = partial(_without, lesson_id=lesson_id, parts=parts)
            async for record in each_record(self.records, collection):
                if change(record.value) is not None:
                    struck += await swap(self.records, collection, record.key, change)
        return struck

    async def _recall(self, recall_id: str) -> Entry:
        record = await self.records.get(RECALLS, recall_id)
        if record is None or not isinstance(record.value, Mapping) or "draw" not in record.value:
            raise LessonStoreError(f"there is no recall {recall_id!r} in this store")
        return record.value

    async def _append(self, recall_id: str, recall: Entry, verdict: Verdict) -> Verdict | None:
        """Write a verdict to the attempt's first free slot, together with the unwritten notes of its recall.

        Each slot is written once and says what counted before it, so verdicts can be added up in any order. Returns
        None for an evaluator's verdict if there is one already.
        """
        counting = counting_of(recall)
        before: float | None = None
        for n in range(_MOST_VERDICTS):
            slot = recall_id if n == 0 else f"{recall_id}:{n}"
            # Feedback replaces what counted before, an evaluator's verdict does not.
            replaces = before is None or verdict.kind == "feedback"
            noted = replace(verdict, before=before, counts=verdict.score if replaces else before)
            write = RecordWrite(OUTCOMES, slot, entry_of(noted, counting), must_be_new=True)
            with contextlib.suppress(ConflictError):
                await self._write([recall_id], write)
                return noted
            record = await self.records.get(OUTCOMES, slot)
            if record is None:
                break
            there = Verdict.read(record)
            if verdict.kind == there.kind == "evaluator":
                return None
            before = there.counts
        raise LessonStoreError(
            f"no verdict can be added to recall {recall_id!r}: it has {_MOST_VERDICTS}, or they are being deleted"
        )


def _without(value: JSON, *, lesson_id: str, parts: Sequence[str]) -> JSON | None:
    """Return an entry without a lesson in its lists ``parts``; None if none of them has it."""
    if not isinstance(value, Mapping):
        return None
    lists = {part: items for part in parts if isinstance(items := value.get(part), list | tuple)}
    kept = {part: [item for item in items if _id_of(item) != lesson_id] for part, items in lists.items()}
    changed = {part: items for part, items in kept.items() if len(items) != len(lists[part])}
    return {**value, **changed} if changed else None


def _id_of(item: JSON) -> JSON:
    return item.get("lesson_id") if isinstance(item, Mapping) else item


def _pick(run_id: str, recalls: Sequence[RunRecall], attempt: int | None, task_id: str | None) -> RunRecall:
    if not recalls:
        raise LessonStoreError(
            f"there is no run {run_id!r} in this store: check the id and the namespace (a run is known only if it has "
            "a lesson store, and one in another process only after its first outcome)"
        )
    mine = [each for each in recalls if task_id in (None, each.task_id)]
    if len({each.task_id for each in mine}) > 1:
        tasks = sorted({each.task_id for each in mine})
        raise LessonStoreError(f"run {run_id!r} did {len(tasks)} tasks: name one of {', '.join(tasks[:10])}")
    mine = [each for each in mine if attempt in (None, each.attempt)]
    if not mine:
        known = ", ".join(f"attempt {each.attempt} at task {each.task_id}" for each in recalls[:10])
        raise LessonStoreError(f"run {run_id!r} has no such attempt; it has {known}")
    # If an attempt was repeated after a crash, take the later recall.
    return mine[-1]
