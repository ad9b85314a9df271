"""The journal: reflections as Markdown files in a folder for each agent, shared by the processes of a machine.

Writers come one at a time under a lock of the agent's own. A file is written whole or not at all, and archived by
renaming it, so that a crash loses nothing and leaves none twice.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from anyio.to_thread import run_sync

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.files import not_written, read_regular, replace_file, sync_folder
from jeeves_reflexion.reflections.folder import (
    Malformed,
    agent_slug,
    free_path,
    locked,
    refuse_link,
    reported,
    slug,
    title_slug,
)
from jeeves_reflexion.reflections.markdown import Entry, MarkdownError, entry_of, from_markdown, to_markdown
from jeeves_reflexion.types import Provenance, Reflection, Task
from jeeves_reflexion.values import check_whole

DEFAULT_FOLDER: Final = Path("memory/reflections")
KEEP: Final = 30
MOST_BYTES: Final = 200_000
"""A larger file is no reflection; reading is bounded by it."""

_NAME: Final = re.compile(r"\d{4}-\d{2}-\d{2}-.+\.md")


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry and the file that it stands in. ``digest`` is that of the file's bytes; ``id`` is never empty."""

    path: Path
    entry: Entry
    id: str
    digest: str

    @property
    def order(self) -> tuple[datetime.date, float, str]:
        """What "the last 30" goes by: the date, then when it was written, then the name."""
        return (self.entry.date, self.entry.source.created_at, self.path.name)


@dataclass(frozen=True, slots=True)
class Listing:
    """What folders hold: reflections from the oldest to the newest, and what could not be read."""

    stored: tuple[Stored, ...] = ()
    malformed: tuple[Malformed, ...] = ()


class ReflectionJournal:
    """Reflections under ``folder``, by default ``memory/reflections`` below the working directory.

    The last ``keep`` of each agent stay active; older ones go to the archive of their year and are never deleted.
    Dates are UTC, so that machines agree on the name of a day. Everything is redacted before it is written. What fails
    raises :class:`LessonStoreError`; a reflection that its form refuses is a :class:`ReflectionFormError`, which names
    the field.
    """

    def __init__(self, folder: str | os.PathLike[str] = DEFAULT_FOLDER, *, keep: int = KEEP) -> None:
        check_whole("keep", keep)
        self.folder = Path(folder)
        self.keep = keep

    async def record(self, task: Task, reflection: Reflection, *, provenance: Provenance) -> Stored:
        """Write the reflection on a task to a file of its own, and archive what is beyond the last ``keep``."""
        stored = await self.write(await run_sync(self.entry, task, reflection, provenance))
        await self.archive_older(stored.entry.agent)
        return stored

    def entry(self, task: Task, reflection: Reflection, provenance: Provenance) -> Entry:
        """Return the entry of a reflection on a task, redacted, under a new id."""
        if not provenance.created_at:
            provenance = replace(provenance, created_at=time.time())
        return entry_of(task, reflection, provenance, id=uuid.uuid4().hex)

    async def write(self, entry: Entry) -> Stored:
        """Write an entry to a file of its own, durable when it returns; archives nothing."""
        return await run_sync(self._write, entry)

    async def archive_older(self, agent: str) -> tuple[Stored, ...]:
        """Archive what is beyond the last ``keep`` of an agent; return it as it was."""
        return await run_sync(self._archive_older, agent_slug(agent))

    async def list(self, agent: str | None = None, *, archived: bool = False) -> Listing:
        """Return the reflections of an agent, or of all, oldest first, with the files that could not be read."""

        def read() -> Listing:
            names = self._agents() if agent is None else [agent_slug(agent)]
            found = [self.read(name, archived=archived) for name in names]
            stored = sorted((one for each in found for one in each.stored), key=lambda one: one.order)
            return Listing(tuple(stored), tuple(bad for each in found for bad in each.malformed))

        return await run_sync(read)

    async def remove(self, stored: Stored) -> None:
        """Remove the file of a reflection; one that has gone is passed over."""

        def unlink() -> None:
            with locked(self.folder / stored.path.relative_to(self.folder).parts[0]):
                stored.path.unlink(missing_ok=True)
                if stored.path.parent.exists():
                    sync_folder(stored.path.parent)

        await run_sync(unlink)

    # -- blocking --------------------------------------------------------------------------------------------------

    def read(self, agent: str, *, archived: bool = False) -> Listing:
        """Return the active reflections of an agent's folder, or the archived ones; blocks."""
        folder = self.folder / agent
        with reported(folder, "read"):
            refuse_link(folder)
            found = sorted((folder / "archive").glob("[0-9]*/*.md") if archived else folder.glob("*.md"))
        stored: dict[str, Stored] = {}
        malformed: tuple[Malformed, ...] = ()
        for path in found:
            one = read_file(path, agent)
            if isinstance(one, Malformed):
                malformed = (*malformed, one)
            elif one is not None:
                if one.id in stored:  # a copy, made by hand: it is a reflection of its own
                    one = replace(one, id=_id_of(path, agent))
                stored[one.id] = one
        return Listing(tuple(sorted(stored.values(), key=lambda one: one.order)), malformed)

    def _agents(self) -> Sequence[str]:
        with reported(self.folder, "read"):
            found = self.folder.iterdir() if self.folder.exists() else ()
            return sorted(
                path.name
                for path in found
                if path.is_dir() and not path.name.startswith(".") and not path.is_symlink()
            )

    def _write(self, entry: Entry) -> Stored:
        folder, text = self.folder / entry.agent, to_markdown(entry)
        archive = self._archive(entry)
        with locked(folder):
            for left in folder.glob("*.part"):  # of a writer that was killed
                left.unlink(missing_ok=True)
            # The reflection's own words: the tasks of one kind begin alike.
            title = entry.reflection.lesson if slug(entry.reflection.lesson) else entry.summary
            path = free_path(folder, f"{entry.date}-{title_slug(title)}", archive)
            try:
                replace_file(path, text)
            except OSError as error:
                raise LessonStoreError(f"the reflection {not_written(path, error)}") from error
        return Stored(
            path, entry, entry.id or _id_of(path, entry.agent), _digest(text.encode("utf-8", "replace"))
        )

    def _archive_older(self, agent: str) -> tuple[Stored, ...]:
        if len(self.read(agent).stored) <= self.keep:
            return ()
        folder = self.folder / agent
        with locked(folder):
            stored = self.read(agent).stored
            older = stored[: max(len(stored) - self.keep, 0)]
            for one in older:
                years = self._archive(replace(one.entry, agent=agent))
                years.mkdir(parents=True, exist_ok=True, mode=0o700)
                one.path.rename(free_path(years, one.path.stem))
                sync_folder(years)
            sync_folder(folder)
        return older

    def _archive(self, entry: Entry) -> Path:
        return self.folder / entry.agent / "archive" / f"{entry.date.year:04d}"


def read_file(path: Path, agent: str) -> Stored | Malformed | None:
    """Read one file; None if it has gone. Blocks."""
    try:
        data = read_regular(path, MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Malformed(path, f"it can't be read: {error}")
    if not _NAME.fullmatch(path.name):
        return Malformed(path, "its name must be YYYY-MM-DD-<short-title>.md: rename it")
    try:
        entry = from_markdown(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        return Malformed(path, f"it is no UTF-8 text: save it as UTF-8: {error}")
    except MarkdownError as error:
        return Malformed(path, str(error))
    return Stored(path, entry, entry.id or _id_of(path, agent), _digest(data))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _id_of(path: Path, agent: str) -> str:
    return _digest(f"{agent}/{path.name}".encode("utf-8", "surrogatepass"))
