"""The library: the journal's files and, beside each, its vector, so that reflections are found by meaning.

Seed 002, section 7. The files are the truth and the index follows: what a search finds is read from its file, so that
nothing archived, removed or edited comes back as it was. File and vector are both there or neither; what a crash left
half done, :meth:`ReflectionLibrary.repair` mends. Without an index the same calls work by task type, tool and recency.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Self, TypeAlias

import anyio
import anyio.to_thread

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons.screening.characters import clean_characters
from jeeves_reflexion.lessons.settings import checked_k
from jeeves_reflexion.redaction import redact, redact_id
from jeeves_reflexion.reflections.folder import Stored, read_file
from jeeves_reflexion.reflections.gate import flaw
from jeeves_reflexion.reflections.index import ReflectionIndex
from jeeves_reflexion.reflections.journal import ReflectionJournal
from jeeves_reflexion.reflections.markdown import Entry
from jeeves_reflexion.reflections.naming import agent_slug
from jeeves_reflexion.reflections.relevance import relevant
from jeeves_reflexion.reflections.streams import StreamItem, Streams
from jeeves_reflexion.reflections.syncing import Changes
from jeeves_reflexion.types import (
    Evaluation,
    Lesson,
    Provenance,
    Recall,
    RecalledLesson,
    Reflection,
    Task,
)
from vectorstores.base import VectorStore

_Near: TypeAlias = tuple[Stored, float, str]

_SPARE: Final = 10
_MOST: Final = 640
"""How many hits a recall looks through for those whose files are still active."""


class ReflectionLibrary:
    """A lesson store whose lessons are whole reflections, in files that people read and edit.

    ``index`` keeps the vectors, in a namespace of its own beside the store's; without one, recall is by task type and
    tool. ``agent`` narrows that recall to one agent's reflections; recall by meaning looks at every agent's.
    ``streams`` takes principles and procedures in; those that a person approved are offered beside what is recalled. A
    recalled lesson carries its reflection in ``metadata["reflection"]``. ``async with`` repairs what a crash left.
    """

    def __init__(
        self,
        journal: ReflectionJournal,
        index: VectorStore | None = None,
        *,
        agent: str | None = None,
        streams: Streams | None = None,
        min_similarity: float = -1.0,
    ) -> None:
        if not -1.0 <= min_similarity <= 1.0:
            raise ConfigurationError(f"min_similarity must lie in [-1, 1], not {min_similarity}")
        self.journal = journal
        self.index = None if index is None else ReflectionIndex(index, journal.folder)
        self.agent = agent
        self.streams = streams
        self.min_similarity = min_similarity
        self._unscored: set[str] = set()
        self._scored: set[str] = set()

    async def __aenter__(self) -> Self:
        await self.repair()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave the index open: it belongs to who made it."""

    # -- as a lesson store -----------------------------------------------------------------------------------------

    async def record(self, task: Task, reflection: Reflection, *, provenance: Provenance) -> Lesson:
        """Store a reflection: its file, its vector, its principle and procedure; durable when it returns.

        Raises :class:`~jeeves_reflexion.forms.ReflectionFormError`, naming the field, for one that its form refuses,
        and :class:`LessonStoreError` where nothing was stored, also for a reflection that commands its readers.
        """
        return self._lesson(await self.add(self.journal.entry(task, reflection, provenance)))

    async def recall(
        self, task: Task, *, k: int, run_id: str = "", attempt: int = 0, skip_run: str = ""
    ) -> Recall:
        """Return the ``k`` reflections that matter most for a task: by similarity, or by type, tool and recency.

        Approved rules and playbooks come first, and take no place of the ``k``. What gives orders to its readers is
        left out, whoever wrote or approved it.
        """
        k = checked_k(k)
        if self.index is None:
            found = (await self.journal.list(self.agent)).stored
            near = [(one, 0.0, why) for one, why in relevant(found, task, k=len(found))]
        else:
            # A run has at most one reflection of its own for each earlier attempt.
            own = attempt if skip_run else 0
            near = [(*hit, "near the task") for hit in await self._nearest(self.index, task.prompt, k + own)]
        if skip_run:
            near = [each for each in near if self._lesson(each[0]).provenance.run_id != redact_id(skip_run)]
        sound, flawed = await anyio.to_thread.run_sync(_screened, near, k)
        standing = () if self.streams is None else await self.streams.approved(task, self.agent)
        rules, unruly = await anyio.to_thread.run_sync(_sound, standing)
        offered = (
            *rules,
            *(RecalledLesson(self._lesson(one), score, why) for one, score, why in sound),
        )
        held = tuple(RecalledLesson(self._lesson(one), score, why) for one, score, why in flawed)
        recall = Recall(uuid.uuid4().hex, task.id, offered, left_out=(*unruly, *held))
        self._unscored.add(recall.id)
        return recall

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """Note that a recall's attempt was judged; True the first time.

        Kept as long as this object lives: what a reflection was worth is measured by a store of lessons with credit.
        """
        if recall_id in self._scored:
            return False
        if recall_id not in self._unscored:
            raise LessonStoreError(f"there is no recall {recall_id!r} of this library")
        self._unscored.discard(recall_id)
        self._scored.add(recall_id)
        return True

    # -- files and vectors -----------------------------------------------------------------------------------------

    async def add(self, entry: Entry) -> Stored:
        """Store an entry: the file, then its vector; where that fails, the file is taken back and the error raised."""
        if flaw := await anyio.to_thread.run_sync(flaw_of, entry):
            raise LessonStoreError(
                f"the reflection is not stored, because it {flaw}: describe it generically"
            )
        # Shielded, because a cancellation in between would leave a file of which nothing is known.
        with anyio.CancelScope(shield=True):
            stored = await self.journal.write(entry)
        if self.index is not None:
            try:
                await self.index.put([stored])
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self.journal.remove(stored)
                raise
        await self._take(stored)
        await self._retain(stored.entry.agent)
        return stored

    async def forget(self, id: str) -> bool:
        """Remove a reflection for good: vector, file, archived or not, and what the streams have of it alone.

        False if there is none.
        """
        listing = await self.journal.list() + await self.journal.list(archived=True)
        found = [one for one in listing.stored if one.id == id]
        if self.streams is not None:
            await self.streams.forget(id)
        if self.index is not None:
            await self.index.drop([id])
        for one in found:
            await self.journal.remove(one)
        return bool(found)

    async def repair(self) -> Changes:
        """Mend what a crash left half done, and return what else differs: that is for a person to see and apply.

        A file of ours without a vector gets one, a vector whose file is archived goes, and principles and procedures
        that are missing are noted. What people wrote, edited or removed by hand is left to :meth:`changes` and
        :meth:`apply`.
        """
        for agent in {one.entry.agent for one in (await self.journal.list()).stored}:
            await self._retain(agent)
        for one in (await self.journal.list()).stored if self.streams is not None else ():
            if one.entry.id:
                await self._take(one)
        changes = await self.changes()
        ours = tuple(one for one in changes.added if one.entry.id)
        archived = {one.id for one in (await self.journal.list(archived=True)).stored}
        gone = tuple(id for id in changes.removed if id in archived)
        await self.apply(Changes(added=ours, removed=gone))
        return Changes(
            tuple(one for one in changes.added if not one.entry.id),
            changes.changed,
            changes.moved,
            tuple(id for id in changes.removed if id not in archived),
            changes.malformed,
            changes.places,
        )

    async def changes(self) -> Changes:
        """Return how the files differ from the vectors; without an index, nothing does. Applies nothing."""
        if self.index is None:
            return Changes(malformed=(await self.journal.list()).malformed)
        return await self.journal.changes(await self.index.known())

    async def apply(self, changes: Changes) -> None:
        """Bring vectors and streams into step with the files, as :meth:`changes` showed them. The files stay."""
        files = (*changes.added, *changes.changed, *changes.moved)
        if self.index is not None:
            await self.index.put(files)
            await self.index.drop(changes.removed)
        for one in files:
            await self._take(one)

    async def _take(self, stored: Stored) -> None:
        if self.streams is not None:
            await self.streams.take(replace(stored.entry, id=stored.id))

    async def _retain(self, agent: str) -> None:
        older = await self.journal.archive_older(agent)
        if self.index is not None:
            await self.index.drop([one.id for one in older])

    async def _nearest(self, index: ReflectionIndex, query: str, k: int) -> list[tuple[Stored, float]]:
        """Search until ``k`` hits have an active file, or there are no more."""
        wanted = k + _SPARE
        while True:
            hits = await index.nearest(query, k=wanted, min_score=self.min_similarity)
            paths = [(id, path) for id, path, _ in hits]
            read = await anyio.to_thread.run_sync(_read_all, paths)
            found = [(one, hit.score) for one, (_, _, hit) in zip(read, hits, strict=True) if one is not None]
            if len(found) >= k or len(hits) < wanted or wanted >= _MOST:
                return found
            wanted = min(wanted * 4, _MOST)

    def _lesson(self, stored: Stored) -> Lesson:
        entry = stored.entry
        return Lesson(
            id=stored.id,
            text=redact(clean_characters(entry.reflection.lesson)),
            task_id=entry.task_id,
            task_excerpt=redact(entry.summary),
            provenance=entry.source,
            task_kind=entry.task_kind,
            tools=entry.tools,
            outcome=entry.reflection.outcome,
            metadata={"reflection": redact(clean_characters(entry.body)), "path": str(stored.path)},
            trust="own" if self.agent is None or entry.agent == agent_slug(self.agent) else "shared",
            evidence=entry.reflection.evidence,
        )


