"""The library: the files of a journal, and an index with a vector for each, so that reflections are found by meaning.

The files are the truth, and the index follows them: each hit of a search is read from its file, so that a file that was
archived, removed or edited is never recalled as it was. :meth:`ReflectionLibrary.sync` brings the index into step with
what people edited and what a crash left half done. Without an index, recall is by task type, tool and recency.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
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
from jeeves_reflexion.reflections.forms import FORMS, PRINCIPLE
from jeeves_reflexion.reflections.journal import Listing, Malformed, ReflectionJournal, Stored, read_file
from jeeves_reflexion.reflections.markdown import agent_slug, entry_of, plain_id
from jeeves_reflexion.reflections.policy import ReflectionPolicy
from jeeves_reflexion.reflections.streams import StreamItem, Streams, flaw, flaw_of, relevances
from jeeves_reflexion.text import cut_middle, fence, one_line
from jeeves_reflexion.types import (
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

    ``index`` stores the vectors, in the namespace ``<the store's>/reflections``; without one, recall is by task type
    and tool. ``agent`` narrows that recall to one agent's reflections; recall by meaning searches those of all agents.
    ``streams`` collects principles and procedures; those that a person approved are recalled too. A recalled lesson
    has its reflection in ``metadata["reflection"]``. ``policy`` says which reflections agents owe. ``async with`` calls
    :meth:`sync`.
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
        """Do nothing: the index belongs to whoever opened it."""

    # -- as a lesson store -----------------------------------------------------------------------------------------

    async def record(self, task: Task, reflection: Reflection, *, provenance: Provenance) -> Lesson:
        """Store a reflection: its file, its vector, its principle and procedure; durable when it returns.

        Raises :class:`~jeeves_reflexion.reflections.forms.ReflectionFormError`, which names the field, if the form is
        not filled in correctly, and :class:`LessonStoreError` if storing fails or the reflection gives orders to its
        readers. Nothing is stored then.
        """
        source = replace(provenance, created_at=provenance.created_at or time.time())
        entry = await run_sync(partial(entry_of, task, reflection, source, id=uuid.uuid4().hex))
        if why := await run_sync(flaw_of, entry):
            raise LessonStoreError(f"the reflection is not stored, because it {why}: describe it generically")
        # Shielded, because a cancellation here could leave a file that nobody knows of.
        with anyio.CancelScope(shield=True):
            stored = await run_sync(self.journal.write, entry)
        try:
            await self._put([stored])
            if self.streams is not None:
                await self.streams.take(entry)
        except BaseException:
            # No recall finds a vector without a file, and sync() removes it.
            with anyio.CancelScope(shield=True):
                await run_sync(self.journal.remove, stored)
            raise
        await self._drop([one.id for one in await run_sync(self.journal.archive_older, entry.agent)])
        return await run_sync(self._lesson, stored)

    async def recall(
        self, task: Task, *, k: int, run_id: str = "", attempt: int = 0, skip_run: str = ""
    ) -> Recall:
        """Return the ``k`` reflections that matter most for a task: by similarity, or by type, tool and recency.

        Approved rules and playbooks come first, and do not count towards ``k``. A text that gives orders to its readers
        is left out, whoever wrote or approved it.
        """
        k = checked_k(k)
        if self.index is None:
            near = await run_sync(self._relevant, task)
        else:
            # A run has at most one reflection of its own for each earlier attempt.
            most = k + (attempt if skip_run else 0) + _SPARE
            async with store_errors("search the vectors of reflections"):
                hits = await self.index.search(await aside(redact, task.prompt), k=most)
            near = await run_sync(self._read_files, hits)
        if skip_run:
            near = [each for each in near if each[0].entry.source.run_id != plain_id(skip_run)]
        approved = () if self.streams is None else await self.streams.approved(task, self.agent)
        return await run_sync(self._screened, task, approved, near, k)

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """Do nothing: only a lesson store with credit measures the effect of its lessons."""
        return False

    # -- files and vectors -----------------------------------------------------------------------------------------

    async def forget(self, id: str) -> bool:
        """Remove a reflection for good: its vector, its file, archived or not, and stream items from it alone.

        Returns False if it does not exist.
        """
        files = [one for one in await run_sync(self.journal.everything) if one.id == id]
        if self.streams is not None:
            await self.streams.forget(id)
        await self._drop([id])
        for one in files:
            await run_sync(self.journal.remove, one)
        return bool(files)

    async def sync(self) -> tuple[Malformed, ...]:
        """Bring vectors and streams into step with the files, as people and crashes left them.

        Returns the files that can't be read; they and their vectors stay as they are. Files beyond the last ``keep``
        are archived. Vectors of an agent without any file stay too, for its folder may just be elsewhere; no recall
        finds them.
        """
        for agent in {one.path.parent.name for one in (await run_sync(self.journal.list)).stored}:
            await self._drop([one.id for one in await run_sync(self.journal.archive_older, agent)])
        listing = await run_sync(self.journal.list)
        if self.index is not None:
            await self._sync_index(self.index, listing)
        if self.streams is not None:
            for one in listing.stored:
                await self.streams.take(replace(one.entry, id=one.id))
        return listing.malformed

    async def _sync_index(self, index: VectorStore, listing: Listing) -> None:
        """Store the vectors of new and edited files, and delete those of files that are gone."""
        files = {one.id: (self._path(one.path), one.digest) for one in listing.stored}
        agents = {path.partition("/")[0] for path, _ in files.values()}
        unreadable = {self._path(bad.path) for bad in listing.malformed}
        current, lost = set[str](), list[str]()
        page = Page((), "")
        while page.next is not None:
            async with store_errors("list the vectors of reflections"):
                page = await index.scan(after=page.next or None, limit=_PAGE)
            for chunk in page.chunks:
                path, digest = str(chunk.metadata["path"]), str(chunk.metadata["digest"])
                if files.get(chunk.id) == (path, digest):
                    current.add(chunk.id)
                elif chunk.id not in files and path not in unreadable and path.partition("/")[0] in agents:
                    lost.append(chunk.id)
        await self._put([one for one in listing.stored if one.id not in current])
        await self._drop(lost)

    def _path(self, path: Path) -> str:
        """Return the path of a file below the journal's folder, the same on every system."""
        return path.relative_to(self.journal.folder).as_posix()

    async def _put(self, files: Sequence[Stored]) -> None:
        if self.index is None or not files:
            return
        texts = await run_sync(lambda: [redact(clean_characters(one.entry.body)) for one in files])
        chunks = [
            Chunk(text, one.id, {"path": self._path(one.path), "digest": one.digest})
            for one, text in zip(files, texts, strict=True)
        ]
        async with store_errors("keep the vectors of reflections"):
            await self.index.add(chunks)

    async def _drop(self, ids: Sequence[str]) -> None:
        if self.index is not None and ids:
            async with store_errors("delete the vectors of reflections"):
                await self.index.delete(ids)

    def _relevant(self, task: Task) -> list[Near]:
        """Return the reflections that matter for a task, without vectors, best first.

        Those of the same task type come first, then those about the same tool or API; newer before older. Others are
        not relevant, however recent.
        """
        stored = self.journal.list(self.agent).stored
        reasons = relevances(task, [(one.entry, one.entry.body) for one in stored])
        fit = [(one, why) for one, why in zip(stored, reasons, strict=True) if any(why)]
        fit.sort(key=lambda each: (*map(bool, each[1]), *each[0].order), reverse=True)
        return [(one, 0.0, " and ".join(filter(None, why))) for one, why in fit]

    def _read_files(self, hits: Iterable[SearchHit]) -> list[Near]:
        near: list[Near] = []
        for hit in hits:
            path: Path = self.journal.folder / str(hit.chunk.metadata["path"])
            one = read_file(path, path.parent.name)
            if isinstance(one, Stored) and one.id == hit.chunk.id:
                near.append((one, hit.score, "near the task"))
        return near

    def _screened(self, task: Task, approved: Sequence[StreamItem], near: Sequence[Near], k: int) -> Recall:
        """Offer the approved items and the first ``k`` reflections; leave out those that give orders."""
        offered: list[RecalledLesson] = []
        left_out: list[RecalledLesson] = []
        for item in approved:
            lesson = Lesson(
                id=item.id,
                text=redact(clean_characters(item.text)),
                task_id=item.task_id,
                task_excerpt="",
                provenance=Provenance("", 0, None, agent=item.agent),
                task_kind=item.task_kind,
                tools=item.tools,
                outcome="failed" if item.text.startswith(PRINCIPLE) else "success",
                state_reason=item.reason,
            )
            why = flaw(item.text)
            reason = f"held back, though approved: it {why}" if why else "approved by a person"
            (left_out if why else offered).append(RecalledLesson(lesson, 0.0, reason))
        most = len(offered) + k
        for one, score, relevance in near:
            if len(offered) == most:
                break
            why = flaw_of(one.entry)
            reason = f"held back: it {why}" if why else relevance
            (left_out if why else offered).append(RecalledLesson(self._lesson(one), score, reason))
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


