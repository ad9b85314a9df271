"""The library: the journal's files and, beside each, its vector, so that reflections are found by meaning.

The files are the truth and the index follows: what a search finds is read from its file, so that nothing archived,
removed or edited comes back as it was. File and vector are both there or neither; what people edit and what a crash
left half done, :meth:`ReflectionLibrary.sync` takes over. Without an index, recall is by type, tool and recency.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Self, TypeAlias

import anyio
from anyio.to_thread import run_sync

from jeeves_reflexion.callables import aside
from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.lessons.injection import SHARED_NOTE, render
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.lessons.screening.characters import clean_characters, inert
from jeeves_reflexion.lessons.settings import checked_k
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.reflections.forms import FORMS, rule_of
from jeeves_reflexion.reflections.journal import Malformed, ReflectionJournal, Stored, read_file
from jeeves_reflexion.reflections.markdown import Entry, agent_slug, plain_id
from jeeves_reflexion.reflections.policy import ReflectionPolicy
from jeeves_reflexion.reflections.streams import StreamItem, Streams, flaw, flaw_of, relevance_for
from jeeves_reflexion.text import cut_middle, fence, one_line
from jeeves_reflexion.types import (
    JSON,
    Evaluation,
    Lesson,
    Provenance,
    Recall,
    RecalledLesson,
    Reflection,
    Task,
    Trial,
)
from vectorstores.base import Chunk, Page, SearchHit, VectorStore

SCOPE: Final = "/reflections"
_PAGE: Final = 200
_SPARE: Final = 30
"""How many hits beyond ``k`` a recall looks through for those whose files are still active."""

Near: TypeAlias = tuple[Stored, float, str]
"""A reflection with its similarity and the reason why it is recalled."""


class ReflectionLibrary:
    """A lesson store whose lessons are whole reflections, in files that people read and edit.

    ``index`` keeps the vectors, in the namespace ``<the store's>/reflections``; without one, recall is by task type and
    tool. ``agent`` narrows that recall to one agent's reflections; recall by meaning looks at every agent's.
    ``streams`` takes principles and procedures in; those that a person approved are offered beside what is recalled. A
    recalled lesson carries its reflection in ``metadata["reflection"]``. ``policy`` says what agents owe.
    ``async with`` does :meth:`sync`.
    """

    def __init__(
        self,
        journal: ReflectionJournal,
        index: VectorStore | None = None,
        *,
        agent: str | None = None,
        streams: Streams | None = None,
    ) -> None:
        self.journal = journal
        self.policy = ReflectionPolicy(journal)
        self.index = None if index is None else index.scoped(index.namespace + SCOPE)
        self.agent = agent
        self.streams = streams

    async def __aenter__(self) -> Self:
        await self.sync()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave the index open: it belongs to who made it."""

    # -- as a lesson store -----------------------------------------------------------------------------------------

    async def record(self, task: Task, reflection: Reflection, *, provenance: Provenance) -> Lesson:
        """Store a reflection: its file, its vector, its principle and procedure; durable when it returns.

        Raises :class:`~jeeves_reflexion.reflections.forms.ReflectionFormError`, naming the field, for one that its form
        refuses, and :class:`LessonStoreError` where nothing was stored, also for a reflection that commands its
        readers.
        """
        entry = await run_sync(self.journal.entry, task, reflection, provenance)
        return await run_sync(self._lesson, await self.add(entry))

    async def recall(
        self, task: Task, *, k: int, run_id: str = "", attempt: int = 0, skip_run: str = ""
    ) -> Recall:
        """Return the ``k`` reflections that matter most for a task: by similarity, or by type, tool and recency.

        Approved rules and playbooks come first, and take no place of the ``k``. What gives orders to its readers is
        left out, whoever wrote or approved it.
        """
        k = checked_k(k)
        if self.index is None:
            near = await run_sync(_relevant, (await self.journal.list(self.agent)).stored, task)
        else:
            # A run has at most one reflection of its own for each earlier attempt.
            near = await self._nearest(self.index, task.prompt, k + (attempt if skip_run else 0))
        if skip_run:
            near = [each for each in near if each[0].entry.source.run_id != plain_id(skip_run)]
        standing = () if self.streams is None else await self.streams.approved(task, self.agent)
        return await run_sync(self._screened, task, standing, near, k)

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """Note nothing: what a reflection was worth is measured by a store of lessons with credit."""
        return False

    # -- files and vectors -----------------------------------------------------------------------------------------

    async def add(self, entry: Entry) -> Stored:
        """Store an entry: its file, then its vector and what the streams take; removes the file if either fails."""
        if why := await run_sync(flaw_of, entry):
            raise LessonStoreError(f"the reflection is not stored, because it {why}: describe it generically")
        # Shielded, because a cancellation in between would leave a file of which nothing is known.
        with anyio.CancelScope(shield=True):
            stored = await self.journal.write(entry)
        try:
            await self._put([stored])
            await self._take(stored)
        except BaseException:
            # A vector without a file is found by no recall, and removed by sync().
            with anyio.CancelScope(shield=True):
                await self.journal.remove(stored)
            raise
        await self._retain(stored.entry.agent)
        return stored

    async def forget(self, id: str) -> bool:
        """Remove a reflection for good: vector, file, archived or not, and what the streams have of it alone.

        False if there is none.
        """
        stored = (*(await self.journal.list()).stored, *(await self.journal.list(archived=True)).stored)
        found = [one for one in stored if one.id == id]
        if self.streams is not None:
            await self.streams.forget(id)
        await self._drop([id])
        for one in found:
            await self.journal.remove(one)
        return bool(found)

    async def sync(self) -> tuple[Malformed, ...]:
        """Bring vectors and streams into step with the files, as people and crashes left them.

        Returns the files that can't be read: they are left alone, and so is what is known of them. Files beyond the
        last ones that are kept are archived. Vectors of an agent that has no file at all are left, for its folder may
        only be elsewhere today: no recall finds them.
        """
        for agent in {one.path.parent.name for one in (await self.journal.list()).stored}:
            await self._retain(agent)
        listing = await self.journal.list()
        there = {one.id: (self._path(one.path), one.digest) for one in listing.stored}
        agents = {path.partition("/")[0] for path, _ in there.values()}
        left = {self._path(bad.path) for bad in listing.malformed}
        known = await self._known()
        await self._put([one for one in listing.stored if known.get(one.id) != there[one.id]])
        gone = [(id, path) for id, (path, _) in known.items() if id not in there and path not in left]
        await self._drop([id for id, path in gone if path.partition("/")[0] in agents])
        for one in listing.stored:
            await self._take(one)
        return listing.malformed

    async def _known(self) -> dict[str, tuple[str, str]]:
        """Return path and digest of the file of each vector."""
        known: dict[str, tuple[str, str]] = {}
        page = Page((), None if self.index is None else "")
        while self.index is not None and page.next is not None:
            async with store_errors("list the vectors of reflections"):
                page = await self.index.scan(after=page.next or None, limit=_PAGE)
            for chunk in page.chunks:
                known[chunk.id] = (str(chunk.metadata["path"]), str(chunk.metadata["digest"]))
        return known

    def _path(self, path: Path) -> str:
        """Return where a file is below the journal's folder, in words that hold on every system."""
        return path.relative_to(self.journal.folder).as_posix()

    async def _put(self, files: Sequence[Stored]) -> None:
        if self.index is not None and files:
            chunks = await run_sync(lambda: [self._chunk(one) for one in files])
            async with store_errors("keep the vectors of reflections"):
                await self.index.add(chunks)

    def _chunk(self, one: Stored) -> Chunk:
        known: dict[str, JSON] = {"path": self._path(one.path), "digest": one.digest}
        return Chunk(redact(clean_characters(one.entry.body)), one.id, known)

    async def _drop(self, ids: Sequence[str]) -> None:
        if self.index is not None and ids:
            async with store_errors("delete the vectors of reflections"):
                await self.index.delete(ids)

    async def _take(self, stored: Stored) -> None:
        if self.streams is not None:
            await self.streams.take(replace(stored.entry, id=stored.id))

    async def _retain(self, agent: str) -> None:
        await self._drop([one.id for one in await self.journal.archive_older(agent)])

    async def _nearest(self, index: VectorStore, query: str, k: int) -> list[Near]:
        async with store_errors("search the vectors of reflections"):
            hits = await index.search(await aside(redact, query), k=k + _SPARE)
        return await run_sync(self._read_all, hits)

    def _read_all(self, hits: Iterable[SearchHit]) -> list[Near]:
        found = []
        for hit in hits:
            path: Path = self.journal.folder / str(hit.chunk.metadata["path"])
            one = read_file(path, path.parent.name)
            if isinstance(one, Stored) and one.id == hit.chunk.id:
                found.append((one, hit.score, "near the task"))
        return found

    def _screened(self, task: Task, standing: Sequence[StreamItem], near: Sequence[Near], k: int) -> Recall:
        """Offer what was approved and the first ``k`` that are advice; leave out what gives orders on the way."""
        offered: list[RecalledLesson] = []
        left_out: list[RecalledLesson] = []
        for item in standing:
            why = flaw(item.text)
            reason = f"held back, though approved: it {why}" if why else "approved by a person"
            (left_out if why else offered).append(RecalledLesson(_approved(item), 0.0, reason))
        most = len(offered) + k
        for one, score, reason in near:
            if len(offered) == most:
                break
            why = flaw_of(one.entry)
            said = f"held back: it {why}" if why else reason
            (left_out if why else offered).append(RecalledLesson(self._lesson(one), score, said))
        return Recall(uuid.uuid4().hex, task.id, tuple(offered), left_out=tuple(left_out))

    def _lesson(self, stored: Stored) -> Lesson:
        entry = stored.entry
        return Lesson(
            id=stored.id,
            text=redact(clean_characters(entry.reflection.lesson)),
            task_id=entry.task_id,
            task_excerpt=redact(clean_characters(entry.summary)),
            provenance=entry.source,
            task_kind=entry.task_kind,
            tools=entry.tools,
            outcome=entry.reflection.outcome,
            metadata={"reflection": redact(clean_characters(entry.body)), "path": str(stored.path)},
            trust="own" if self.agent is None or entry.agent == agent_slug(self.agent) else "shared",
            evidence=entry.reflection.evidence,
        )