def _approved(item: StreamItem) -> Lesson:
    return Lesson(
        id=item.id,
        text=redact(clean_characters(item.text)),
        task_id=item.task_id,
        task_excerpt="",
        provenance=Provenance("", 0, None, agent=item.agent),
        task_kind=item.task_kind,
        tools=item.tools,
        outcome="success" if item.rule is None else "failed",
        state_reason=item.reason,
    )


def _read_all(hits: Sequence[tuple[str, Path]]) -> list[Stored | None]:
    read = [read_file(path, path.parent.name) for _, path in hits]
    return [
        one if isinstance(one, Stored) and one.id == id else None
        for one, (id, _) in zip(read, hits, strict=True)
    ]


def _screened(near: Sequence[_Near], k: int) -> tuple[list[_Near], list[_Near]]:
    """Return the first ``k`` that are advice, and those before them that are not, with the reason."""
    sound: list[_Near] = []
    flawed: list[_Near] = []
    for one, score, why in near:
        if len(sound) == k:
            break
        flaw = flaw_of(one.entry)
        if flaw:
            flawed.append((one, score, f"held back: it {flaw}"))
        else:
            sound.append((one, score, why))
    return sound, flawed


def flaw_of(entry: Entry) -> str:
    """Say how a reflection tries to command its readers; empty if it is advice."""
    return flaw("\n".join((entry.summary, entry.body)))


def _sound(standing: Sequence[StreamItem]) -> tuple[list[RecalledLesson], list[RecalledLesson]]:
    """Return the rules and playbooks that are advice, and those that are not, with the reason."""
    sound: list[RecalledLesson] = []
    flawed: list[RecalledLesson] = []
    for item in standing:
        why = flaw(item.text)
        reason = f"held back, though approved: it {why}" if why else "approved by a person"
        (flawed if why else sound).append(RecalledLesson(_approved(item), 0.0, reason))
    return sound, flawed
