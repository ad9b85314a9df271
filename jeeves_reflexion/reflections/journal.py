"""The journal: reflections as Markdown files in a folder for each agent, shared by the processes of a machine."""

from __future__ import annotations

import datetime
import os
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio.to_thread

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons.screening.characters import clean_characters
from jeeves_reflexion.redaction import redact_id, redact_record
from jeeves_reflexion.reflections import folder as files
from jeeves_reflexion.reflections.folder import Listing, Stored
from jeeves_reflexion.reflections.markdown import Entry, entry_of
from jeeves_reflexion.reflections.naming import agent_slug
from jeeves_reflexion.reflections.relevance import relevant
from jeeves_reflexion.reflections.syncing import Changes, Known, compare
from jeeves_reflexion.types import Provenance, Reflection, Task

T = TypeVar("T")

DEFAULT_FOLDER: Final = Path("memory/reflections")
KEEP: Final = 30


class ReflectionJournal:
    """Reflections under ``folder``, by default ``memory/reflections`` below the working directory.

    The last ``keep`` of each agent stay active; older ones go to the archive of their year and are never deleted.
    ``zone`` is the time zone of the dates, UTC by default, so that machines agree on the name of a day. Everything is
    redacted before it is written. What fails raises :class:`LessonStoreError`; a reflection that its form refuses is a
    :class:`ReflectionFormError`, which names the field.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] = DEFAULT_FOLDER,
        *,
        keep: int = KEEP,
        zone: datetime.tzinfo = datetime.UTC,
    ) -> None:
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise ConfigurationError(f"keep must be a whole number of at least 1, not {keep!r}")
        self.folder = Path(folder)
        self.keep = keep
        self.zone = zone

    async def record(self, task: Task, reflection: Reflection, *, provenance: Provenance) -> Stored:
        """Write the reflection on a task to a file of its own, and archive what is beyond the last ``keep``."""
        stored = await self.write(self.entry(task, reflection, provenance))
        await self.archive_older(stored.entry.agent)
        return stored

    def entry(self, task: Task, reflection: Reflection, provenance: Provenance) -> Entry:
        """Return the entry of a reflection on a task, under a new id. :meth:`write` redacts it."""
        if not provenance.created_at:
            provenance = replace(provenance, created_at=time.time())
        return entry_of(task, reflection, provenance, id=uuid.uuid4().hex, zone=self.zone)

    async def write(self, entry: Entry) -> Stored:
        """Write an entry to a file of its own, redacted; archives nothing."""
        return await self._do(partial(files.write_entry, self.folder, cleaned(entry)))

    async def archive_older(self, agent: str) -> list[Stored]:
        """Archive what is beyond the last ``keep`` of an agent; return it as it was."""
        return await self._do(partial(files.archive_older, self.folder, agent_slug(agent), self.keep))

    async def list(self, agent: str | None = None, *, archived: bool = False) -> Listing:
        """Return the reflections of an agent, or of all, oldest first, with the files that could not be read."""
        return await self._do(partial(self._list, agent, archived=archived))

    async def recent(self, agent: str | None = None, *, k: int = 3) -> tuple[Stored, ...]:
        """Return the last ``k`` reflections, the newest first."""
        found = (await self.list(agent)).stored
        return tuple(reversed(found[-k:])) if k > 0 else ()

    async def relevant(self, task: Task, agent: str | None = None, *, k: int = 3) -> tuple[Stored, ...]:
        """Return the ``k`` reflections that matter most for a task: same type, then same tool or API, then recency."""
        found = (await self.list(agent)).stored
        return tuple(one for one, _ in relevant(found, task, k=k))

    async def changes(self, known: Mapping[str, Known]) -> Changes:
        """Return how the active files differ from what is known of them, by id; applies nothing."""
        return compare(await self.list(), known, self.folder)

    async def remove(self, stored: Stored) -> None:
        """Remove the file of a reflection."""
        await self._do(partial(files.remove_files, self.folder, stored.path.parent.name, [stored.path]))

    def _list(self, agent: str | None, *, archived: bool) -> Listing:
        names = files.agents(self.folder) if agent is None else [agent_slug(agent)]
        return sum((files.read_folder(self.folder, name, archived=archived) for name in names), Listing())

    async def _do(self, call: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(call)


def cleaned(entry: Entry) -> Entry:
    """Return an entry without characters that hide or disguise, without secrets and without personal data.

    Ids of ours are random, or hashes: they are kept, whatever they look like.
    """
    told = entry.reflection
    plain = replace(
        told,
        fields={key: clean_characters(text) for key, text in told.fields.items()},
        principle=None if told.principle is None else clean_characters(told.principle),
        procedure=None if told.procedure is None else clean_characters(told.procedure),
    )
    clean = redact_record(replace(entry, reflection=plain, summary=clean_characters(entry.summary)))
    return replace(
        clean,
        agent=agent_slug(clean.agent),
        id=redact_id(entry.id),
        task_id=redact_id(entry.task_id),
        source=replace(clean.source, run_id=redact_id(entry.source.run_id)),
    )