def _relevant(stored: Sequence[Stored], task: Task) -> list[Near]:
    """Return the reflections that matter for a task without vectors, best first.

    First those of the same task type, then those about the same tool or API, the later of equals first. One that is
    neither is not relevant, however recent.
    """
    relevance = relevance_for(task)
    found = [(one, relevance(one.entry, one.entry.body)) for one in stored]
    fit = [(one, why) for one, why in found if any(why)]
    fit.sort(key=lambda each: (*map(bool, each[1]), *each[0].order), reverse=True)
    return [(one, 0.0, " and ".join(filter(None, why))) for one, why in fit]


def _approved(item: StreamItem) -> Lesson:
    return Lesson(
        id=item.id,
        text=redact(clean_characters(item.text)),
        task_id=item.task_id,
        task_excerpt="",
        provenance=Provenance("", 0, None, agent=item.agent),
        task_kind=item.task_kind,
        tools=item.tools,
        outcome="failed" if rule_of(item.text) else "success",
        state_reason=item.reason,
    )


# -- in a prompt: each retry sees all the reflections of the task's earlier attempts, in order. They don't compete for
# the few places of a recall, which leaves out what this run has stored itself

BODY_TOKENS: Final = 1500
HEAD: Final = "Your reflections on the earlier attempts at this very task, oldest first:"