# -- in a prompt. A retry sees all reflections on the earlier attempts of its run, in order. They do not compete for the
# few places of a recall, which leaves out what this run has stored

BODY_TOKENS: Final = 1500
HEAD: Final = "Your reflections on the earlier attempts at this very task, oldest first:"


def recalled_block(recall: Recall) -> str:
    """Return a recall as text for a prompt: reflections, else lessons; those of other agents last, fenced as data."""
    own: list[str] = []
    others: list[str] = []
    short: list[Lesson] = []
    for lesson in (item.lesson for item in recall.offered):
        body = cut_middle(str(lesson.metadata.get("reflection", "")), BODY_TOKENS)
        if not body:
            short.append(lesson)
        elif lesson.trust == "own":
            own.append(inert(body))
        else:
            others.append(inert(body, tags=True))
    parts = [*own, render(short)]
    if others:
        parts.append(fence("reflections_of_others", "\n\n".join(others), note=SHARED_NOTE))
    return "\n\n".join(filter(None, parts))


def chain_block(trials: Sequence[Trial]) -> str:
    """Return the reflections of a run's trials as text for a prompt, oldest first; empty without any."""
    parts = []
    for trial in trials:
        reflection, score = trial.reflection, trial.evaluation.score
        if reflection is None:
            continue
        head = (
            f"Attempt {trial.number} ({reflection.outcome}{'' if score is None else f', score {score:.2f}'})"
        )
        fields = [
            (each.heading, reflection.fields.get(each.key, "")) for each in FORMS[reflection.outcome].fields
        ]
        lines = [f"{heading.rstrip('?:')}: {one_line(text)}" for heading, text in fields if text.strip()]
        lines = lines or [f"Lesson: {one_line(reflection.lesson)}"]
        lines += [one_line(text) for text in (reflection.principle, reflection.procedure) if text]
        if flaw("\n".join((head, *lines))):
            lines = ["(What was written about it gave orders, and is left out.)"]
        parts.append(inert("\n- ".join((head, *lines))))
    return "\n\n".join([HEAD, *parts]) if parts else ""