def recalled_block(recall: Recall) -> str:
    """Write what a recall offers: whole reflections where the store has them, else its sentences.

    Other agents' reflections come last, fenced under a note that they are data.
    """
    lessons = [item.lesson for item in recall.offered]
    whole = [lesson for lesson in lessons if _body(lesson)]
    own = [inert(_body(lesson)) for lesson in whole if lesson.trust == "own"]
    others = [inert(_body(lesson), tags=True) for lesson in whole if lesson.trust != "own"]
    parts = [*own, render([lesson for lesson in lessons if not _body(lesson)])]
    if others:
        parts.append(fence("reflections_of_others", "\n\n".join(others), note=SHARED_NOTE))
    return "\n\n".join(filter(None, parts))


def chain_block(trials: Sequence[Trial]) -> str:
    """Write the reflections of a run's trials for a prompt, oldest first; empty where there is none."""
    parts = [_written(trial, trial.reflection) for trial in trials if trial.reflection is not None]
    return "\n\n".join([HEAD, *parts]) if parts else ""


def _body(lesson: Lesson) -> str:
    return cut_middle(str(lesson.metadata.get("reflection", "")), BODY_TOKENS)


def _written(trial: Trial, reflection: Reflection) -> str:
    score = trial.evaluation.score
    head = f"Attempt {trial.number} ({reflection.outcome}{'' if score is None else f', score {score:.2f}'})"
    told = [(each.heading, reflection.fields.get(each.key, "")) for each in FORMS[reflection.outcome].fields]
    lines = [f"{heading.rstrip('?:')}: {one_line(text)}" for heading, text in told if text.strip()]
    lines = lines or [f"Lesson: {one_line(reflection.lesson)}"]
    lines += [one_line(text) for text in (reflection.principle, reflection.procedure) if text]
    if flaw("\n".join((head, *lines))):
        lines = ["(What was written about it gave orders, and is left out.)"]
    return inert("\n- ".join((head, *lines)))
